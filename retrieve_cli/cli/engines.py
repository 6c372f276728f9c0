"""`retrieve engines`: indexes that live in PostgreSQL, Qdrant or OpenSearch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from retrieve_cli.cli.options import Shared, argument, group, option, shared
from retrieve_cli.cli.progress import progress_for
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import UsageError

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings

app = group("Manage indexes in engines.")

Name = Annotated[str | None, argument("[ENGINE]", "An engine; by default all configured ones.")]


@app.command()
@shared("text", "json")
def push(
    again: Annotated[bool, option("--again", "Send all rows into a new collection.")] = False, *, shared: Shared
) -> None:
    """Send the current generation to the configured engines, as far as they do not hold it: rows are counted there."""
    from retrieve_cli.ingest.pushing import Push
    from retrieve_cli.storage.generation import open_generation

    settings = _configured(shared)
    with (
        progress_for(shared.talk, sys.stderr),
        shared.store.writer(wait=settings.sync.wait, say=shared.talk.say),
        open_generation(shared.store) as generation,
    ):
        held = Push(settings, shared.store, shared.talk.say).send(generation, whole=again)
        rows = generation.chunk_size
    engines = {name: {"collection": collection, "rows": rows} for name, collection in held.items()}
    lines = (f"{name} holds {generation.id}: {count(rows, 'row')} in {held[name]}" for name in held)
    shared.show({"generation": generation.id, "engines": engines}, lines)


@app.command()
@shared("text", "json")
def status(*, shared: Shared) -> None:
    """Show what the configured engines hold, and which collection their aliases name."""
    from retrieve_cli.operations.status import engine_status

    settings = _configured(shared)
    found = engine_status(shared.store, settings)
    lines = []
    for name, one in found.items():
        facts = ", ".join(f"{key} {value}" for key, value in one["facts"].items())
        lines.append(f"{name}: {facts or 'no facts'}")
        lines += [f"  {one['fault']}: retrieve engines push"] if one["fault"] else []
        for held in one["collections"]:
            words = ", ".join(word for word in ("current", "published") if held[word]) or "not in use"
            rows = f"{count(held['rows'], 'row')} of {held['generation'] or 'an incomplete push'}"
            lines.append(f"  {held['collection']}  {rows} ({words})")
    shared.show({"engines": found}, lines)


@app.command()
@shared("text", "json")
def snapshot(engine: Name = None, *, shared: Shared) -> None:
    """Let the engines store copies of the current collection; restore them with the tools of the server."""
    from retrieve_cli.assemble.engines import engine as made
    from retrieve_cli.storage import engine_record

    settings = _configured(shared)
    names = [name for name in settings.engines.in_use if engine in (None, name)]
    if not names:
        raise UsageError(f"no index lives in {engine}", hint=f"configured: {', '.join(settings.engines.in_use)}")
    generation = shared.store.generations / shared.store.open().manifest.id
    stored = {}
    for name in names:
        held = engine_record.find(generation, name)
        if held is None:
            raise UsageError(f"generation {generation.name} was not sent to {name}", hint="retrieve engines push")
        stored[name] = made(name, settings).snapshot(held.name)
    shared.show({"snapshots": stored}, (f"{name}: {copy}" for name, copy in stored.items()))


def _configured(shared: Shared) -> Settings:
    """Return the settings. Raises: UsageError: every index is in local files."""
    settings = shared.settings()
    settings.expect_trusted("engines")
    if not settings.engines.in_use:
        hint = "name one, for example: RETRIEVE_ENGINES__DENSE=pgvector, or in config.yaml (docs/engines.md)"
        raise UsageError("no engine is configured: every index is in local files", hint=hint)
    return settings
