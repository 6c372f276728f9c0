"""DuckDuckGo: results of its page, and what is no result; held against the engine of the package `ddgs`."""

import html
from typing import Any
from urllib.parse import parse_qsl, quote

import pytest
from websearch.answering import Answering
from websearch.taped import Taped

from retrieve_cli.contracts.websearch import Page, ProviderFailed, WebQuery
from retrieve_cli.websearch.providers.duckduckgo import DUCKDUCKGO

NOTICE = "DuckDuckGo: read from its page of results (scraping), which may change or ask for a captcha"


PROVIDER = "ddg"


@pytest.fixture
def page(taped: Taped) -> Page:
    return DUCKDUCKGO.search(WebQuery(taped.query.text, 10), taped)


@pytest.fixture(scope="module")
def engine() -> Any:
    """The engine of `ddgs` without its HTTP client, which its constructor makes."""
    found = pytest.importorskip("ddgs.engines.duckduckgo", reason="the package ddgs is not installed").Duckduckgo
    return found.__new__(found)


def card(href: str, title: str, snippet: str) -> str:
    href, title, snippet = map(html.escape, (href, title, snippet))
    return (
        f'<div class="result web-result"><div class="result__body"><h2 class="result__title"><a class="result__a" '
        f'href="{href}">{title}</a></h2><a class="result__snippet" href="{href}">{snippet}</a></div></div>'
    )


def page_of(*cards: str) -> str:
    return f'<html><body><div id="links" class="results">{"".join(cards)}</div></body></html>'


def test_results_are_web_pages_in_the_order_of_the_page_which_is_scraped(page: Page) -> None:
    assert [item.title for item in page.items] == [
        "Counting the cuts that nobody ordered: an invented guide",
        "A made-up review of unintended edits",
        "Forum: my guide cuts elsewhere 'again'",
        "Imagined benchmark of guide design tools - PubMed",
    ]
    assert page.items[0].snippet == (
        "An invented guide explains how off-target cuts are counted & which assays overlook them."
    )
    assert page.notices == (NOTICE, "DuckDuckGo: its first page has 4 results")


def test_addresses_that_count_clicks_are_replaced_by_their_targets(page: Page) -> None:
    assert page.items[1].url == "https://doi.org/10.99999/invented.2024.17"
    assert str(page.items[1].ids[0]) == "doi:10.99999/invented.2024.17"
    assert page.items[2].url == "https://forum.example.com/t/81?page=2&sort=new"


def test_a_page_cut_anywhere_is_a_failure(taped: Taped) -> None:
    whole = taped.file["exchanges"][0]["response"]["body"]
    end = whole.rindex("</html>")
    for size in [*range(0, end, 211), end]:
        with pytest.raises(ProviderFailed):
            DUCKDUCKGO.search(WebQuery("q", 5), Answering(whole[:size]))


def test_the_request_is_the_one_that_ddgs_sends(engine: Any, taped: Taped, page: Page) -> None:
    (call,) = taped.calls
    sent = dict(parse_qsl((call.body or b"").decode(), keep_blank_values=True))
    assert sent == engine.build_payload("crispr off-target", "us-en", "moderate", None)
    assert (call.url, engine.search_method) == (engine.search_url, "POST")
    assert not hasattr(engine, "http_client")


def test_the_results_are_those_that_ddgs_extracts(engine: Any, taped: Taped) -> None:
    whole = taped.file["exchanges"][0]["response"]["body"]
    expected = engine.post_extract_results(engine.extract_results(whole))
    ours = DUCKDUCKGO.search(WebQuery("q", 10), Answering(whole)).items
    assert [(item.title, item.snippet) for item in ours] == [(result.title, result.body) for result in expected]


def test_a_target_is_decoded_once() -> None:
    target = "https://a.example/x%20y?q=1&r=%26"
    page = DUCKDUCKGO.search(
        WebQuery("q", 1), Answering(page_of(card(f"//duckduckgo.com/l/?uddg={quote(target, safe='')}", "t", "s")))
    )
    assert page.items[0].url == target
