"""bioRxiv: keywords through Europe PMC."""

from typing import Any

import pytest
from websearch.answering import Answering
from websearch.taped import Taped

from retrieve_cli.contracts.websearch import Id, WebQuery
from retrieve_cli.websearch.providers.biorxiv import BioRxiv

RESTRICTED = 'AND SRC:PPR AND (PUBLISHER:"bioRxiv" OR PUBLISHER:"medRxiv")'
NOTHING = {"hitCount": 0, "resultList": {"result": []}}


def found(**fields: Any) -> dict[str, Any]:
    entry = {"id": "PPR1", "source": "PPR", "doi": "10.1101/2024.1", "title": "Guides", **fields}
    return {"hitCount": 1, "resultList": {"result": [entry]}}


def test_keywords_ask_europe_pmc_for_preprints_of_both_servers() -> None:
    taped = Taped("biorxiv")
    page = BioRxiv().search(taped.query, taped)
    assert page.query == f"(guide RNA mismatch) AND FIRST_PDATE:[2023-01-01 TO 3000-12-31] {RESTRICTED}"
    assert [(one.type, one.venue) for one in page.items] == [("preprint", "bioRxiv"), ("preprint", "medRxiv")]
    assert [one.license for one in page.items] == ["", "CC-BY-NC-ND-4.0"]
    assert page.items[0].ids[0] == Id("doi", "10.1101/2023.02.03.999001")
    assert page.items[0].authors == ("Inês M Ferreira", "Chidi Okafor")
    assert page.items[0].title == "Guide RNAs in Exempla ficta tolerate mismatches"


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("CRISPR: a review?", "CRISPR"),
        ('"base editing" AND (human OR mouse)', '"base editing" AND (human OR mouse)'),
        ("SRC:MED [x TO y] wild*", "SRC MED x TO y wild"),
        ("one) of (these", "one"),
    ],
)
def test_only_phrases_and_operators_are_syntax(text: str, sent: str) -> None:
    fetch = Answering(found())
    page = BioRxiv().search(WebQuery(text, 5), fetch)
    assert page.query.startswith(f"({sent}")
    assert ":" not in page.query.removesuffix(RESTRICTED)


def test_a_natural_question_is_asked_by_its_content_words_and_then_by_fewer() -> None:
    fetch = Answering(NOTHING, found())
    page = BioRxiv().search(WebQuery("What are the effects of guides in human neurons?", 5), fetch)
    assert [call.parameters["query"].partition(")")[0] for call in fetch.calls] == [
        "(effects guides human neurons",
        "(effects guides neurons",
    ]
    assert page.notices == ("bioRxiv has nothing with all words: searched for 'effects guides neurons'",)


def test_a_retracted_preprint_says_so_and_one_without_a_title_is_counted() -> None:
    notice = {"commentCorrection": [{"type": "Retraction in"}]}
    assert BioRxiv().search(WebQuery("q", 5), Answering(found(commentCorrectionList=notice))).items[0].retracted
    answer = found()
    answer["resultList"]["result"].append({"id": "PPR2"})
    page = BioRxiv().search(WebQuery("q", 5), Answering(answer))
    assert page.notices == ("skipped 1 result without a title or an identifier",)
