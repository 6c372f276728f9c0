"""Which providers a search asks, and what is refused."""

import pytest

from retrieve_cli.assemble.websearch import missing_key
from retrieve_cli.config.query_settings import WebSettings
from retrieve_cli.config.settings import Settings
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.search.web_answer import WebOptions
from retrieve_cli.search.web_choice import Chosen, check, chosen_providers

ENABLED = replace(Settings(), web=WebSettings(enabled=True))


def chosen(options: WebOptions, settings: Settings = ENABLED) -> Chosen:
    return chosen_providers(options, settings, missing_key=missing_key)


def names(found: Chosen) -> list[str]:
    return [provider.name for provider in found.providers]


def test_a_search_is_refused_until_it_is_enabled() -> None:
    with pytest.raises(UsageError, match="web search is off") as caught:
        check(WebOptions("x"), Settings())
    assert "web.enabled" in caught.value.hint


def test_stored_answers_need_no_permission_because_nothing_is_sent() -> None:
    check(WebOptions("x", offline=True), Settings())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (WebOptions(" "), "empty"),
        (WebOptions("x" * 2001), "2,001 characters"),
        (WebOptions("x", k=0), "1 to 100"),
        (WebOptions("x", since="24"), "not a date"),
        (WebOptions("x", since="2024-13"), "not a date"),
        (WebOptions("x", deadline_ms=0.0), "deadline_ms"),
    ],
)
def test_an_option_out_of_range_is_named(options: WebOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check(options, ENABLED)


def test_literature_is_searched_by_providers_without_keys() -> None:
    assert names(chosen(WebOptions("crispr"))) == ["pubmed", "europepmc", "biorxiv", "s2", "arxiv"]


def test_keyed_providers_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERPER_API_KEY", "k")
    found = chosen(WebOptions("news and papers"))
    assert names(found)[0] == "serper"
    assert [provider.name for provider, _ in found.without_key] == ["tavily", "serpapi"]


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (WebOptions("x", providers=("tavily",)), "tavily needs a key: TAVILY_API_KEY is not set", ""),
        (WebOptions("x", providers=("ddg",)), "ddg is not configured", "web.providers"),
        (WebOptions("x", providers=("pubmd",)), "pubmd", "did you mean pubmed?"),
    ],
    ids=["without its key", "not configured", "unknown, answered by the nearest"],
)
def test_providers_that_cannot_be_asked_are_refused(options: WebOptions, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        chosen(options)
    assert hint in caught.value.hint


def test_a_question_to_the_web_without_any_key_goes_to_duckduckgo_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design B: "DuckDuckGo, general web search (no key required)", "keyed backends first, then keyless fallbacks"."""
    found = chosen(WebOptions("latest news"))
    assert names(found) == ["ddg"]
    keys = "TAVILY_API_KEY, SERPER_API_KEY, SERPAPI_API_KEY"
    assert found.notice == f"DuckDuckGo is asked, because no key of another provider is set ({keys})"
    listed = replace(ENABLED, web=WebSettings(enabled=True, providers=["tavily", "serper", "pubmed"]))
    with pytest.raises(UsageError, match="none of TAVILY_API_KEY, SERPER_API_KEY is set"):
        chosen(WebOptions("latest news"), listed)
    monkeypatch.setenv("SERPER_API_KEY", "k")
    assert (names(chosen(WebOptions("latest news"))), chosen(WebOptions("latest news")).notice) == (["serper"], "")


def test_a_named_provider_without_its_key_is_a_failure_beside_one_that_can_be_asked() -> None:
    assert names(chosen(WebOptions("x", providers=("tavily", "arxiv")))) == ["tavily", "arxiv"]


def test_a_requested_kind_wins_over_the_words_and_categories_ask_those_who_know_them() -> None:
    assert chosen(WebOptions("latest news", kind="literature")).kind == "literature"
    assert names(chosen(WebOptions("latest news", categories=("cs.AI",)))) == ["arxiv"]
