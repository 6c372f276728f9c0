"""Answers of providers that are no page of works, and questions without words: failures, apart from an empty page.

What any server may do wrong, whichever its format, is in `test_faults.py`.
"""

import json
from typing import Any

import pytest
from websearch.answering import Answering, failure
from websearch.conftest import written
from websearch.test_arxiv import ENTRY, FEED, TOTAL
from websearch.test_biorxiv import FIRST, SECOND, item, record
from websearch.test_crossref import listed
from websearch.test_duckduckgo import NOTICE as SCRAPING
from websearch.test_pubmed import FOUND
from websearch.test_semantic_scholar import NONE_KNOWN, TOO_MANY

from retrieve_cli.assemble import websearch as parts
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.websearch import Page, ProviderFailed, WebQuery
from retrieve_cli.contracts.works import Id, Item
from retrieve_cli.websearch.providers.arxiv import Arxiv
from retrieve_cli.websearch.providers.biorxiv import BioRxiv, Published
from retrieve_cli.websearch.providers.crossref import Crossref
from retrieve_cli.websearch.providers.europepmc import EuropePmc
from retrieve_cli.websearch.providers.pubmed import PubMed
from retrieve_cli.websearch.providers.semantic_scholar import Citations, SemanticScholar

QUERY = WebQuery("guides", 3)
NO_ITEMS = {"count": "0", "idlist": [], "warninglist": {"outputmessages": ["No items found."]}}
SEARCHED = {found.name: found for found in (PubMed(), EuropePmc(), BioRxiv(), Arxiv(), SemanticScholar())}
LOOKED_UP = {
    "published": (Published(), item(FIRST)),
    "citations": (Citations(), Item("article", "A title", (Id("pmid", "7"),))),
    "crossref": (Crossref(), Item("article", "A title", (Id("doi", "10.5555/a.1"),))),
}


def ask(name: str, fetch: Answering) -> Page | None:
    if name in SEARCHED:
        return SEARCHED[name].search(QUERY, fetch)
    enricher, work = LOOKED_UP[name]
    return enricher.enrich([work], fetch)


