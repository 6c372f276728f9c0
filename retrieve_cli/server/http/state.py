"""State that all doors of a server share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from retrieve_cli.api.additions import Additions, publish_live
from retrieve_cli.api.documents import Documents
from retrieve_cli.api.live import LiveIndex
from retrieve_cli.config.settings import Settings
from retrieve_cli.search.web import DEADLINE_MS
from retrieve_cli.server.http.callers import Callers, Hosts
from retrieve_cli.server.http.metrics import Metrics
from retrieve_cli.server.http.model_parts import configured
from retrieve_cli.server.http.models import Models
from retrieve_cli.server.http.observing import AccessLog
from retrieve_cli.server.http.pool import Pool, WebSearching, web_search_of
from retrieve_cli.server.http.requests import Limits
from retrieve_cli.server.http.syncing import Syncing, SyncOptions
from retrieve_cli.server.mcp.host import McpOptions
from retrieve_cli.storage.store import Store


@dataclass(slots=True)
class State:
    """The parts that the doors of one server process share."""

    live: LiveIndex
    pool: Pool
    callers: Callers
    limits: Limits = field(default_factory=Limits)
    hosts: Hosts | None = None
    """Names and origins that the server accepts; None: any, where no browser can reach it."""
    public_url: str = ""
    """The address that clients use, without a slash at its end."""
    workers: int = 1
    """Number of processes that answer."""
    metrics: Metrics = field(default_factory=Metrics)
    access_log: AccessLog | None = None
    """The log of requests, if one is written."""
    syncs: SyncOptions = field(default_factory=SyncOptions)
    mcp: McpOptions = field(default_factory=McpOptions)
    documents: Documents = field(init=False)
    """The documents that are added one at a time."""
    syncing: Syncing = field(init=False)
    """The syncs in the background."""
    models: Models = field(init=False)
    """The configured models, for the endpoints that give out vectors and scores."""
    web: WebSearching = field(init=False)
    """The search of web and literature, if the configuration enables it."""

    def __post_init__(self) -> None:
        self.documents = Documents(self.store, self.settings)
        publish = partial(publish_live, self.live, Additions(self.store))
        refresh, count = self.live.refresh, self.metrics.sync
        self.syncing = Syncing(self.store, self.documents, self.syncs, publish=publish, on_sync=refresh, count=count)
        self.live.absent = self.syncing.absent
        self.models = Models(partial(configured, self.settings), self.limits)
        found = web_search_of(self.settings, self.store.path)
        self.web = WebSearching(found, deadline_ms=DEADLINE_MS)

    def start(self) -> None:
        """Begin to follow the index, and to sync it."""
        self.live.follow()
        self.syncing.start()

    @property
    def store(self) -> Store:
        """The artifacts folder."""
        return self.live.store

    @property
    def settings(self) -> Settings:
        """The configuration."""
        return self.live.settings

    @property
    def busy(self) -> bool:
        """True if something is being computed, even if no client waits for it."""
        return self.pool.busy or self.models.busy or self.web.busy

    def close(self) -> None:
        """Stop to follow the index and to sync it, and drop the work that has not begun."""
        self.syncing.close()
        self.live.close()
        self.pool.close()
        self.web.close()
        self.models.close()
        if self.access_log is not None:
            self.access_log.close()
