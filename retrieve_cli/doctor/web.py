"""Check of web and literature search: who can be asked, and what is missing. Nothing is sent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from retrieve_cli.doctor.subject import Check, Status, Subject, some
from retrieve_cli.errors import RetrieveError, quoted
from retrieve_cli.web.addresses import shown

if TYPE_CHECKING:
    from retrieve_cli.config.web_settings import WebSettings
    from retrieve_cli.contracts.websearch import Provider

CONTACT = "contact address"
"""Purpose of a variable (`contracts.websearch.Need`) with the address of a person whom a server may write to."""
_PACKAGES = {"ddg": "ddgs"}
"""Package of each built-in provider that needs one."""
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
    providers, faults = _providers(subject)
    usable = [provider for provider in providers if not _lacks(provider)]
    faults += [fault for provider in providers for fault in _lacks(provider)]
    faults += [fault for provider in usable for fault in _contact(provider)]
    faults += _endpoints(chosen, _origins(subject, providers))
    if not usable:
        message = "web search is enabled, and no configured provider can be asked"
        fix = "set web.providers: [pubmed, europepmc, arxiv], which need no keys"
        faults.insert(0, _Fault("fail", message, "" if faults else fix))
    if not faults:
        names = ", ".join(provider.name for provider in usable)
        return Check("web", "ok", f"{some(len(usable), 'provider')} can be asked: {names}")
    worst = max((fault.status for fault in faults), key=_WORSE.index)
    message = "; ".join(fault.message for fault in faults)
    return Check("web", worst, message, "; ".join(dict.fromkeys(fault.fix for fault in faults if fault.fix)))


def _providers(subject: Subject) -> tuple[list[Provider], list[_Fault]]:
    """Return the configured providers, and a fault for each name that cannot be one."""
    from retrieve_cli.assemble.websearch import enrichers, provider

    made, faults = [], []
    for name in dict.fromkeys(subject.settings.web.providers):
        try:
            made.append(provider(name, subject.settings))
        except RetrieveError as error:
            faults.append(_Fault("fail", error.message, error.hint))
    try:
        enrichers(subject.settings)
    except RetrieveError as error:
        faults.append(_Fault("fail", error.message, error.hint))
    return made, faults


def _lacks(provider: Provider) -> list[_Fault]:
    """Return what a provider cannot be asked without."""
    missing = [need.variable for need in provider.needs if need.required and not _is_set(need.variable)]
    lacks = [(f"{name} is not set", f"export {name}=…") for name in missing]
    package = _PACKAGES.get(provider.name)
    if package is not None and find_spec(package) is None:
        lacks.append((f"the package {package} is not installed", "pip install 'retrieve-cli[web]'"))
    without = f"remove {provider.name} from web.providers"
    return [_Fault("warn", f"{provider.name}: {what}", f"{fix}, or {without}") for what, fix in lacks]


def _contact(provider: Provider) -> Iterator[_Fault]:
    """Yield a fault if a server asks its users for an address, and none is set."""
    for need in provider.needs:
        if not need.required and need.purpose == CONTACT and not _is_set(need.variable):
            message = f"{provider.name}: {need.variable} is not set, and its server asks for a contact address"
            yield _Fault("warn", message, f"export {need.variable}=you@example.org")


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())


def _origins(subject: Subject, providers: Sequence[Provider]) -> frozenset[str]:
    """Return the origins to which providers and enrichers send their requests."""
    from retrieve_cli.assemble.websearch import enrichers

    try:
        asked = [*providers, *enrichers(subject.settings)]
    except RetrieveError:  # reported with the providers
        asked = list(providers)
    return frozenset(server for one in asked for server in one.servers)


def _endpoints(chosen: WebSettings, origins: frozenset[str]) -> Iterator[_Fault]:
    """Yield faults of other servers that are configured: unencrypted ones, and those that nobody would ask."""
    for origin, other in chosen.endpoints.items():
        key = f"web.endpoints[{quoted(shown(origin))}]"
        if not _is_safe(other):
            message = f"{key} is {quoted(shown(other))}: questions and keys go over https, except to this machine"
            yield _Fault("fail", message, "set it to https://…, or remove it from web.endpoints")
        if origin not in origins:
            message = f"{key}: no configured provider sends requests there"
            yield _Fault("warn", message, f"name the origin without a path, one of {', '.join(sorted(origins))}")


def _is_safe(address: str) -> bool:
    """Return True if an address is encrypted, or of this machine."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        return parts.scheme == "https" or (parts.scheme == "http" and (host == "localhost" or _is_loopback(host)))
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
