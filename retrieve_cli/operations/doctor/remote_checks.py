"""Checks of engines, which are asked, and of web and literature search, which is not."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import RetrieveError, UsageError, quoted
from retrieve_cli.http.addresses import shown
from retrieve_cli.http.transport import is_loopback
from retrieve_cli.operations.doctor.subject import Check, Subject, fail, ok, warn

if TYPE_CHECKING:
    from retrieve_cli.contracts.engines import Engine
    from retrieve_cli.storage.manifest import Manifest

_WITHOUT_KEYS = "ddg, pubmed, biorxiv, s2, arxiv"
"""Providers of web search that need no keys."""


def engine(name: str, subject: Subject) -> Check | list[Check]:
    """Check that an engine can be used, and holds all that was sent of the current generation."""
    from retrieve_cli.assemble import engines

    chosen = engines.engine(name, subject.settings)  # raises if a secret is missing
    chosen.live()  # raises if the server cannot be reached
    faults, manifest = [*_problems(subject, chosen)], subject.manifest
    if manifest:
        faults += _faults_of(manifest, subject, chosen)
        faults += _leftovers(manifest, subject, chosen)
    facts = ", ".join(f"{key} {value}" for key, value in chosen.describe().items())
    held = f"holds {manifest.id}" if manifest else "reachable, and there is no index yet"
    return faults or ok(f"{held}: {facts}")


def _problems(subject: Subject, chosen: Engine) -> Iterator[Check]:
    problems = chosen.problems()
    yield from (warn(*problem) for problem in problems)
    section = getattr(subject.settings, chosen.name, None)
    keys = ("password_env", "api_key_env", "token_env")
    secret = any(getattr(section, key, None) for key in keys)
    url = urlsplit(str(getattr(section, "url", "")))
    reported = any("https://" in fix for _, fix in problems)
    if secret and url.scheme == "http" and not (reported or is_loopback(url.hostname or "")):
        message = f"its secret is sent to {url.hostname} without encryption"
        yield warn(message, f"set `engines.{chosen.name}.url` to https://…")


def _faults_of(manifest: Manifest, subject: Subject, chosen: Engine) -> Iterator[Check]:
    """Yield the first fault of the current generation in an engine."""
    from retrieve_cli.assemble import engines
    from retrieve_cli.storage import engine_record

    placed = engines.places(subject.settings, manifest.recipe.retrievers)
    parts = [part for part, place in placed.items() if place == chosen.name]
    sent = engine_record.read(subject.store.generations / manifest.id).get(chosen.name)
    missing = [part for part in parts if sent is None or sent.part(part) is None]
    fault = engines.lost(chosen, sent, manifest.id) if sent and not missing else ""
    keys = sorted({*sent.card, *chosen.card}) if sent else ()
    changed = [key for key in keys if sent and sent.card.get(key) != chosen.card.get(key)]
    if missing:
        names = ", ".join(missing)
        yield fail(f"the index of {names} in generation {manifest.id} was not sent to it")
    elif fault:
        yield fail(fault)
    elif changed:
        names = ", ".join(changed)
        yield warn(f"it was sent with other parameters than are configured ({names})")
    elif parts and chosen.live() != manifest.id:
        message = f"its alias names {chosen.live() or 'nothing'}, and {manifest.id} is current"
        yield warn(f"{message}: other programs read the wrong generation")


def _leftovers(manifest: Manifest, subject: Subject, chosen: Engine) -> Iterator[Check]:
    """Yield findings on generations in an engine that no reader asks for."""
    known = {manifest.id, *(kept.manifest.id for kept in subject.store.kept())}
    others = [other for other in chosen.generations() if other.generation != manifest.id]
    if unfinished := [other.generation for other in others if not other.complete]:
        message = f"{count(len(unfinished), 'incomplete generation')} ({', '.join(unfinished)})"
        drop = subject.command("engines", "drop", unfinished[0])
        yield warn(f"{message}, unless a build is sending it now", drop)
    complete = (other.generation for other in others if other.complete)
    if strangers := [other for other in complete if other not in known]:
        section = getattr(subject.settings, chosen.name, None)
        keys = [key for key in ("schema", "collection", "index") if hasattr(section, key)]
        named = f"engines.{chosen.name}.{keys[0]}" if keys else f"plugins.{chosen.name}"
        drop = subject.command("engines", "drop", strangers[0])
        message = f"{count(len(strangers), 'generation')} that this index does not know"
        origin = "leftovers, or data of another index with the same name"
        fix = f"give each index its own `{named}`, or remove it: {drop}"
        yield warn(f"{message} ({', '.join(strangers)}): {origin}", fix)


def web(subject: Subject) -> Check | list[Check] | None:
    """Check that questions can be asked, by whom, and how they are sent."""
    section = subject.settings.web
    if not section.enabled:
        return None
    from retrieve_cli.assemble import websearch

    faults: list[Check] = []
    missing: dict[str, list[str]] = {}
    usable: list[str] = []
    servers: set[str] = set()
    for name in dict.fromkeys(section.providers):
        try:
            provider = websearch.provider(name, subject.settings)
        except RetrieveError as error:
            faults.append(fail(error.message, error.hint))
            continue
        servers.update(provider.servers)
        unset = [need for need in provider.needs if not os.environ.get(need.variable, "").strip()]
        if required := [need.variable for need in unset if need.required]:
            missing[name] = required
            continue
        usable.append(name)
        for need in unset:
            if need.purpose == "contact address":
                lacking = f"{name}: {need.variable} is not set"
                message = f"{lacking}, and its server asks for a contact address"
                faults.append(warn(message, f"export {need.variable}=you@example.org"))
    if missing:
        names = ", ".join(f"{name} ({', '.join(keys)})" for name, keys in missing.items())
        message = f"skipped, because the environment does not have their keys: {names}"
        exports = " ".join(f"{key}=…" for keys in missing.values() for key in keys)
        others = ", ".join(usable) or _WITHOUT_KEYS
        faults.append(warn(message, f"export {exports}, or set web.providers: [{others}]"))
    faults += _endpoints(section.endpoints, servers)
    if not usable:
        message = "web search is enabled, and no configured provider can be asked"
        faults.insert(0, fail(message, "" if faults else f"set web.providers: [{_WITHOUT_KEYS}]"))
    return faults or ok(f"{count(len(usable), 'provider')} can be asked: {', '.join(usable)}")


def _endpoints(endpoints: Mapping[str, str], servers: Collection[str]) -> Iterator[Check]:
    """Yield findings on endpoints that a search would reject, or that no provider uses."""
    from retrieve_cli.websearch.sending import Sender

    for origin, other in endpoints.items():
        try:
            Sender({origin: other})
        except UsageError as error:
            yield fail(error.message, error.hint)
        if origin not in servers:
            key = f"{quoted(shown(origin))}, a key of web.endpoints"
            names = ", ".join(sorted(servers))
            yield warn(f"no configured provider sends requests to {key}", f"name one of {names}")
