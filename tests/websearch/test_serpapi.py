"""SerpAPI: its request and its results."""

from websearch.taped import Taped

from retrieve_cli.contracts.websearch import Page

PROVIDER = "serpapi"


def test_organic_results_are_returned_in_their_order(page: Page) -> None:
    assert [str(item.ids[0]) for item in page.items] == [
        "doi:10.99999/invented.2024.17",
        "arxiv:2403.99991",
        "https://forum.example.com/t/81?page=2",
    ]
    assert [item.date for item in page.items] == ["2024-03-12", "", "2026-11-22"]


def test_the_key_is_a_parameter_without_a_value(taped: Taped, page: Page) -> None:
    (call,) = taped.calls
    (key,) = call.keys
    assert (key.variable, key.where, key.name) == ("SERPAPI_API_KEY", "parameter", "api_key")
    assert call.parameters == {"engine": "google", "q": "crispr off-target", "tbs": "cdr:1,cd_min:1/1/2024"}
