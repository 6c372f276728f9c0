"""Tavily: its request and its results."""

import json

import pytest
from websearch.taped import Taped

from retrieve_cli.contracts.websearch import Page, WebQuery
from retrieve_cli.websearch.providers.web_engines import TAVILY

PROVIDER = "tavily"


def test_results_are_web_pages_with_identifiers_and_dates_in_the_order_of_the_engine(page: Page) -> None:
    assert [item.type for item in page.items] == ["web"] * 4
    assert [item.date for item in page.items] == ["2024-03-12", "", "", ""], "as mail writes it"
    assert page.items[0].title == "Counting the cuts that nobody ordered: an invented guide to off-target effects"
    assert page.items[0].snippet.startswith("An invented guide explains")
    assert page.items[0].url == "https://www.example.org/guides/off-target?utm_source=feed"
    identifiers = [str(item.ids[0]) for item in page.items[:3]]
    assert identifiers == ["https://example.org/guides/off-target", "pmid:39999901", "arxiv:2403.99991"]


def test_the_key_has_a_place_and_no_value(taped: Taped, page: Page) -> None:
    (call,) = taped.calls
    (key,) = call.keys
    assert (key.variable, key.where, key.name, key.form) == ("TAVILY_API_KEY", "header", "Authorization", "Bearer {}")
    assert "Authorization" not in call.headers
    assert TAVILY.needs[0].required


def test_at_most_twenty_results_are_wanted_and_a_notice_says_so(taped: Taped) -> None:
    page = TAVILY.search(WebQuery("zzqx no such thing", 50), taped)
    assert page.notices == ("Tavily returns at most 20 results",)


def test_a_long_question_is_cut_at_a_word_and_a_notice_says_so(taped: Taped) -> None:
    with pytest.raises(LookupError):  # no file has an answer to it
        TAVILY.search(WebQuery("wörd " * 100, 5), taped)
    sent = json.loads(taped.calls[0].body or b"")["query"]
    assert sent == ("wörd " * 80).rstrip()
    with pytest.raises(LookupError):
        TAVILY.search(WebQuery("x" * 900, 5), taped)
    assert json.loads(taped.calls[1].body or b"")["query"] == "x" * 400