NO_RESULTS = {"hitCount": 0, "resultList": {"result": []}}
BAD: dict[tuple[str, str], list[Any]] = {
    ("pubmed", "malformed"): [
        b"[]",
        {"header": {"type": "esearch"}},
        {"esearchresult": {"count": "2", "idlist": []}},
        {"esearchresult": {"count": "1", "idlist": ["<html>"]}},
        {"esearchresult": {"idlist": ["99000001"]}},
        b'{"error": "API rate limit exceeded", "api-key": "a-secret-key',
    ],
    ("pubmed", "rejected"): [
        {"esearchresult": {"ERROR": "Search Backend failed: no response"}},
        {"error": "error forwarding request", "api-key": "a-secret-key"},
        b"<eSearchResult><ERROR>Empty term</ERROR></eSearchResult>",
    ],
    ("pubmed", "rate_limited"): [{"error": "API rate limit exceeded", "api-key": "a-secret-key", "count": "4"}],
    ("pubmed records", "malformed"): [
        b"<PubmedArticleSet><PubmedArticle>",
        b"<PubmedArticleSet></PubmedArticleSet>",
        b"<eSummaryResult></eSummaryResult>",
        b'<!DOCTYPE a [<!ENTITY b "c">]><PubmedArticleSet>&b;</PubmedArticleSet>',
    ],
    ("pubmed records", "rejected"): [
        b"<eFetchResult><ERROR>Unable to obtain query #1</ERROR></eFetchResult>",
        {"error": "no", "api-key": "a-secret-key"},
    ],
    ("pubmed records", "rate_limited"): [{"error": "API rate limit exceeded", "api-key": "a-secret-key"}],
    ("europepmc", "malformed"): [
        b"[]",
        {"version": "6.9"},
        {"hitCount": 3, "resultList": {"result": []}},
        {"hitCount": 3, "resultList": {"result": ["99000001"]}},
        {"hitCount": 3, "resultList": []},
        {"resultList": {"result": []}},
        b"<errorBean><errCode>500</errCode><errMsg>Internal error</errMsg></errorBean>",
    ],
    ("europepmc", "rejected"): [{"version": "6.9", "errCode": 404, "errMsg": "No query provided"}, {"errCode": 500}],
    ("biorxiv", "malformed"): [{"hitCount": 2}],
    ("biorxiv", "rejected"): [{"errCode": 400, "errMsg": "no"}],
    ("published", "malformed"): [
        json.dumps(record(FIRST))[:-20],
        b"[]",
        {"collection": []},
        {"messages": [{"status": "ok"}]},
        {"messages": [{"status": "ok"}], "collection": []},
        record(SECOND),
        record(FIRST, title=""),
    ],
    ("published", "rejected"): [{"messages": [{"status": "Error: database connection"}], "collection": []}],
    ("arxiv", "malformed"): [
        "Rate exceeded.",
        f"{FEED}{TOTAL.format(1)}{ENTRY.format('')}",
        f"{FEED}{ENTRY.format('')}</feed>",
        f"{FEED}{TOTAL.format('many')}</feed>",
        '<rss version="2.0"><channel/></rss>',
        f'<!DOCTYPE feed [<!ENTITY a "b">]>{FEED}{TOTAL.format(0)}</feed>',
        f"{FEED}{TOTAL.format(1)}<entry><title>&nbsp;</title></entry></feed>",
        f"{FEED}{TOTAL.format(1)}<entry><title>A</title></entry></feed>",
    ],
    ("s2", "malformed"): [
        '{"total": 3, "data": [{"paperId": "00',
        [],
        {},
        {"data": []},
        {"total": 3},
        {"total": 3, "data": []},
        {"total": 3, "data": None},
        {"total": 3, "data": {"0": {}}},
        {"total": 1, "data": [None]},
        {"total": -1, "data": []},
        {"total": 1, "data": [{"paperId": None, "title": None}]},
    ],
    ("citations", "malformed"): [[], {"data": []}, [None, None], [{"paperId": None}], ["7"], '[{"paperId":'],
    ("citations", "rate_limited"): [TOO_MANY],
    ("crossref", "malformed"): [
        "Resource not found.",
        '{"status": "ok", "message": {"items": [',
        [],
        {},
        {"status": "ok"},
        {"status": "ok", "message": []},
        {"status": "ok", "message": {"total-results": 3}},
        {"status": "ok", "message": {"items": None}},
        {"status": "ok", "message": {"items": ["10.5555/a.1"]}},
        {"message": {"items": []}},
        listed({"DOI": "no DOI", "title": ["A title"]}),
    ],
}


@pytest.mark.parametrize(
    ("name", "kind", "answer"), [(*subject, answer) for subject, answers in BAD.items() for answer in answers]
)
def test_an_answer_without_a_result_is_a_failure_with_a_reason(name: str, kind: str, answer: Any) -> None:
    provider, _, records = name.partition(" ")
    said = failure(lambda fetch: ask(provider, fetch), *([FOUND] if records else []), answer)
    assert said.kind == kind
    assert str(said)
    assert "secret" not in str(said)


@pytest.mark.parametrize(
    ("name", "answer", "status", "kind"),
    [
        ("arxiv", f"{FEED}{TOTAL.format(0)}</feed>", 400, "rejected"),
        ("citations", {"error": "Unrecognized fields"}, 400, "rejected"),
        ("citations", {}, 400, "rejected"),
        ("citations", [None], 400, "rejected"),
        ("citations", [None], 500, "rejected"),
        ("citations", "<html></html>", 400, "malformed"),
    ],
)
def test_a_status_of_failure_is_never_an_empty_page(name: str, answer: Any, status: int, kind: str) -> None:
    assert failure(lambda fetch: ask(name, fetch), answer, status=status).kind == kind


