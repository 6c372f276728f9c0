"""Flags of `retrieve serve` on scheduled syncs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieve_cli.cli.options import Shared
from retrieve_cli.config.durations import seconds

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.serving.syncing import SyncOptions

SyncEvery = Annotated[
    str | None, typer.Option("--sync-every", metavar="TIME", help="Sync the sources this often: 15m, 6h; 0: never.")
]
Jitter = Annotated[
    str, typer.Option("--jitter", metavar="TIME", help="Begin a scheduled sync up to this much later, at random.")
]


def syncs_of(shared: Shared, settings: Settings, every: str | None, jitter: str) -> SyncOptions:
    """Return how a server syncs: by the flags, else by `sync.every_hours`. Raises: UsageError: a time is not one."""
    from retrieve_cli.serving.syncing import SyncOptions

    hours = settings.sync.every_hours
    every_s = seconds(every, "--sync-every") if every is not None else hours and 3600 * hours
    flags = [] if shared.config is None else ["--config", str(shared.config)]
    sources = settings.sources.list or settings.withholds("sources")  # a sync says that these need a yes
    first = bool(sources) and settings.sources.auto_sync is not False
    return SyncOptions(flags, every_s, seconds(jitter, "--jitter"), first)
