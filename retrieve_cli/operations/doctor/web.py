"""Check of web and literature search: usable providers, and missing keys. Nothing is sent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from retrieve_cli.errors import RetrieveError, UsageError, quoted
from retrieve_cli.http.addresses import shown
from retrieve_cli.http.fetching import check_secure_url
from retrieve_cli.operations.doctor.subject import Check, Status, Subject, some

if TYPE_CHECKING:
    from retrieve_cli.config.query_settings import WebSettings
    from retrieve_cli.contracts.websearch import Enricher, Provider

CONTACT = "contact address"
"""Purpose of a variable (`contracts.websearch.Need`) with the address of a person whom a server may write to."""
_WITHOUT_KEYS = "pubmed, europepmc, biorxiv, s2, arxiv"
"""Providers that need no keys."""
_WORSE: Sequence[Status] = ("ok", "warn", "fail")


class _Fault(NamedTuple):
    """Something that is wrong, and what fixes it."""

    status: Status
    message: str
    fix: str


def web(subject: Subject) -> Check | None:
    """Check that questions can be asked, by whom, and how they are sent; None if web search is off."""
    chosen = subject.settings.web
    if not chosen.enabled:
        return None
    providers, enrichers, faults = _configured(subject)
    usable = [provider for provider in providers if not _missing(provider)]
    faults += _without_key(providers, usable)
    faults += [fault for provider in usable for fault in _contact(provider)]
    servers = [asked.servers for asked in providers] + [asked.servers for asked in enrichers]
    faults += _endpoints(chosen, {server for each in servers for server in each})
    if not usable:
        fix = "" if faults else f"set web.providers: [{_WITHOUT_KEYS}]"
        faults.insert(0, _Fault("fail", "web search is enabled, and no configured provider can be asked", fix))
    if not faults:
        names = ", ".join(provider.name for provider in usable)
        return Check("web", "ok", f"{some(len(usable), 'provider')} can be asked: {names}")
    worst = max((fault.status for fault in faults), key=_WORSE.index)
    message = "; ".join(fault.message for fault in faults)
    return Check("web", worst, message, "; ".join(dict.fromkeys(fault.fix for fault in faults if fault.fix)))


def _configured(subject: Subject) -> tuple[list[Provider], list[Enricher], list[_Fault]]:
    """Return the configured providers and enrichers, and a fault for each name that is not one of them."""
    from retrieve_cli.assemble import websearch

    providers: list[Provider] = []
    enrichers: list[Enricher] = []
    faults = []
    for name in dict.fromkeys(subject.settings.web.providers):
        try:
            providers.append(websearch.provider(name, subject.settings))
        except RetrieveError as error:
            faults.append(_Fault("fail", error.message, error.hint))
    try:
        enrichers += websearch.enrichers(subject.settings)
    except RetrieveError as error:
        faults.append(_Fault("fail", error.message, error.hint))
    return providers, enrichers, faults


def _missing(provider: Provider) -> list[str]:
    """Return the variables without which a provider cannot be asked, and that are not set."""
    return [need.variable for need in provider.needs if need.required and not _is_set(need.variable)]


def _without_key(providers: Sequence[Provider], usable: Sequence[Provider]) -> Iterator[_Fault]:
    """Yield a fault that names the providers without their keys."""
    missing = {provider.name: _missing(provider) for provider in providers if provider not in usable}
    if missing:
        names = ", ".join(f"{name} ({', '.join(variables)})" for name, variables in missing.items())
        exports = " ".join(f"{variable}=…" for variables in missing.values() for variable in variables)
        others = ", ".join(provider.name for provider in usable) or _WITHOUT_KEYS
        fix = f"export {exports}, or set web.providers: [{others}]"
        yield _Fault("warn", f"skipped, because the environment does not have their keys: {names}", fix)


def _contact(provider: Provider) -> Iterator[_Fault]:
    """Yield a fault if a server asks its users for an address, and none is set."""
    for need in provider.needs:
        if not need.required and need.purpose == CONTACT and not _is_set(need.variable):
            message = f"{provider.name}: {need.variable} is not set, and its server asks for a contact address"
            yield _Fault("warn", message, f"export {need.variable}=you@example.org")


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())


def _endpoints(chosen: WebSettings, origins: Set[str]) -> Iterator[_Fault]:
    """Yield faults of configured endpoints: unencrypted ones, and ones that no provider uses."""
    for origin, other in chosen.endpoints.items():
        called = f"the server for {quoted(shown(origin))} in web.endpoints"
        try:
            check_secure_url(other, called=called)
        except UsageError as error:
            yield _Fault("fail", error.message, f"{error.hint}, or remove it from web.endpoints")
            continue
        if urlsplit(other).path.strip("/"):
            yield _Fault("fail", f"{called} has a path", "write scheme, host and port: https://HOST:PORT")
        if origin not in origins:
            message = f"no configured provider sends requests to {quoted(shown(origin))}, a key of web.endpoints"
            yield _Fault("warn", message, f"name one of {', '.join(sorted(origins))}")
