"""Checks of engines, which are asked, and of web and literature search, which is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import RetrieveError
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
    chosen.published()  # raises if the server cannot be reached
    faults, manifest = [*_problems(subject, chosen)], subject.manifest
    if manifest:
        faults += _faults_of(manifest, subject, chosen)
    facts = ", ".join(f"{key} {value}" for key, value in chosen.describe().items())
    held = f"holds {manifest.id}" if manifest else "reachable, and there is no index yet"
    return faults or ok(f"{held}: {facts}")


def _problems(subject: Subject, chosen: Engine) -> Iterator[Check]:
    problems = chosen.problems()
    yield from (warn(*problem) for problem in problems)
    section = getattr(subject.settings, chosen.name, None)
    keys = ("password_env", "api_key_env")
    secret = any(getattr(section, key, None) for key in keys)
    url = urlsplit(str(getattr(section, "url", "")))
    reported = any("https://" in fix for _, fix in problems)
    if secret and url.scheme == "http" and not (reported or is_loopback(url.hostname or "")):
        message = f"its secret is sent to {url.hostname} without encryption"
        yield warn(message, f"set `engines.{chosen.name}.url` to https://…")


def _faults_of(manifest: Manifest, subject: Subject, chosen: Engine) -> Iterator[Check]:
    """Yield the first fault of the current generation in an engine."""
    from retrieve_cli.operations.status import engine_fault
    from retrieve_cli.storage import engine_record

    push, store = subject.command("engines", "push"), subject.store
    if fault := engine_fault(chosen, store, manifest.id):
        yield fail(fault, push)
        return
    held, published = engine_record.find(store.generations / manifest.id, chosen.name), chosen.published()
    if held is not None and published != held.name:
        yield warn(f"its alias names {published or 'nothing'}: other programs read other rows", push)


def web(subject: Subject) -> Check | list[Check] | None:
    """Check that questions can be asked, and by whom."""
    section = subject.settings.web
    if not section.enabled:
        return None
    from retrieve_cli.assemble import websearch

    faults: list[Check] = []
    missing: dict[str, str] = {}
    usable: list[str] = []
    for name in dict.fromkeys(section.providers):
        try:
            provider = websearch.provider(name, subject.settings)
        except RetrieveError as error:
            faults.append(fail(error.message, error.hint))
            continue
        unset = [need for need in provider.needs if not os.environ.get(need.variable, "").strip()]
        required = [need.variable for need in unset if need.required]
        missing |= dict.fromkeys(required, name)
        usable += [] if required else [name]
        for need in unset:
            if need.purpose == "contact address" and not required:
                message = f"{name}: {need.variable} is not set, and its server asks for an address"
                faults.append(warn(message, f"export {need.variable}=you@example.org"))
    if missing:
        names = ", ".join(f"{name} ({key})" for key, name in missing.items())
        message = f"skipped, because the environment does not have their keys: {names}"
        exports = " ".join(f"{key}=…" for key in missing)
        others = ", ".join(usable) or _WITHOUT_KEYS
        faults.append(warn(message, f"export {exports}, or set web.providers: [{others}]"))
    if not usable:
        message, fix = "no configured provider can be asked", f"set web.providers: [{_WITHOUT_KEYS}]"
        faults.insert(0, fail(message, fix))
    return faults or ok(f"{count(len(usable), 'provider')} can be asked: {', '.join(usable)}")
