"""SerpAPI: its request and its results."""

from websearch.taped import Taped

from retrieve_cli.contracts.websearch import Page, WebQuery
from retrieve_cli.websearch.providers.web_engines import SERPAPI

PROVIDER = "serpapi"


def test_organic_results_are_returned_in_their_order(page: Page) -> None:
    assert [str(item.ids[0]) for item in page.items] == [
        "doi:10.99999/invented.2024.17",
        "arxiv:2403.99991",
        "https://forum.example.com/t/81?page=2",
    ]
    assert [item.date for item in page.items] == ["2024-03-12", "", "2026-11-22"]


def test_a_further_page_is_counted_and_mentioned_and_not_asked_for(taped: Taped, page: Page) -> None:
    assert page.total == 12400
    assert page.notices == ("SerpAPI returns the first page of Google: 3 results",)
    assert len(taped.calls) == 1


def test_the_key_is_a_parameter_without_a_value(taped: Taped, page: Page) -> None:
    (call,) = taped.calls
    (key,) = call.keys
    assert (key.variable, key.where, key.name) == ("SERPAPI_API_KEY", "parameter", "api_key")
    assert call.parameters == {"engine": "google", "q": "crispr off-target", "tbs": "cdr:1,cd_min:1/1/2024"}


def test_another_spelling_that_google_chose_is_mentioned(taped: Taped) -> None:
    page = SERPAPI.search(WebQuery("crispr of-targt", 20), taped)
    assert page.notices == ("Google searched for 'crispr off-target' instead",)
