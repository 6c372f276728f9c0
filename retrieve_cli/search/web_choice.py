"""Choice of the providers of a search: the named ones, or the configured ones of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from retrieve_cli.assemble import websearch as parts
from retrieve_cli.config.query_settings import KEYLESS
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.websearch import Provider, ProviderFailure
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.search.web_answer import MOST_TEXT, WebOptions
from retrieve_cli.websearch import dates
from retrieve_cli.websearch.asking import missing_key
from retrieve_cli.websearch.kinds import choose

ENABLE = "set web.enabled: true in config.yaml, or RETRIEVE_WEB__ENABLED=true"


class Chosen(NamedTuple):
    """Providers of one search."""

    kind: Literal["web", "literature", "both"]
    reason: str
    providers: Sequence[Provider]
    """Those to ask."""
    fallback: Sequence[Provider] = ()
    """Those to ask if all others of their kind fail."""
    without_key: Sequence[tuple[Provider, ProviderFailure]] = ()
    """Configured providers of the kind whose key is not in the environment: not asked."""
    notice: str = ""
    """Why the fallback is asked at once."""


def check(options: WebOptions, settings: Settings) -> None:
    """Check the options of a search. Raises: UsageError: web search is off, or an option is out of range."""
    settings.expect_trusted("web")
    if not settings.web.enabled:
        message = "web search is off, because it sends the question to servers on the internet"
        raise UsageError(message, hint=ENABLE)
    text = options.text.strip()
    if not text:
        raise UsageError("the question is empty", hint='retrieve web "crispr off-target"')
    if len(text) > MOST_TEXT:
        hint = f"providers take short questions: at most {MOST_TEXT:,}"
        raise UsageError(f"the question has {len(text):,} characters", hint=hint)
    if options.since and dates.of_text(options.since) != options.since:
        message = f"since is {quoted(options.since)}, not a date"
        raise UsageError(message, hint="2024, 2024-03 or 2024-03-05")


def chosen_providers(options: WebOptions, settings: Settings) -> Chosen:
    """Return the providers of a search.

    Raises:
        UsageError: a named provider does not exist or is not configured, or no provider is left.
    """
    configured = tuple(dict.fromkeys(settings.web.providers))
    if options.providers:
        named = _named_providers(options, settings, configured)
        _expect_key(named)
        kinds = {provider.kind for provider in named}
        kind = kinds.pop() if len(kinds) == 1 else "both"
        return Chosen(kind, "the providers were named", named)
    choice = choose(options.text, has_categories=bool(options.categories))
    kind, reason = choice if options.kind == "auto" else (options.kind, "it was requested")
    every = [parts.provider(name, settings) for name in configured]
    fitting = [provider for provider in every if kind in ("both", provider.kind)]
    if options.categories:
        fitting = [provider for provider in fitting if provider.name in parts.CATEGORISED]
    if not fitting:
        with_them = " with categories" if options.categories else ""
        what = "the web" if kind == "web" else "literature"
        hint = "see web.providers: retrieve config show web.providers"
        raise UsageError(f"no configured provider searches {what}{with_them}", hint=hint)
    return _with_fallback(fitting, kind, reason)


def _with_fallback(fitting: Sequence[Provider], kind: Literal["web", "literature", "both"], reason: str) -> Chosen:
    """Return the choice among providers of the kind: those with keys, and the keyless one of the web after them."""
    missing = [(provider, missing_key(provider.needs)) for provider in fitting]
    without = [(provider, failure) for provider, failure in missing if failure]
    usable = [provider for provider, failure in missing if not failure]
    if not usable:
        _expect_key(fitting)
    last = [provider for provider in usable if provider.name == KEYLESS]
    others = [provider for provider in usable if provider.name != KEYLESS]
    if not last or any(provider.kind == "web" for provider in others):
        return Chosen(kind, reason, others, last, without)
    keys = ", ".join(failure.variable for _, failure in without)
    notice = f"{last[0].title} is asked, because no key of another provider is set ({keys})"
    return Chosen(kind, reason, [*last, *others], (), without, notice if without else "")


def _named_providers(options: WebOptions, settings: Settings, configured: Sequence[str]) -> list[Provider]:
    named = [parts.provider(name, settings) for name in dict.fromkeys(options.providers)]
    for provider in named:
        if provider.name not in configured:
            hint = f"add it to web.providers: [{', '.join((*configured, provider.name))}]"
            raise UsageError(f"the provider {provider.name} is not configured", hint=hint)
    return named


def _expect_key(providers: Sequence[Provider]) -> None:
    """Raises: UsageError: none of the providers has the key that it needs."""
    failures = [failure for one in providers if (failure := missing_key(one.needs))]
    if not providers or len(failures) < len(providers):
        return
    names = ", ".join(provider.name for provider in providers)
    variables = list(dict.fromkeys(failure.variable for failure in failures))
    needs = "needs a key" if len(providers) == 1 else "need keys"
    message = f"{names} {needs}, and none is set: {', '.join(variables)}"
    raise UsageError(message, hint=f"export {variables[0]}=…")
