"""State of the configured engines: versions, generations, and which of these belong to the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieve_cli.assemble.engines import engine, lost
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage import engine_record

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Json
    from retrieve_cli.contracts.engines import Engine
    from retrieve_cli.storage.store import Store


def status_of(store: Store, settings: Settings) -> dict[str, Json]:
    """Return by engine its facts and its generations.

    Raises:
        Unavailable: one cannot be reached.
    """
    current = store.live()
    found = {}
    for name in settings.engines.in_use:
        chosen = engine(name, settings)
        found[name] = {
            "facts": dict(chosen.describe()),
            "capabilities": chosen.capabilities._asdict(),
            "fault": _fault(chosen, store, current) if current else "",
            "generations": [
                {
                    **staged._asdict(),
                    "current": staged.generation == current,
                    "verified": staged.complete and not _fault(chosen, store, staged.generation),
                }
                for staged in chosen.generations()
            ],
        }
    return found


def _fault(chosen: Engine, store: Store, generation: str) -> str:
    """Return the parts of a generation, as recorded when it was sent, that an engine lacks; empty if it has all."""
    try:
        entry = engine_record.read(store.generations / generation).get(chosen.name)
    except IndexCorrupt as error:
        return error.message
    return lost(chosen, entry, generation) if entry else f"generation {generation} was not sent to it"
