"""arXiv: questions in its syntax, entries of its feed against the parser of the package `arxiv`, failures."""

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st
from websearch.answering import Answering, failure
from websearch.taped import Taped

from retrieve_cli.contracts.websearch import Fetch, Id, Page, ProviderFailed, ProviderFailure, WebQuery
from retrieve_cli.websearch import ids
from retrieve_cli.websearch.providers.arxiv import Arxiv, search_query

PROVIDER = "arxiv"
ATOM, NAMESPACE = "http://www.w3.org/2005/Atom", "http://arxiv.org/schemas/atom"
FEED = (
    '<feed xmlns="http://www.w3.org/2005/Atom" xmlns:arxiv="http://arxiv.org/schemas/atom"'
    ' xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">'
)
TOTAL = "<opensearch:totalResults>{}</opensearch:totalResults>"
ENTRY = "<entry><id>http://arxiv.org/abs/2401.99009v1</id><title>A title</title>{}</entry>"
ERROR = (
    f"{FEED}{TOTAL.format(1)}<entry><id>https://arxiv.org/api/errors#invalid_query</id><title>Error</title>"
    "<summary>the question cannot be parsed</summary></entry></feed>"
)
QUERY = WebQuery("guides", 10)
CLAUSE = r'(?:ti|au|abs|co|jr|rn|id|all):(?:\w+|"[^"\\]+")'
CLAUSES = re.compile(rf"{CLAUSE}(?: (?:AND|OR|ANDNOT) {CLAUSE})*")


def search(fetch: Fetch) -> Page:
    return Arxiv().search(QUERY, fetch)


def entries(*inner: str) -> str:
    return FEED + TOTAL.format(len(inner)) + "".join(ENTRY.format(one) for one in inner) + "</feed>"


# --------------------------------------------------------------------------------------------- the answer


def test_entries_of_a_feed_become_preprints(page: Page) -> None:
    first, second, withdrawn = page.items
    assert (page.total, page.notices) == (3, ())
    assert first.type == "preprint"
    assert first.title == "Forecasting off-target cleavage with a mismatch-aware attention network"
    doi = Id("doi", "10.5555/jige.2024.0101")
    assert first.ids == (Id("arxiv", "2401.99001"), doi)
    assert first.authors == ("Ilse Varga", "Tomás Ø. Quill", "H. Nakagome-Stein")
    assert first.date == "2024-01-17", "the date of the first version"
    assert first.venue == "J. Invented Genome Edit. 7 (2024) 101-117"
    assert first.url == "https://arxiv.org/abs/2401.99001"
    assert first.pdf_url == "https://arxiv.org/pdf/2401.99001v2"
    assert "where $p<q$ and $r>0.9$; its errors" in first.abstract, "a formula is not markup"
    assert (second.venue, second.retracted) == ("arXiv (cs.LG)", None)
    assert (withdrawn.retracted, withdrawn.pdf_url) == (True, "")


@pytest.mark.parametrize(
    ("inner", "retracted"),
    [
        ("<arxiv:comment>Withdrawn due to an error in Lemma 2</arxiv:comment>", True),
        ("<arxiv:comment>This submission has been withdrawn by arXiv</arxiv:comment>", True),
        ("<summary>This paper was withdrawn by its author.</summary>", True),
        ("<arxiv:comment>Withdrawn from a workshop, 9 pages</arxiv:comment>", None),
        ("<summary>Drugs that were withdrawn are compared. This paper lists them.</summary>", None),
    ],
)
def test_only_withdrawal_of_the_preprint_itself_marks_it(inner: str, retracted: bool | None) -> None:
    (item,) = search(Answering(entries(inner))).items
    assert item.retracted is retracted


# --------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("status", [200, 400])
def test_an_error_entry_is_a_rejection_with_its_reason(status: int) -> None:
    assert failure(search, ERROR, status=status) == ProviderFailure(
        "rejected", "arXiv rejects the question: the question cannot be parsed"
    )


def test_a_page_that_counts_matches_and_lists_none_is_malformed() -> None:
    assert failure(search, f"{FEED}{TOTAL.format(42)}</feed>") == ProviderFailure(
        "malformed", "its answer counts 42 matches and lists none"
    )


# --------------------------------------------------------------------------------------------- the question


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("crispr off-target", 'all:crispr AND all:"off-target"'),
        ("(CRISPR): off-target?", 'all:CRISPR AND all:"off-target"'),
        ("NO synthase", "all:NO AND all:synthase"),
        ("guides “human cells”", 'all:guides AND all:"human cells"'),
        ('some "unbalanced quote', "all:some AND all:unbalanced AND all:quote"),
        ("au:del_maestro AND ti:checkerboard", "au:del_maestro AND ti:checkerboard"),
        ('ti:"deep learning" abs:lungs', 'ti:"deep learning" AND abs:lungs'),
        ("cells ANDNOT mice", "all:cells ANDNOT all:mice"),
        ("lungs OR hearts AND CT", "all:lungs OR all:hearts AND all:CT"),
        ("OR lungs AND", "all:lungs"),
        ("((lungs) hearts", "all:lungs AND all:hearts"),
        ("TO lungs NOT", 'all:"TO" AND all:lungs AND all:"NOT"'),
        ("C++ GPT-3.5", 'all:C AND all:"GPT-3.5"'),
        (r"lung\s x", 'all:"lung s" AND all:x'),
        ("cat:cs.ai lungs", "cat:cs.AI AND all:lungs"),
    ],
)
def test_questions_become_searches_of_all_fields(text: str, sent: str) -> None:
    assert search_query(text) == sent


