"""Checks of the engines in which indexes live, and of web and literature search; only engines are contacted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from retrieve_cli.errors import RetrieveError, UsageError, quoted
from retrieve_cli.http.addresses import shown
from retrieve_cli.http.transport import check_secure_url
from retrieve_cli.operations.doctor.subject import Finding, Found, Subject, fail, ok, some, warn

if TYPE_CHECKING:
    from retrieve_cli.contracts.engines import Engine
    from retrieve_cli.contracts.websearch import Provider


def engine(name: str, subject: Subject) -> Found:
    """Check that an engine can be used, and that it holds the current generation unchanged since it was sent."""
    if name not in subject.settings.engines.in_use:
        return None
    from retrieve_cli.assemble.engines import engine as made

    chosen = made(name, subject.settings)  # raises if a secret is missing
    live = chosen.live()  # raises if the server cannot be reached
    problems, contents = chosen.problems(), list(_contents(name, subject, chosen, live=live))
    # A server that answers for the current generation can be used, if not well.
    broken = any(fault.status == "fail" for fault in contents)
    faults = [Finding("fail" if broken else "warn", *problem) for problem in problems]
    section = getattr(subject.settings, name, None)
    url = urlsplit(str(getattr(section, "url", "")))
    secret = any(getattr(section, key, None) for key in ("password_env", "api_key_env", "token_env"))
    exposed = url.scheme == "http" and secret and url.hostname not in ("localhost", "127.0.0.1", "::1")
    if exposed and not any("https://" in fix for _, fix in problems):
        fix = f"set `engines.{name}.url` to https://…"
        faults.append(warn(f"its secret is sent to {url.hostname} without encryption", fix))
    if faults or contents:
        return [*faults, *contents]
    facts = ", ".join(f"{key} {value}" for key, value in chosen.describe().items())
    held = f"holds {subject.manifest.id}" if subject.manifest else "reachable, and there is no index yet"
    return ok(f"{held}: {facts}")


def _contents(name: str, subject: Subject, chosen: Engine, *, live: str | None) -> Iterator[Finding]:
    """Yield the faults of the generations in an engine: of the current one, and of others that no reader asks for."""
    from retrieve_cli.assemble import registry
    from retrieve_cli.assemble.engines import places

    if (manifest := subject.manifest) is None:
        return
    placed, push = places(subject.settings, manifest.recipe.retrievers), subject.command("engines", "push")
    parts = {each: manifest.rows(registry.retriever(each).file) for each, place in placed.items() if place == name}
    fault = next(_sent(name, subject, chosen, current=manifest.id, parts=parts), None)
    if fault is None and parts and live != manifest.id:
        message = f"its alias names {live or 'nothing'}, and {manifest.id} is current"
        fault = warn(f"{message}: other programs read the wrong generation", push)
    if fault is not None:
        yield fault
    known = {manifest.id}
    with suppress(RetrieveError):  # the check of generations reports it
        known |= {kept.manifest.id for kept in subject.store.kept()}
    staged = chosen.generations()
    if unfinished := [one.generation for one in staged if not one.complete and one.generation != manifest.id]:
        message = f"{some(len(unfinished), 'incomplete generation')} ({', '.join(unfinished)})"
        fix = subject.command("engines", "drop", unfinished[0])
        yield warn(f"{message}, unless a build is sending it now", fix)
    if strangers := [one.generation for one in staged if one.complete and one.generation not in known]:
        section = getattr(subject.settings, name, None)
        keys = (f"engines.{name}.{key}" for key in ("schema", "collection", "index") if hasattr(section, key))
        message = f"{some(len(strangers), 'generation')} that this index does not know ({', '.join(strangers)})"
        drop = subject.command("engines", "drop", strangers[0])
        fix = f"give each index its own `{next(keys, f'plugins.{name}')}`, or remove it: {drop}"
        yield warn(f"{message}: leftovers, or data of another index with the same name", fix)


def _sent(
    name: str, subject: Subject, chosen: Engine, *, current: str, parts: Mapping[str, int | None]
) -> Iterator[Finding]:
    """Yield the faults of the current generation in an engine."""
    from retrieve_cli.assemble.engines import lost
    from retrieve_cli.storage import engine_record

    push = subject.command("engines", "push")
    entry = engine_record.read(subject.store.generations / current).get(name)
    if entry is None:
        if parts:
            yield fail(f"generation {current} was not sent to it", push)
        return
    if missing := [part for part in parts if entry.part(part) is None]:
        yield fail(f"the index of {', '.join(missing)} was not sent to it", push)
    for part, count in parts.items():
        if (sent := entry.part(part)) is not None and sent.rows != count:
            yield fail(f"it was sent {sent.rows} rows of {part}, and the index has {count}", push)
    if fault := lost(chosen, entry, current):
        yield fail(fault, push)
    card = dict(chosen.card)
    if changed := sorted(key for key in {*entry.card, *card} if entry.card.get(key) != card.get(key)):
        yield warn(f"it was sent with other parameters than are configured ({', '.join(changed)})", push)


_WITHOUT_KEYS = "ddg, pubmed, biorxiv, s2, arxiv"
"""Providers that need no keys."""


def web(subject: Subject) -> Found:
    """Check that questions can be asked, by whom, and how they are sent; None if web search is off."""
    if not subject.settings.web.enabled:
        return None
    from retrieve_cli.assemble import websearch

    providers: list[Provider] = []
    faults: list[Finding] = []
    for name in dict.fromkeys(subject.settings.web.providers):
        try:
            providers.append(websearch.provider(name, subject.settings))
        except RetrieveError as error:
            faults.append(fail(error.message, error.hint))
    unset = {
        each.name: [need for need in each.needs if not os.environ.get(need.variable, "").strip()] for each in providers
    }
    missing = {
        name: keys for name, needs in unset.items() if (keys := [need.variable for need in needs if need.required])
    }
    usable = [each.name for each in providers if each.name not in missing]
    if missing:
        names = ", ".join(f"{name} ({', '.join(variables)})" for name, variables in missing.items())
        exports = " ".join(f"{variable}=…" for variables in missing.values() for variable in variables)
        fix = f"export {exports}, or set web.providers: [{', '.join(usable) or _WITHOUT_KEYS}]"
        faults.append(warn(f"skipped, because the environment does not have their keys: {names}", fix))
    contacts = ((name, need) for name in usable for need in unset[name] if need.purpose == "contact address")
    for name, need in contacts:
        message = f"{name}: {need.variable} is not set, and its server asks for a contact address"
        faults.append(warn(message, f"export {need.variable}=you@example.org"))
    faults += _endpoints(subject, sorted({server for provider in providers for server in provider.servers}))
    if not usable:
        fix = "" if faults else f"set web.providers: [{_WITHOUT_KEYS}]"
        faults.insert(0, fail("web search is enabled, and no configured provider can be asked", fix))
    return faults or ok(f"{some(len(usable), 'provider')} can be asked: {', '.join(usable)}")


def _endpoints(subject: Subject, origins: Sequence[str]) -> Iterator[Finding]:
    """Yield faults of configured endpoints: unencrypted ones, and ones that no provider uses."""
    for origin, other in subject.settings.web.endpoints.items():
        called = f"the server for {quoted(shown(origin))} in web.endpoints"
        try:
            check_secure_url(other, called=called)
        except UsageError as error:
            yield fail(error.message, f"{error.hint}, or remove it from web.endpoints")
            continue
        if urlsplit(other).path.strip("/"):
            yield fail(f"{called} has a path", "write scheme, host and port: https://HOST:PORT")
        if origin not in origins:
            message = f"no configured provider sends requests to {quoted(shown(origin))}, a key of web.endpoints"
            yield warn(message, f"name one of {', '.join(origins)}")
