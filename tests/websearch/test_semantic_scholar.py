"""Semantic Scholar: papers against the package `semanticscholar`, identifiers by version, citations, failures."""

import json
from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest
from hypothesis import given, strategies as st
from websearch.answering import Answering, failure, json_values
from websearch.taped import Taped
from websearch.test_arxiv import words

from retrieve_cli.contracts.websearch import Fetch, KeyPlace, Page, RateLimited, Rejected, WebQuery
from retrieve_cli.contracts.works import Id, Item
from retrieve_cli.websearch import dates, ids
from retrieve_cli.websearch.providers.semantic_scholar import Citations, SemanticScholar

PROVIDER = "s2"
QUERY = WebQuery("off-target guides", 10)
SHA = "00000000000000000000000000000000000ab001"
TOO_MANY = {"message": "Too Many Requests. Please wait and try again or apply for a key.", "code": "429"}
NONE_KNOWN = {"error": "No valid paper ids given"}


def search(body: Any, query: WebQuery = QUERY) -> Page:
    return SemanticScholar().search(query, Answering(body))


def searched(fetch: Fetch) -> Page:
    return SemanticScholar().search(QUERY, fetch)


def paper(**given_: Any) -> dict[str, Any]:
    return {"paperId": SHA, "title": "A title", **given_}


def read(**given_: Any) -> Item:
    (item,) = search({"total": 1, "offset": 0, "data": [paper(**given_)]}).items
    return item


def item(*kinds: Id, citations: int | None = None) -> Item:
    return Item(type="article", title="A title", ids=kinds, citations=citations)


# --------------------------------------------------------------------------------------------- the answer


def test_papers_become_items(page: Page) -> None:
    first = page.items[0]
    assert (page.total, page.query, len(page.items)) == (6, "crispr off target", 6)
    assert page.notices == ("categories of arXiv are not applied",)
    assert [item.type for item in page.items] == ["article", "preprint", "article", "review", "dataset", "article"]
    assert first.ids == (
        Id("doi", "10.5555/jige.2024.0101"),
        Id("pmid", "99000101"),
        Id("pmcid", "PMC99000101"),
        Id("s2", f"{0x2401:040x}"),
        Id("url", f"https://semanticscholar.org/paper/{0x2401:040x}"),
    )
    assert first.authors == ("Ilse Varga", "Tomás Ø. Quill", "H. Nakagome-Stein")
    assert (first.date, first.venue, first.citations) == ("2024-06-11", "Journal of Invented Genome Editing", 41)
    assert (first.open_access, first.license, first.retracted) == (True, "CC BY", None)
    assert first.pdf_url == "https://example.org/jige/2024/0101.pdf"
    assert first.abstract.startswith("Guide RNAs cut at sites")


def test_the_preprint_of_an_article_is_the_same_work() -> None:
    related = read(externalIds={"DOI": "10.5555/A.1", "ArXiv": "2401.99001"})
    assert Id("arxiv", "2401.99001") not in related.ids
    assert related.relations == (("same_as", Id("arxiv", "2401.99001")),)


def test_an_arxiv_identifier_stays_with_an_arxiv_doi() -> None:
    alone = read(externalIds={"DOI": "10.48550/arXiv.2401.99001", "ArXiv": "2401.99001"})
    assert alone.ids[:2] == (Id("doi", "10.48550/arxiv.2401.99001"), Id("arxiv", "2401.99001"))
    assert (alone.type, alone.relations) == ("preprint", ())


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
        ({"title": "Review of guides for editors"}, "article"),
        ({"title": "Review for \"Guides for editors\""}, "review"),
        ({"title": "Decision letter: Guides for editors"}, "review"),
        ({"title": "Author response for “Guides for editors”"}, "review"),
        ({"title": "Reviewer #2 (Public Review): Guides for editors"}, "review"),
        ({"title": "Comment on ‘Guides for editors’"}, "review"),
        ({"title": "Response to treatment of guides"}, "article"),
    ],
)  # fmt: skip
def test_only_works_about_one_other_work_are_reviews(given_: dict[str, Any], expected: str) -> None:
    assert read(**given_).type == expected


