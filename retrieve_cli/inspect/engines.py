"""State of the configured engines: versions, generations, and which of these belong to the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieve_cli.assemble.engines import engine, lost
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
        entries = engine_record.read(store.generations / current) if current else {}
        entry = entries.get(name)
        found[name] = {
            "facts": dict(chosen.describe()),
            "capabilities": chosen.capabilities._asdict(),
            "fault": lost(chosen, entry, str(current)) if entry else "",
            "generations": [
                {
                    **staged._asdict(),
                    "current": staged.generation == current,
                    "verified": staged.complete and _as_sent(chosen, store, staged.generation),
                }
                for staged in chosen.generations()
            ],
        }
    return found


def _as_sent(chosen: Engine, store: Store, generation: str) -> bool:
    """Return True if an engine holds a generation as it was noted when it was sent."""
    entry = engine_record.read(store.generations / generation).get(chosen.name)
    return entry is not None and not lost(chosen, entry, generation)
