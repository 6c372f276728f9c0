"""Parts of a server, as the flags of `retrieve serve` choose them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from retrieve_cli.api.live import LiveIndex
from retrieve_cli.cli.options import Shared
from retrieve_cli.cli.server_access import Access, warn_without_tenants
from retrieve_cli.config.bounds import seconds
from retrieve_cli.config.settings import Settings
from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.output.journal import QUERIES
from retrieve_cli.server.http.access_log import AccessLog
from retrieve_cli.server.http.metrics import Metrics
from retrieve_cli.server.http.pool import Pool
from retrieve_cli.server.http.service import Service
from retrieve_cli.server.http.syncing import SyncOptions
from retrieve_cli.server.http.workers import SHARED
from retrieve_cli.server.mcp.host import McpOptions

Said = dict[str, str | None]
"""Facts of a server that are announced."""


class ServerParts(NamedTuple):
    """Choices of one call of `retrieve serve`, from which a server is made."""

    shared: Shared
    settings: Settings
    access: Access
    log: AccessLog | None
    pool: tuple[int, int]
    """Searches at once, and requests that may wait."""
    workers: int
    syncs: SyncOptions
    mcp: McpOptions

    def search(self, url: str) -> tuple[Service, Said]:
        """Return the server of the index, and what is announced of it."""
        from retrieve_cli.server.http.app import server_app
        from retrieve_cli.server.http.state import State

        live, say = LiveIndex(self.shared.store, self.settings), self.shared.talk.say
        if live.fault is not None:
            say(f"note: {live.fault.message}; GET /health says if one is being built, and searches answer with that")
        state = State(
            live,
            Pool(*self.pool),
            self.access.callers,
            hosts=self.access.hosts(),
            public_url=url,
            workers=self.workers,
            syncs=self.syncs,
            metrics=self._metrics(),
            access_log=self.log,
            mcp=self.mcp,
        )
        generation = None
        with suppress(RetrieveError):
            generation = live.index.generation
            warn_without_tenants(self.access.callers, live.index, say)
        return server_app(state), {"artifacts": str(self.shared.artifacts), "generation": generation}

    def models(self) -> tuple[Service, Said]:
        """Return the server of the models, and what is announced of it."""
        from retrieve_cli.server.http.model_parts import configured, warm
        from retrieve_cli.server.http.models import models_app

        parts, access = configured(self.settings), self.access
        app = models_app(parts, access.callers, hosts=access.hosts(), metrics=self._metrics(), log=self.log)
        warm(parts)
        self.shared.talk.detail(f"device: {parts.encoder.device}")
        return app, {"model": parts.name, "reranker": None if parts.scorer is None else parts.scorer.name}

    def _metrics(self) -> Metrics:
        """Return the metrics of this process, which adds up with the other workers."""
        folder = os.environ.get(SHARED)
        return Metrics(Path(folder) if folder else None, query_log=self.shared.store.runs / QUERIES)


def access_log_of(place: str | None, *, texts: bool) -> AccessLog | None:
    """Return the log of requests, if one is named. Raises: RetrieveError if it cannot be written."""
    if place is None and texts:
        hint = "--access-log FILE; or --access-log - for stderr"
        raise UsageError("--log-queries needs a log of requests", hint=hint)
    return None if place is None else AccessLog(place, texts=texts)


SyncEvery = Annotated[
    str | None, typer.Option("--sync-every", metavar="TIME", help="Sync the sources this often: 15m, 6h; 0: never.")
]
Jitter = Annotated[
    str, typer.Option("--jitter", metavar="TIME", help="Begin a scheduled sync up to this much later, at random.")
]


def syncs_of(shared: Shared, settings: Settings, every: str | None, jitter: str) -> SyncOptions:
    """Return how a server syncs: by the flags, else by `sync.every_hours`. Raises: UsageError: a time is not one."""
    from retrieve_cli.server.http.syncing import SyncOptions

    hours = settings.sync.every_hours
    every_s = seconds(every, "--sync-every") if every is not None else hours and 3600 * hours
    flags = [] if shared.config is None else ["--config", str(shared.config)]
    sources = settings.sources.list or settings.withholds("sources")  # a sync says that these need a yes
    first = bool(sources) and settings.sources.auto_sync is not False
    return SyncOptions(flags, every_s, seconds(jitter, "--jitter"), first)
