"""Checks of the engines in which indexes live: one per engine, and none if every index is in local files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from retrieve_cli.errors import RetrieveError
from retrieve_cli.operations.doctor.subject import Fault, Status, Subject, ok, some

if TYPE_CHECKING:
    from retrieve_cli.contracts.engines import Engine, Staged
    from retrieve_cli.storage.engine_record import Entry
    from retrieve_cli.storage.manifest import Manifest

_LOCAL = ("localhost", "127.0.0.1", "::1")
_SECRETS = ("password_env", "api_key_env", "token_env")
_NAMESPACES = ("schema", "collection", "index")
"""Keys that name the place of an index in an engine; each has the first of them that it knows."""


def engine(name: str, subject: Subject) -> Fault | list[Fault] | None:
    """Check that an engine can be used, and that it holds the current generation unchanged since it was sent."""
    if name not in subject.settings.engines.in_use:
        return None
    from retrieve_cli.assemble.engines import engine as made

    chosen = made(name, subject.settings)  # raises if a secret is missing
    current = chosen.live()  # raises if the server cannot be reached
    problems = chosen.problems()
    contents = list(_contents(name, subject, chosen, current))
    # A server that answers for the current generation can be used, if not well.
    broken = any(fault.status == "fail" for fault in contents)
    faults = [Fault("fail" if broken else "warn", *problem) for problem in problems]
    faults += _exposed(name, getattr(subject.settings, name, None), problems)
    faults += contents
    if not faults:
        facts = ", ".join(f"{key} {value}" for key, value in chosen.describe().items())
        index = f"holds {subject.manifest.id}" if subject.manifest else "reachable, and there is no index yet"
        return ok(f"{index}: {facts}")
    return faults


def _exposed(name: str, section: Any, problems: Sequence[tuple[str, str]]) -> Iterator[Fault]:
    """Yield a fault if a secret is sent unencrypted to another host, unless the engine reports that itself."""
    scheme, _, rest = str(getattr(section, "url", "")).partition("://")
    host = rest.partition("/")[0].rpartition("@")[2]
    host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    secret = any(getattr(section, key, None) for key in _SECRETS)
    if scheme == "http" and secret and host not in _LOCAL and not any("https://" in fix for _, fix in problems):
        yield Fault(
            "warn", f"its secret is sent to {host} without encryption", f"set `engines.{name}.url` to https://…"
        )


def _contents(name: str, subject: Subject, chosen: Engine, live: str | None) -> Iterator[Fault]:
    from retrieve_cli.assemble import engines, registry
    from retrieve_cli.storage import engine_record

    manifest = subject.manifest
    if manifest is None:
        return
    staged = {one.generation: one for one in chosen.generations()}
    entry = engine_record.read(subject.store.generations / manifest.id).get(name)
    placed = engines.places(subject.settings, manifest.recipe.retrievers)
    mine = [retriever for retriever, place in placed.items() if place == name]
    parts = {each: manifest.rows(registry.retriever(each).file) for each in mine}
    if parts or entry is not None:
        push = subject.command("engines", "push")
        faults = list(_current(chosen, manifest, entry, parts))
        yield from (Fault(status, message, push) for status, message in faults)
        if not faults and live != manifest.id:
            message = f"its alias names {live or 'nothing'}, and {manifest.id} is current"
            yield Fault("warn", f"{message}: other programs read the wrong generation", push)
    yield from _leftovers(name, subject, manifest, staged)


def _current(
    chosen: Engine, manifest: Manifest, entry: Entry | None, parts: Mapping[str, int | None]
) -> Iterator[tuple[Status, str]]:
    """Yield the problems of the current generation in an engine."""
    from retrieve_cli.assemble.engines import lost

    if entry is None:
        yield "fail", f"generation {manifest.id} was not sent to it"
        return
    if missing := [part for part in parts if entry.part(part) is None]:
        yield "fail", f"the index of {', '.join(missing)} was not sent to it"
        return
    for part, count in parts.items():
        if (sent := entry.part(part)) is not None and sent.rows != count:
            yield "fail", f"it was sent {sent.rows} rows of {part}, and the index has {count}"
    if fault := lost(chosen, entry, manifest.id):
        yield "fail", fault
    elif dict(entry.card) != dict(chosen.card):
        changed = sorted(
            key for key in {*entry.card, *chosen.card} if entry.card.get(key) != dict(chosen.card).get(key)
        )
        yield "warn", f"it was sent with other parameters than are configured ({', '.join(changed)})"


def _leftovers(name: str, subject: Subject, manifest: Manifest, staged: Mapping[str, Staged]) -> Iterator[Fault]:
    """Yield faults for generations that no reader of this index asks for."""
    known = {manifest.id}
    with suppress(RetrieveError):  # the check of generations reports it
        known |= {kept.manifest.id for kept in subject.store.kept()}
    unfinished = [one.generation for one in staged.values() if not one.complete and one.generation != manifest.id]
    strangers = [one.generation for one in staged.values() if one.complete and one.generation not in known]
    if unfinished:
        count = some(len(unfinished), "incomplete generation")
        fix = subject.command("engines", "drop", unfinished[0])
        yield Fault("warn", f"{count} ({', '.join(unfinished)}), unless a build is sending it now", fix)
    if strangers:
        count = some(len(strangers), "generation")
        section = getattr(subject.settings, name, None)
        key = next((f"engines.{name}.{key}" for key in _NAMESPACES if hasattr(section, key)), f"plugins.{name}")
        drop = subject.command("engines", "drop", strangers[0])
        fix = f"give each index its own `{key}`, or remove it: {drop}"
        message = f"{count} that this index does not know ({', '.join(strangers)})"
        yield Fault("warn", f"{message}: leftovers, or data of another index with the same name", fix)
