"""PubMed: what is sent, records as items, and failures that are never an empty page."""

import json
from pathlib import Path

import pytest
from websearch.answering import Answering
from websearch.taped import AT, Taped

from retrieve_cli.contracts.websearch import Id, Item, Page, Response, WebQuery
from retrieve_cli.websearch.providers.pubmed import PubMed
from retrieve_cli.websearch.providers.pubmed_xml import records

PROVIDER = "pubmed"
QUERY = WebQuery("guides", 3)
FOUND = {"esearchresult": {"count": "2", "idlist": ["99000001", "99000002"]}}


def article(pmid: str, title: str, inside: str = "") -> str:
    """Return a record with little in it."""
    return (
        f"<PubmedArticle><MedlineCitation><PMID>{pmid}</PMID><Article><ArticleTitle>{title}</ArticleTitle>{inside}"
        "</Article></MedlineCitation></PubmedArticle>"
    )


def by_pmid(page: Page, pmid: str) -> Item:
    return next(item for item in page.items if Id("pmid", pmid) in item.ids)


def read(xml: str) -> Item:
    """Return the record 99000001 of some XML."""
    body = f"<PubmedArticleSet>{xml}</PubmedArticleSet>".encode()
    item = records(Response(200, body, AT))["99000001"]
    assert item is not None
    return item


# ----------------------------------------------------------------------------------------------- what is sent


def test_the_page_says_what_was_sent_with_operators_and_date_and_which_words_pubmed_drops(page: Page) -> None:
    assert page.query == '"guide RNA"[tiab] mismatch xqzzy (datetype=pdat, mindate=2019/06, maxdate=3000)'
    assert "PubMed does not know “xqzzy” and searched without it" in page.notices


def test_results_have_the_order_of_the_search_whatever_that_of_the_records(page: Page) -> None:
    pmids = [next(one.value for one in item.ids if one.kind == "pmid") for item in page.items]
    assert pmids == ["99000003", "99000001", "99000007", "99000002", "99000004", "99000005", "99000006"]
    assert page.total == 41


def test_credentials_and_the_contact_address_are_places_and_never_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCBI_API_KEY", "a-secret-key")
    monkeypatch.setenv("NCBI_EMAIL", "someone@example.org")
    taped = Taped("pubmed")
    PubMed().search(taped.query, taped)
    assert len(taped.calls) == 2
    for call in taped.calls:
        assert call.parameters["tool"] == "retrieve-cli"
        assert {(place.variable, place.name, place.where) for place in call.keys} == {
            ("NCBI_EMAIL", "email", "parameter"),
            ("NCBI_API_KEY", "api_key", "parameter"),
        }
        assert "secret" not in repr(call)
        assert "someone" not in repr(call)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ('"base editing"[ti] AND (human OR mouse)', '"base editing"[ti] AND (human OR mouse)'),
        ("cancer[mh:noexp] gene[Title/Abstract:~3]", "cancer[mh:noexp] gene[Title/Abstract:~3]"),
        ("2020:2023[dp] NOT review[pt]", "2020:2023[dp] NOT review[pt]"),
        ("“smart quotes” stay", '"smart quotes" stay'),
        ('an "unfinished phrase', "an unfinished phrase"),
        ("one) of (these", "one of these"),
        ("((nested) once", "nested once"),
        ("((a) OR ((b c)))", "((a) OR ((b c)))"),
        ("[18F]FDG uptake", "18F FDG uptake"),
        ("open [bracket", "open bracket"),
        ("gene #1", "gene 1"),
        ("AND a word OR", "a word"),
    ],
)
def test_operators_stay_and_what_does_not_balance_is_text(text: str, sent: str) -> None:
    fetch = Answering({"esearchresult": {"count": "0", "idlist": []}})
    page = PubMed().search(WebQuery(text, 5), fetch)
    assert fetch.calls[0].parameters["term"] == sent
    assert page.query == sent


# ----------------------------------------------------------------------------------------------- records as items


def test_an_abstract_is_complete_with_the_labels_of_its_parts_and_without_markup(page: Page) -> None:
    item = by_pmid(page, "99000001")
    assert item.title == "Mismatch tolerance of guide RNAs in Exempla ficta: CO2 stress & repair at p < 0.01"
    assert item.abstract == (
        "BACKGROUND: Guides tolerate some mismatches, and nobody counts them the same way. "
        "METHODS: We invented 1,200 guides in E. ficta and counted edits. "
        "RESULTS: Tolerance fell with distance from the seed (r=0.8). Code is at https://example.org/guides."
    )


def test_identifiers_are_those_of_the_article_and_not_of_what_it_cites(page: Page) -> None:
    ids = {one for one in by_pmid(page, "99000001").ids if one.kind != "url"}
    assert ids == {Id("pmid", "99000001"), Id("pmcid", "PMC99000001"), Id("doi", "10.5555/jig.2024.0301")}


def test_a_date_has_the_precision_that_the_record_gives(page: Page) -> None:
    dates = {pmid: by_pmid(page, pmid).date for pmid in (f"9900000{number}" for number in range(1, 8))}
    assert dates == {
        "99000001": "2024-02-09",  # electronic, before the issue of March
        "99000002": "2023-02-03",
        "99000003": "2024-04",
        "99000004": "2020-12-01",
        "99000005": "2022",  # Nov-Dec
        "99000006": "2021",  # Summer
        "99000007": "2023-08-07",
    }


def test_types_distinguish_preprints_and_datasets_from_articles(page: Page) -> None:
    types = {item.ids[0].value: item.type for item in page.items}
    assert [types[f"9900000{number}"] for number in (2, 6)] == ["preprint", "dataset"]
    assert [types[f"9900000{number}"] for number in (1, 3, 4, 5, 7)] == ["article"] * 5
    assert len(types) == 7


def test_a_retraction_is_reported_and_its_absence_is_not_a_claim(page: Page) -> None:
    assert by_pmid(page, "99000004").retracted is True
    assert by_pmid(page, "99000001").retracted is None


TITLES = {"A title.": "A title", "[A translation].": "A translation", "[a] and [b].": "[a] and [b]", "Why...": "Why..."}


def test_a_record_that_is_missing_or_has_no_title_is_a_notice(page: Page) -> None:
    assert [notice for notice in page.notices if "99000008" in notice]
    body = article(pmid="99000001", title="") + article(pmid="99000002", title="Guides")
    found = PubMed().search(QUERY, Answering(FOUND, f"<PubmedArticleSet>{body}</PubmedArticleSet>".encode()))
    assert [item.title for item in found.items] == ["Guides"]
    assert [notice for notice in found.notices if "99000001" in notice]


def test_recorded_exchanges_have_neither_keys_nor_addresses() -> None:
    text = (Path(__file__).parent / "providers" / "pubmed.json").read_text("utf-8")
    requests = [one["request"] for one in json.loads(text)["exchanges"]]
    assert not any({"api_key", "email"} & set(request["parameters"]) for request in requests)
