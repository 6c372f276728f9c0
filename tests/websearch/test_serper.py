"""Serper: its request and its results; dates as Google writes them."""

import json

import pytest
from websearch.taped import AT, Taped

from retrieve_cli.contracts.websearch import Page
from retrieve_cli.websearch.dates import first_day
from retrieve_cli.websearch.providers.web_engines import date_of, google_filter

PROVIDER = "serper"


def test_organic_results_are_returned_in_their_order_with_identifiers_and_dates(page: Page) -> None:
    assert [item.title for item in page.items] == [
        "A made-up review of unintended edits",
        "Forum: my guide cuts elsewhere",
        "Imagined benchmark of guide design tools",
        "Off-target protocol",
    ]
    assert page.items[0].snippet == "This made-up review sorts unintended edits by distance from the guide ..."
    assert str(page.items[0].ids[0]) == "doi:10.99999/invented.2024.17"
    assert str(page.items[2].ids[0]) == "pmid:39999901"
    assert [item.date for item in page.items] == ["2024-03-12", "2026-11-20", "", "2025-02-05"]


def test_the_request_has_the_filter_by_date_and_a_place_for_the_key(taped: Taped, page: Page) -> None:
    assert json.loads(taped.calls[0].body or b"")["tbs"] == "cdr:1,cd_min:1/1/2024"
    (key,) = taped.calls[0].keys
    assert (key.variable, key.where, key.name) == ("SERPER_API_KEY", "header", "X-API-KEY")


@pytest.mark.parametrize(
    ("said", "date"),
    [
        ("2024-03-12", "2024-03-12"),
        ("Mar 12, 2024", "2024-03-12"),
        ("12 Mar 2024", "2024-03-12"),
        ("12. März 2024", ""),
        ("March 2024", "2024-03"),
        ("Tue, 12 Mar 2024 09:30:00 GMT", "2024-03-12"),
        ("5 hours ago", "2026-11-22"),
        ("1 hour ago", "2026-11-23"),
        ("3 days ago", "2026-11-20"),
        ("2 weeks ago", ""),
        ("yesterday's news", ""),
        ("999 days ago", "2024-02-28"),
    ],
)
def test_dates_of_search_engines(said: str, date: str) -> None:
    assert date_of(said, AT) == date


@pytest.mark.parametrize(
    ("since", "first", "value"),
    [
        ("2024", "2024-01-01", "cdr:1,cd_min:1/1/2024"),
        ("2024-11", "2024-11-01", "cdr:1,cd_min:11/1/2024"),
        ("2024-11-23", "2024-11-23", "cdr:1,cd_min:11/23/2024"),
    ],
)
def test_the_earliest_date_is_the_first_day(since: str, first: str, value: str) -> None:
    assert first_day(since) == first
    assert google_filter(since) == value
