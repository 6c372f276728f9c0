"""Choice of the providers of a search: the named ones, or the configured ones of its kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from retrieve_cli.assemble import websearch as parts
from retrieve_cli.config.query_settings import KEYLESS, WebSettings
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.websearch import NoKey, Provider
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.search.web_answer import LONGEST_DEADLINE_MS, MOST_RESULTS, MOST_TEXT, WebOptions
from retrieve_cli.websearch import dates
from retrieve_cli.websearch.kinds import choose

ENABLE = "set web.enabled: true in config.yaml, or RETRIEVE_WEB__ENABLED=true"


class Chosen(NamedTuple):
    """Providers of one search."""

    kind: Literal["web", "literature", "both"]
    reason: str
    providers: Sequence[Provider]
    """Those to ask."""
    without_key: Sequence[tuple[Provider, NoKey]]
    """Configured providers of the kind whose credential is not in the environment and that the request does not name:
    not asked."""
    notice: str = ""
    """Why a provider is asked that is not configured."""


def check(options: WebOptions, settings: Settings) -> None:
    """Check the options of a search. Raises: UsageError: web search is off, or an option is out of range."""
    settings.expect_trusted("web")
    if not settings.web.enabled and not options.offline:
        raise UsageError("web search is off, because it sends the question to servers on the internet", hint=ENABLE)
    text = options.text.strip()
    if not text:
        raise UsageError("the question is empty", hint='retrieve web "crispr off-target"')
    if len(text) > MOST_TEXT:
        hint = f"providers take short questions: at most {MOST_TEXT:,}"
        raise UsageError(f"the question has {len(text):,} characters", hint=hint)
    if options.k is not None and not 1 <= options.k <= MOST_RESULTS:
        raise UsageError(f"k is {options.k}; it takes 1 to {MOST_RESULTS}", hint="-k 20")
    if options.since and dates.of_text(options.since) != options.since:
        raise UsageError(f"since is {quoted(options.since)}, not a date", hint="2024, 2024-03 or 2024-03-05")
    if options.deadline_ms is not None and not 1 <= options.deadline_ms <= LONGEST_DEADLINE_MS:
        message = f"deadline_ms is {options.deadline_ms:g}; it takes 1 to {LONGEST_DEADLINE_MS:,}"
        raise UsageError(message, hint="--deadline-ms 10000")


def chosen_providers(
    options: WebOptions, settings: Settings, *, missing_key: Callable[[Provider], NoKey | None]
) -> Chosen:
    """Return the providers of a search.

    Raises:
        UsageError: a named provider does not exist or is not configured, or no provider is left.
    """
    configured = tuple(dict.fromkeys(settings.web.providers))
    if options.providers:
        named = _named_providers(options, settings, configured)
        _expect_key(named, missing_key)
        kinds = {provider.kind for provider in named}
        kind = kinds.pop() if len(kinds) == 1 else "both"
        return Chosen(kind, "the providers were named", named, ())
    choice = choose(options.text, has_categories=bool(options.categories))
    kind, reason = (choice.kind, choice.reason) if options.kind == "auto" else (options.kind, "it was requested")
    every = [parts.provider(name, settings) for name in configured]
    fitting = [provider for provider in every if kind in ("both", provider.kind)]
    if options.categories:
        fitting = [provider for provider in fitting if provider.name in parts.CATEGORISED]
    if not fitting:
        with_them = " with categories" if options.categories else ""
        what = "the web" if kind == "web" else "literature"
        hint = "see web.providers: retrieve config show web.providers"
        raise UsageError(f"no configured provider searches {what}{with_them}", hint=hint)
    missing = [(provider, missing_key(provider)) for provider in fitting]
    usable = [provider for provider, failure in missing if failure is None]
    notice = ""
    if not usable and kind == "web" and not options.categories and list(configured) == WebSettings().providers:
        usable = [parts.provider(KEYLESS, settings)]
        keys = ", ".join(failure.variable for _, failure in missing if failure is not None)
        notice = f"{usable[0].title} is asked, because no key of another provider is set ({keys})"
    if not usable:
        _expect_key(fitting, missing_key)
    without = [(provider, failure) for provider, failure in missing if failure is not None]
    return Chosen(kind, reason, usable, without, notice)


def _named_providers(options: WebOptions, settings: Settings, configured: Sequence[str]) -> list[Provider]:
    named = [parts.provider(name, settings) for name in dict.fromkeys(options.providers)]
    for provider in named:
        if provider.name not in configured:
            hint = f"add it to web.providers: [{', '.join((*configured, provider.name))}]"
            raise UsageError(f"the provider {provider.name} is not configured", hint=hint)
    return named


def _expect_key(providers: Sequence[Provider], missing_key: Callable[[Provider], NoKey | None]) -> None:
    """Raises: UsageError: none of the providers has the credential that it needs."""
    failures = [failure for provider in providers if (failure := missing_key(provider)) is not None]
    if not providers or len(failures) < len(providers):
        return
    names = " and ".join(filter(None, (", ".join(each.name for each in providers[:-1]), providers[-1].name)))
    variables = list(dict.fromkeys(failure.variable for failure in failures))
    if len(variables) == 1:
        needs = "needs a key" if len(providers) == 1 else "need a key"
        raise UsageError(f"{names} {needs}: {variables[0]} is not set", hint=f"export {variables[0]}=…")
    message = f"{names} need keys: none of {', '.join(variables)} is set"
    raise UsageError(message, hint=f"set one: export {variables[0]}=…")
