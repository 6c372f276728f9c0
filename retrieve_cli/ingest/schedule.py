"""When the index was last synced, and whether it is time again (`sync.every_hours`)."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from retrieve_cli.storage.store import Store
from retrieve_cli.untrusted.files import regular_descriptor

SYNCED = "synced"
"""An empty file of the artifacts folder whose time is that of the last sync that was tried."""
_HOUR = 3600.0


def mark(store: Store) -> None:
    """Note that a sync is tried now; a folder that cannot be written to is left as it is."""
    with suppress(OSError):
        descriptor = regular_descriptor(store.path / SYNCED, os.O_WRONLY | os.O_CREAT)
        try:
            os.utime(descriptor)
        finally:
            os.close(descriptor)


def due(store: Store, hours: float | None) -> bool:
    """Return True if the last sync that was tried, and the last publication, are older than so many hours.

    A time that lies ahead of the clock counts as old.
    """
    if not hours:
        return False
    ages = []
    for path in (store.path / SYNCED, store.path / "current"):
        with suppress(OSError):
            ages.append(time.time() - path.stat().st_mtime)
    return not any(0 <= age < hours * _HOUR for age in ages)
