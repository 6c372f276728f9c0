"""Answers of providers that are no page of works, and questions without words: failures, apart from an empty page.

What any server may do wrong, whichever its format, is in `test_faults.py`.
"""

from typing import Any

import pytest
from websearch.answering import Answering, failure
from websearch.conftest import written
from websearch.test_arxiv import ENTRY, FEED, TOTAL
from websearch.test_duckduckgo import NOTICE as SCRAPING
from websearch.test_pubmed import FOUND

from retrieve_cli.assemble import websearch as parts
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.websearch import Page, ProviderFailed, WebQuery
from retrieve_cli.websearch.providers.arxiv import Arxiv
from retrieve_cli.websearch.providers.biorxiv import BioRxiv
from retrieve_cli.websearch.providers.pubmed import PubMed
from retrieve_cli.websearch.providers.semantic_scholar import SemanticScholar

QUERY = WebQuery("guides", 3)
NO_ITEMS = {"count": "0", "idlist": [], "warninglist": {"outputmessages": ["No items found."]}}
SEARCHED = {found.name: found for found in (PubMed(), BioRxiv(), Arxiv(), SemanticScholar())}


def ask(name: str, fetch: Answering) -> Page:
    return SEARCHED[name].search(QUERY, fetch)


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
    ("biorxiv", "malformed"): [
        b"[]",
        {"version": "6.9"},
        {"hitCount": 3, "resultList": {"result": []}},
        {"hitCount": 3, "resultList": {"result": ["99000001"]}},
        {"hitCount": 3, "resultList": []},
        {"resultList": {"result": []}},
        b"<errorBean><errCode>500</errCode><errMsg>Internal error</errMsg></errorBean>",
    ],
    ("biorxiv", "rejected"): [{"errCode": 400, "errMsg": "no"}],
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
    ("name", "answer", "status"),
    [
        ("pubmed", {"esearchresult": NO_ITEMS}, 200),
        ("biorxiv", NO_RESULTS, 200),
        ("arxiv", f"{FEED}{TOTAL.format(0)}</feed>", 200),
        ("s2", {"total": 0, "offset": 0}, 200),
        ("s2", {"total": 0, "offset": 0, "data": []}, 200),
    ],
)
def test_nothing_found_is_an_empty_page_and_one_request(name: str, answer: Any, status: int) -> None:
    fetch = Answering(answer, status=status)
    page = ask(name, fetch)
    assert (page.items, page.notices) == ((), ())
    assert page.total == 0
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
    "biorxiv": ["“?”"],
    "arxiv": ["", "  ", "((((", '""', "?!", "AND", "ANDNOT lungs"],
    "s2": ["- ?"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in WORDLESS.items() for text in texts])
def test_a_question_without_words_is_rejected_and_nothing_is_sent(name: str, text: str) -> None:
    said = failure(lambda fetch: SEARCHED[name].search(WebQuery(text, 5), fetch))  # which has no answer to a call
    assert said.kind == "rejected"
    assert "to search for" in str(said)
