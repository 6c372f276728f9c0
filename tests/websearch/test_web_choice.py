"""Which providers a search asks, and what is refused."""

import pytest

from retrieve_cli.config.query_settings import WebSettings
from retrieve_cli.config.settings import Settings
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.search.web_answer import WebOptions
from retrieve_cli.search.web_choice import Chosen, chosen_providers

ENABLED = replace(Settings(), web=WebSettings(enabled=True))


def chosen(options: WebOptions, settings: Settings = ENABLED) -> Chosen:
    return chosen_providers(options, settings)


def names(found: Chosen) -> list[str]:
    return [provider.name for provider in found.providers]


def test_literature_is_searched_by_providers_without_keys() -> None:
    assert names(chosen(WebOptions("crispr"))) == ["pubmed", "biorxiv", "s2", "arxiv"]


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (WebOptions("x", providers=("tavily",)), "tavily needs a key, and none is set: TAVILY_API_KEY", ""),
        (WebOptions("x", providers=("pubmd",)), "pubmd", "did you mean pubmed?"),
    ],
    ids=["without its key", "unknown, answered by the nearest"],
)
def test_providers_that_cannot_be_asked_are_refused(options: WebOptions, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        chosen(options)
    assert hint in caught.value.hint


def test_the_keyless_provider_of_the_web_is_asked_last_and_at_once_only_if_no_other_has_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Design B: "DuckDuckGo, general web search (no key required)", "keyed backends first, then keyless fallbacks"."""
    alone = chosen(WebOptions("latest news"))
    assert (names(alone), alone.fallback) == (["ddg"], ())
    keys = "TAVILY_API_KEY, SERPER_API_KEY, SERPAPI_API_KEY"
    assert alone.notice == f"DuckDuckGo is asked, because no key of another provider is set ({keys})"
    monkeypatch.setenv("SERPER_API_KEY", "k")
    after = chosen(WebOptions("latest news"))
    assert (names(after), [provider.name for provider in after.fallback]) == (["serper"], ["ddg"])
    assert after.notice == ""
    both = chosen(WebOptions("news and papers"))
    assert names(both) == ["serper", "pubmed", "biorxiv", "s2", "arxiv"]
    assert [provider.name for provider in both.fallback] == ["ddg"]


def test_a_named_provider_without_its_key_is_a_failure_beside_one_that_can_be_asked() -> None:
    assert names(chosen(WebOptions("x", providers=("tavily", "arxiv")))) == ["tavily", "arxiv"]


def test_a_requested_kind_wins_over_the_words_and_categories_ask_those_who_know_them() -> None:
    assert chosen(WebOptions("latest news", kind="literature")).kind == "literature"
    assert names(chosen(WebOptions("latest news", categories=("cs.AI",)))) == ["arxiv"]