LICENCES = {"CCBY": "CC BY", "CCBYNCND": "CC BY-NC-ND", "CC0": "CC0-1.0", "MIT": "MIT", "other-oa": "", None: ""}


@pytest.mark.parametrize(("name", "licence"), LICENCES.items())
def test_licences_have_the_names_of_licences(name: str | None, licence: str) -> None:
    assert read(openAccessPdf={"url": "", "license": name}).license == licence


def test_a_doi_is_not_an_address_of_a_pdf() -> None:
    assert read(openAccessPdf={"url": "https://doi.org/10.5555/a.1"}).pdf_url == ""


@pytest.mark.parametrize("prefix", ["RETRACTED: ", "Retracted Article: ", "WITHDRAWN: ", "[RETRACTED]: "])
def test_a_title_that_begins_with_retraction_marks_the_work_and_one_about_retraction_does_not(prefix: str) -> None:
    assert read(title=f"{prefix}Guides").retracted is True
    assert read(title="Retracted articles: who cites them?").retracted is None


def test_a_year_is_a_date_if_there_is_no_other() -> None:
    assert read(year=2024, publicationDate=None).date == "2024"


def test_papers_without_a_title_are_counted() -> None:
    page = search({"total": 2, "data": [paper(title=None), paper()]})
    assert len(page.items) == 1
    assert page.notices == ("skipped 1 papers without a title or an identifier",)


# --------------------------------------------------------------------------------------------- the question


def test_hyphens_are_sent_as_spaces_and_dates_as_a_range_and_the_key_is_only_named() -> None:
    fetch = Answering({"total": 0})
    SemanticScholar().search(WebQuery("off-target — “p53‑null” mice", 7, since="2024-03"), fetch)
    (call,) = fetch.calls
    assert call.parameters["query"] == "off target “p53 null” mice"
    assert (call.parameters["publicationDateOrYear"], call.parameters["limit"]) == ("2024-03:", "7")
    assert (call.keys, call.headers) == ((KeyPlace("S2_API_KEY", "header", "x-api-key"),), {})


# --------------------------------------------------------------------------------------------- failures


def test_too_many_requests_in_an_answer_are_a_limit() -> None:
    assert failure(searched, TOO_MANY) == RateLimited(None)


@pytest.mark.parametrize("body", [{"error": "Unrecognized fields: [x]"}, {"message": "Internal Server Error"}])
def test_a_complaint_is_a_rejection(body: dict[str, str]) -> None:
    (complaint,) = body.values()
    assert failure(searched, body) == Rejected(f"Semantic Scholar rejects the request: {complaint}", 200)


KEYS = "externalIds url abstract authors year publicationDate venue publicationTypes openAccessPdf isOpenAccess".split()


@given(
    st.dictionaries(
        st.sampled_from([*KEYS, "citationCount"]), json_values(st.sampled_from(["DOI", "url", "name", "x"]))
    )
)
def test_values_of_any_kind_are_skipped_and_never_a_fault(values: dict[str, Any]) -> None:
    assert Id("s2", SHA) in read(**values).ids


# --------------------------------------------------------------------------------------------- citations


def enriched(items: Sequence[Item], body: Any) -> Page | None:
    return Citations().enrich(items, Answering(body))


def test_citations_are_looked_up_by_any_identifier_and_a_paper_under_another_one_is_the_same_work() -> None:
    fetch = Taped("s2-enrich")
    found = [item(Id(kind, value)) for kind, _, value in (one.partition(":") for one in fetch.file["ids"])]
    page = Citations().enrich(found, fetch)
    assert page is not None
    assert [one.citations for one in page.items] == [41, 3, 9, 12], "an unknown work is missing"
    assert page.items[1].ids[:2] == (Id("doi", "10.48550/arxiv.2403.99017"), Id("arxiv", "2403.99017"))
    assert page.items[-1].ids[0] == Id("doi", "10.5555/cell.2025.31")
    assert page.items[-1].relations == (("same_as", Id("doi", "10.1101/2024.13.45.999999")),)


def test_works_that_semantic_scholar_described_are_not_looked_up() -> None:
    own = read(externalIds={"DOI": "10.5555/a.1", "ArXiv": "2401.99001"}, citationCount=4)
    others = [item(Id("doi", "10.5555/a.1")), item(Id("arxiv", "2401.99001")), item(Id("url", "https://example.org"))]
    assert enriched([own, *others], []) is None


