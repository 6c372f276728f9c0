"""Semantic Scholar: papers against the package `semanticscholar`, and failures."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from websearch.answering import Answering, json_values
from websearch.taped import Taped
from websearch.test_arxiv import words

from retrieve_cli.contracts.websearch import Id, Item, KeyPlace, Page, WebQuery
from retrieve_cli.websearch import dates, ids
from retrieve_cli.websearch.providers.semantic_scholar import SemanticScholar

PROVIDER = "s2"
QUERY = WebQuery("off-target guides", 10)
SHA = "00000000000000000000000000000000000ab001"


def search(body: Any, query: WebQuery = QUERY) -> Page:
    return SemanticScholar().search(query, Answering(body))


def paper(**given_: Any) -> dict[str, Any]:
    return {"paperId": SHA, "title": "A title", **given_}


def read(**given_: Any) -> Item:
    (item,) = search({"total": 1, "offset": 0, "data": [paper(**given_)]}).items
    return item


# --------------------------------------------------------------------------------------------- the answer


def test_papers_become_items(page: Page) -> None:
    first = page.items[0]
    assert (page.total, page.query, len(page.items)) == (6, "crispr off target", 6)
    assert [item.type for item in page.items] == ["article", "preprint", "article", "article", "dataset", "article"]
    assert first.ids == (
        Id("doi", "10.5555/jige.2024.0101"),
        Id("pmid", "99000101"),
        Id("pmcid", "PMC99000101"),
        Id("arxiv", "2401.99001"),
        Id("s2", f"{0x2401:040x}"),
        Id("url", f"https://semanticscholar.org/paper/{0x2401:040x}"),
    )
    assert first.authors == ("Ilse Varga", "Tomás Ø. Quill", "H. Nakagome-Stein")
    assert (first.date, first.venue, first.citations) == ("2024-06-11", "Journal of Invented Genome Editing", 41)
    assert (first.open_access, first.license, first.retracted) == (True, "CC BY", None)
    assert first.pdf_url == "https://example.org/jige/2024/0101.pdf"
    assert first.abstract.startswith("Guide RNAs cut at sites")


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"publicationTypes": ["Review"]}, "article"),
        ({"publicationTypes": ["LettersAndComments"]}, "article"),
        ({"publicationTypes": ["Dataset", "JournalArticle"]}, "article"),
        ({"publicationTypes": ["Dataset"]}, "dataset"),
        ({"publicationTypes": None}, "article"),
        ({"venue": "bioRxiv"}, "preprint"),
        ({"externalIds": {"DOI": "10.1101/2024.13.45.999999"}}, "preprint"),
        ({"externalIds": {"DOI": "10.1101/gr.999999.124"}}, "article"),
        ({"externalIds": {"ArXiv": "2401.99001"}}, "preprint"),
        ({"externalIds": {"ArXiv": "2401.99001"}, "venue": "Invented Conference"}, "article"),
    ],
)  # fmt: skip
def test_preprints_and_datasets_are_told_from_articles(given_: dict[str, Any], expected: str) -> None:
    assert read(**given_).type == expected


@pytest.mark.parametrize("prefix", ["RETRACTED: ", "Retracted Article: ", "WITHDRAWN: ", "[RETRACTED]: "])
def test_a_title_that_begins_with_retraction_marks_the_work_and_one_about_retraction_does_not(prefix: str) -> None:
    assert read(title=f"{prefix}Guides").retracted is True
    assert read(title="Retracted articles: who cites them?").retracted is None


# --------------------------------------------------------------------------------------------- the question


def test_hyphens_are_sent_as_spaces_and_dates_as_a_range_and_the_key_is_only_named() -> None:
    fetch = Answering({"total": 0})
    SemanticScholar().search(WebQuery("off-target — “p53‑null” mice", 7, since="2024-03"), fetch)
    (call,) = fetch.calls
    assert call.parameters["query"] == "off target “p53 null” mice"
    assert (call.parameters["publicationDateOrYear"], call.parameters["limit"]) == ("2024-03:", "7")
    assert (call.keys, call.headers) == ((KeyPlace("S2_API_KEY", "header", "x-api-key"),), {})


# --------------------------------------------------------------------------------------------- failures


KEYS = "externalIds url abstract authors year publicationDate venue publicationTypes openAccessPdf isOpenAccess".split()


@given(
    st.dictionaries(
        st.sampled_from([*KEYS, "citationCount"]), json_values(st.sampled_from(["DOI", "url", "name", "x"]))
    )
)
def test_values_of_any_kind_are_skipped_and_never_a_fault(values: dict[str, Any]) -> None:
    assert Id("s2", SHA) in read(**values).ids


# --------------------------------------------------------------------------------------------- the oracle


def assert_alike(body: dict[str, Any], query: WebQuery) -> None:
    pytest.importorskip("semanticscholar", reason="not installed: pip install semanticscholar")
    from semanticscholar.Paper import Paper

    papers = [Paper(data) for data in body["data"]]
    for found, one in zip(search(body, query).items, papers, strict=True):
        external = one.externalIds or {}
        named = {other.kind: other.value for other in found.ids}
        assert named["s2"] == one.paperId
        doi = ids.doi(external.get("DOI", ""))
        assert named.get("doi") == (doi.value if doi and not ids.arxiv(doi.value) else None)
        assert "ArXiv" not in external or ids.arxiv(external["ArXiv"]) in found.ids
        assert named.get("pmid") == external.get("PubMed")
        assert named.get("pmcid") == (f"PMC{external['PubMedCentral']}" if "PubMedCentral" in external else None)
        assert found.title == words(one.title)
        assert found.authors == tuple(words(author.name) for author in one.authors)
        assert found.abstract == words(one.abstract)
        day = one.publicationDate
        assert found.date == (day.date().isoformat() if day else dates.of_text(str(one.year)))
        assert (found.citations, found.open_access) == (one.citationCount, one.isOpenAccess)
        assert found.venue == words(one.venue)


def test_the_recorded_papers_read_as_by_the_package() -> None:
    fetch = Taped("s2")
    assert_alike(fetch.file["exchanges"][0]["response"]["body"], fetch.query)
