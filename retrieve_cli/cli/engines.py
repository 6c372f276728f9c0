"""`retrieve engines`: indexes that live in PostgreSQL, Qdrant or OpenSearch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from retrieve_cli.cli.options import Shared, argument, group, option, shared
from retrieve_cli.cli.progress import progress_for
from retrieve_cli.errors import UsageError

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.storage.engine_record import Entry

app = group("Manage indexes in engines.")

Name = Annotated[str | None, argument("[ENGINE]", "An engine; by default all configured ones.")]


@app.command()
@shared("text", "json")
def push(
    again: Annotated[bool, option("--again", "Remove it there first, and send all of it.")] = False, *, shared: Shared
) -> None:
    """Send the current generation to the configured engines, as far as they do not hold it: rows are counted there."""
    from retrieve_cli.ingest.pushing import Push
    from retrieve_cli.storage import engine_record
    from retrieve_cli.storage.generation import open_generation

    settings = _configured(shared)
    with (
        progress_for(shared.talk, sys.stderr),
        shared.store.writer(wait=settings.sync.wait, say=shared.talk.say),
        open_generation(shared.store) as generation,
    ):
        sending = Push(settings, shared.talk.say)
        sending.check()
        sending.again(generation, whole=again)
        sending.tidy(shared.store)
        sent = engine_record.read(generation.folder)
        held = {name: sent[name] for name in settings.engines.in_use if name in sent}
    value = {
        "generation": generation.id,
        "engines": {name: {"rows": _rows(entry), "card": dict(entry.card)} for name, entry in held.items()},
    }
    lines = []
    for name, entry in held.items():
        rows = ", ".join(f"{number:,} rows of {kind}" for kind, number in _rows(entry).items())
        lines.append(f"{name} holds {generation.id}: {rows}")
    shared.show(value, lines)


@app.command()
@shared("text", "json")
def status(*, shared: Shared) -> None:
    """Show what the configured engines hold, and which generation their aliases name."""
    from retrieve_cli.operations.status import engine_status

    settings = _configured(shared)
    found = engine_status(shared.store, settings)
    lines = []
    for name, one in found.items():
        facts = ", ".join(f"{key} {value}" for key, value in one["facts"].items())
        lines.append(f"{name}: {facts or 'no facts'}")
        lines += [f"  {one['fault']}: retrieve engines push"] if one["fault"] else []
        lines += [f"  {staged['generation']}  {_state(staged)}" for staged in one["generations"]]
    shared.show({"engines": found}, lines)


@app.command()
@shared("text", "json")
def drop(
    generation: Annotated[str, argument("GENERATION", "Its id, or the beginning of it.")],
    engine: Name = None,
    *,
    shared: Shared,
) -> None:
    """Remove a generation from the engines; the local index stays. The current one cannot be removed."""
    from retrieve_cli.assemble.engines import engine as made

    settings = _configured(shared)
    dropped = []
    with shared.store.writer(wait=settings.sync.wait, say=shared.talk.say):
        for name in _named(engine, settings):
            chosen = made(name, settings)
            ids = [staged.generation for staged in chosen.generations() if staged.generation.startswith(generation)]
            if len(ids) > 1:
                raise UsageError(f"{name} holds several generations {generation}…: {', '.join(ids)}", hint="write more")
            if ids and ids[0] == shared.store.live():
                hint = "make another one current first: retrieve sync --rollback"
                raise UsageError(f"{ids[0]} is the current generation", hint=hint)
            for one in ids:
                chosen.drop(one)
                dropped.append({"engine": name, "generation": one})
    if not dropped:
        raise UsageError(f"no engine holds a generation {generation}", hint="list them: retrieve engines status")
    lines = (f"{one['engine']}: removed generation {one['generation']}" for one in dropped)
    shared.show({"dropped": dropped}, lines)


def _configured(shared: Shared) -> Settings:
    """The settings. Raises: UsageError: every index is in local files."""
    from retrieve_cli.assemble.engines import expect_some

    settings = shared.settings()
    expect_some(settings)
    return settings


def _named(engine: str | None, settings: Settings) -> list[str]:
    if engine is None:
        return list(settings.engines.in_use)
    if engine not in settings.engines.in_use:
        raise UsageError(f"no index lives in {engine}", hint=f"configured: {', '.join(settings.engines.in_use)}")
    return [engine]


def _rows(entry: Entry) -> dict[str, int]:
    return {part.name: part.rows for part in entry.parts}


def _state(staged: Any) -> str:
    words = [name for name in ("current", "live", "complete") if staged[name]]
    return ", ".join(words) or "incomplete: the next push from its index removes it"