def test_a_work_is_looked_up_once_and_an_arxiv_doi_as_arxiv() -> None:
    fetch = Answering([None, None])
    arxiv_doi, arxiv = Id("doi", "10.48550/arxiv.2401.99001"), Id("arxiv", "2401.99001")
    Citations().enrich([item(arxiv_doi), item(arxiv), item(Id("pmcid", "PMC12")), item(Id("pmcid", "PMC12"))], fetch)
    assert json.loads(fetch.calls[0].body or b"") == {"ids": ["ARXIV:2401.99001", "PMCID:12"]}
    assert fetch.calls[0].parameters["fields"].split(",").count("citationCount") == 1


def test_at_most_a_hundred_works_are_looked_up() -> None:
    fetch = Answering([None] * 100)
    Citations().enrich([item(Id("pmid", str(number))) for number in range(1, 200)], fetch)
    assert len(json.loads(fetch.calls[0].body or b"")["ids"]) == 100


def test_a_title_that_is_missing_is_that_of_the_work() -> None:
    page = enriched([item(Id("pmid", "7"))], [paper(title=None, citationCount=5)])
    assert page is not None
    assert (page.items[0].title, page.items[0].citations) == ("A title", 5)


# --------------------------------------------------------------------------------------------- the oracle


def assert_alike(body: dict[str, Any], query: WebQuery) -> None:
    pytest.importorskip("semanticscholar", reason="not installed: pip install semanticscholar")
    from semanticscholar.Paper import Paper

    papers = [Paper(data) for data in body["data"]]
    for found, one in zip(search(body, query).items, papers, strict=True):
        external = one.externalIds or {}
        named = {other.kind: other.value for other in found.ids}
        named |= {other.kind: other.value for kind, other in found.relations if kind == "same_as"}
        assert named["s2"] == one.paperId
        assert named.get("doi") == ((doi := ids.doi(external.get("DOI", ""))) and doi.value)
        assert (named.get("arxiv"), named.get("pmid")) == (external.get("ArXiv"), external.get("PubMed"))
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


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="<>&"), min_size=1, max_size=80)
NAMES = TEXTS.filter(words)
DIGITS = st.from_regex(r"[1-9][0-9]{0,7}", fullmatch=True)
EXTERNAL = st.fixed_dictionaries(
    {},
    optional={
        "DOI": st.from_regex(r"10\.(5555|48550|1101)/[a-zA-Z0-9.]{1,9}[a-zA-Z]", fullmatch=True),
        "ArXiv": st.from_regex(r"2[0-9]0[1-9]\.[0-9]{5}", fullmatch=True),
        "PubMed": DIGITS,
        "PubMedCentral": DIGITS,
        "CorpusId": st.integers(1, 10**9),
    },
)
PAPERS = st.fixed_dictionaries(
    {
        "paperId": st.from_regex(r"[0-9a-f]{40}", fullmatch=True),
        "externalIds": st.none() | EXTERNAL,
        "title": NAMES,
        "abstract": st.none() | TEXTS,
        "authors": st.lists(st.fixed_dictionaries({"authorId": st.none() | DIGITS, "name": NAMES}), max_size=4),
        "year": st.integers(1900, 2030),
        "publicationDate": st.none() | st.dates(date(1900, 1, 1), date(2030, 1, 1)).map(lambda day: day.isoformat()),
        "venue": st.none() | TEXTS,
        "publicationTypes": st.none() | st.lists(st.sampled_from(["Review", "Dataset", "Study", "Book"]), max_size=2),
        "citationCount": st.integers(0, 10**6),
        "isOpenAccess": st.booleans(),
        "openAccessPdf": st.none() | st.fixed_dictionaries({"url": st.just("https://example.org/a.pdf")}),
    }
)


@given(st.lists(PAPERS, min_size=1, max_size=4))
def test_any_papers_read_as_by_the_package(papers: list[dict[str, Any]]) -> None:
    assert_alike({"total": len(papers), "offset": 0, "data": papers}, QUERY)