@pytest.mark.parametrize(
    ("name", "answer", "status"),
    [
        ("pubmed", {"esearchresult": NO_ITEMS}, 200),
        ("europepmc", {"version": "6.9", **NO_RESULTS}, 200),
        ("biorxiv", NO_RESULTS, 200),
        ("arxiv", f"{FEED}{TOTAL.format(0)}</feed>", 200),
        ("s2", {"total": 0, "offset": 0}, 200),
        ("s2", {"total": 0, "offset": 0, "data": []}, 200),
        ("citations", [None], 200),
        ("citations", NONE_KNOWN, 400),
        ("citations", NONE_KNOWN, 200),
        ("crossref", listed(), 200),
    ],
)
def test_nothing_found_is_an_empty_page_and_one_request(name: str, answer: Any, status: int) -> None:
    fetch = Answering(answer, status=status)
    page = ask(name, fetch)
    assert page is not None
    assert (page.items, page.notices) == ((), ())
    assert name in LOOKED_UP or page.total == 0
    assert len(fetch.calls) == 1


# ------------------------------------------------------------------------------------------- engines of the web


def searched(name: str, question: str) -> Page:
    return parts.provider(name, Settings()).search(WebQuery(question, 20), written(name))


@pytest.mark.parametrize(
    ("name", "question", "kind", "said"),
    [
        ("tavily", "error with status 200", "rejected", "an invented complaint"),
        ("tavily", "plan used up", "rejected", "432"),
        ("tavily", "limit of payments", "rejected", "433"),
        ("serper", "wrong key", "rejected", ""),
        ("serper", "no credits", "rejected", ""),
        ("serper", "too fast", "rejected", ""),
        ("serper", "error with status 200", "rejected", ""),
        ("serpapi", "wrong key", "rejected", ""),
        ("serpapi", "searches used up", "rejected", ""),
        ("serpapi", "failed search", "rejected", ""),
        ("serpapi", "still running", "malformed", ""),
        ("serpapi", "other sections alone", "malformed", ""),
        ("ddg", "too many questions", "rejected", "captcha"),
        ("ddg", "captcha with status 200", "rejected", "captcha"),
        ("ddg", "a new design", "malformed", ""),
    ],
)
def test_a_complaint_of_an_engine_is_a_failure(name: str, question: str, kind: str, said: str) -> None:
    with pytest.raises(ProviderFailed) as failed:
        searched(name, question)
    assert failed.value.failure.kind == kind
    assert said in str(failed.value)


@pytest.mark.parametrize("name", ["tavily", "serper", "serpapi", "ddg"])
def test_that_an_engine_found_nothing_is_an_empty_page(name: str) -> None:
    for question in ("zzqx no such thing", *(["nothing, without an error"] if name == "serpapi" else [])):
        page = searched(name, question)
        assert (page.items, page.total or 0, page.notices) == ((), 0, (SCRAPING,) if name == "ddg" else ())


# ------------------------------------------------------------------------------------------- questions

WORDLESS = {
    "pubmed": ['"', "()", "[]", "AND", "…", '" "'],
    "europepmc": ["“?”"],
    "arxiv": ["", "  ", "((((", '""', "?!", "AND", "ANDNOT lungs"],
    "s2": ["- ?"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in WORDLESS.items() for text in texts])
def test_a_question_without_words_is_rejected_and_nothing_is_sent(name: str, text: str) -> None:
    said = failure(lambda fetch: SEARCHED[name].search(WebQuery(text, 5), fetch))  # which has no answer to a call
    assert said.kind == "rejected"
    assert "to search for" in str(said)


@pytest.mark.parametrize(("name", "empty"), [("pubmed", {"esearchresult": NO_ITEMS}), ("europepmc", NO_RESULTS)])
def test_categories_are_skipped_with_a_notice(name: str, empty: Any) -> None:
    page = SEARCHED[name].search(WebQuery("guides", 5, categories=("q-bio",)), Answering(empty))
    assert [notice for notice in page.notices if "categories" in notice]
