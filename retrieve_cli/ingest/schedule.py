"""The time of the last sync, and the seconds until the next one is due (`sync.every_hours`)."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from retrieve_cli.storage.store import Store
from retrieve_cli.untrusted.files import regular_descriptor

SYNCED = "synced"
"""An empty file of the artifacts folder; its time is the time of the last attempted sync."""
HOUR_S = 3600.0


def mark(store: Store) -> None:
    """Note that a sync is attempted now; a folder that is not writable stays unchanged."""
    with suppress(OSError):
        descriptor = regular_descriptor(store.path / SYNCED, os.O_WRONLY | os.O_CREAT)
        try:
            os.utime(descriptor)
        finally:
            os.close(descriptor)


def seconds_left(store: Store, every_s: float) -> float:
    """Return the seconds until the last attempted sync, and the last publication, are older than `every_s` seconds; 0
    if they are. A time in the future counts as old.
    """
    ages = []
    for path in (store.path / SYNCED, store.path / "current"):
        with suppress(OSError):
            ages.append(time.time() - path.stat().st_mtime)
    return max((every_s - age for age in ages if 0 <= age < every_s), default=0.0)