def test_dates_and_categories_are_conditions() -> None:
    assert search_query("lungs OR hearts", since="2024-03", categories=("q-bio", "cs.CV")) == (
        "(all:lungs OR all:hearts) AND ((cat:q-bio OR cat:q-bio.*) OR cat:cs.CV)"
        " AND submittedDate:[202403010000 TO 299912312359]"
    )


SYNTAX = st.sampled_from(["lungs", "CT", "AND", "OR", "ANDNOT", "NOT", "(", ")", '"', '"a b"', "ti:x", "au:(", "-c"])


@given(st.lists(SYNTAX) | st.text(max_size=60).map(lambda text: [text]))
def test_any_question_becomes_clauses_with_an_operator_between_them(tokens: list[str]) -> None:
    try:
        sent = search_query(" ".join(tokens))
    except ProviderFailed:
        return
    assert CLAUSES.fullmatch(sent), sent


@pytest.mark.parametrize(
    ("found_at", "sent"),
    [
        (0, "all:methods AND all:segmenting AND all:lungs AND all:CT"),
        (1, "all:methods AND all:segmenting AND all:lungs"),
        (2, "all:methods AND all:segmenting"),
    ],
)
def test_a_natural_question_is_asked_by_its_content_words_and_then_by_fewer(found_at: int, sent: str) -> None:
    """A question must not be a conjunction of all its words: then arXiv has nothing for it."""
    nothing = f"{FEED}{TOTAL.format(0)}</feed>"
    fetch = Answering(*[nothing] * found_at, entries(""))
    query = WebQuery("What are the best methods for segmenting the lungs in a CT?", 10)
    page = Arxiv().search(query, fetch)
    assert (len(page.items), page.query) == (1, sent)
    assert len(fetch.calls) == found_at + 1
    assert bool(page.notices) == (found_at > 0)


def test_a_question_with_syntax_is_asked_once() -> None:
    fetch = Answering(f"{FEED}{TOTAL.format(0)}</feed>")
    assert Arxiv().search(WebQuery('ti:lungs "CT of mice" AND human cells', 10), fetch).items == ()
    assert len(fetch.calls) == 1


@pytest.mark.parametrize(
    "category", ["", "x", "biology!", "cs.AI OR all:x", "cs.", "q-bio*", "cs.AI)", "9.9", "lungs and hearts"]
)
def test_what_is_not_a_category_is_rejected(category: str) -> None:
    answer = Answering(entries(""))
    with pytest.raises(ProviderFailed, match="is not a category of arXiv"):
        Arxiv().search(WebQuery("lungs", 10, categories=(category,)), answer)
    assert answer.calls == [], "nothing was sent"


# --------------------------------------------------------------------------------------------- the oracle


def of_package(body: bytes) -> list[Any]:
    """Return the entries of a feed as the package `arxiv` reads them."""
    pytest.importorskip("arxiv", reason="the package arxiv is not installed: pip install arxiv")
    from arxiv import _feed

    results: list[Any] = _feed.parse(body).results
    return results


def words(text: str | None) -> str:
    return " ".join((text or "").split())


def assert_alike(body: bytes, query: WebQuery) -> None:
    page = Arxiv().search(query, Answering(body))
    results = of_package(body)
    assert len(results) == len(page.items)
    for item, result in zip(page.items, results, strict=True):
        short = result.get_short_id()
        assert item.ids[0] == ids.arxiv(short)
        assert item.title == words(result.title)
        assert item.authors == tuple(words(author.name) for author in result.authors)
        assert item.abstract == words(result.summary)
        assert item.date == result.published.date().isoformat()
        assert item.pdf_url == (result.pdf_url or "")
        dois = [other.value for other in item.ids if other.kind == "doi"]
        assert dois == ([result.doi.lower()] if result.doi else [])
        category = f"arXiv ({result.primary_category})" if result.primary_category else "arXiv"
        assert item.venue == (words(result.journal_ref) or category)


def test_the_recorded_feed_reads_as_by_the_package() -> None:
    fetch = Taped("arxiv")
    assert_alike(fetch.file["exchanges"][0]["response"]["body"].encode(), fetch.query)


OF_XML = st.characters(codec="utf-8", min_codepoint=0x20, exclude_characters="\ufffe\uffff")
TEXTS = st.text(st.sampled_from("ab<>&;\"' $\\\n\té𝛼") | OF_XML, min_size=1, max_size=80)
NAMES = TEXTS.filter(words)
