"""`retrieve serve`."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from retrieve_cli.api.live import LiveIndex
from retrieve_cli.cli import server_access
from retrieve_cli.cli.mcp import AllowWrites, McpTexts, TextChannel, mcp_options
from retrieve_cli.cli.options import Shared, option, shared
from retrieve_cli.config.bounds import seconds
from retrieve_cli.config.loading import changed_keys, load
from retrieve_cli.config.settings import Settings, sections
from retrieve_cli.errors import Exit, RetrieveError, Unavailable, UsageError, printable, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.server.http.observing import AccessLog
from retrieve_cli.server.http.pool import Pool
from retrieve_cli.server.http.service import ROOT, Service
from retrieve_cli.server.http.syncing import SyncOptions
from retrieve_cli.server.mcp.host import McpOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrieve_cli.server.http.metrics import Metrics

SyncEvery = Annotated[str | None, option("--sync-every", "Sync the sources this often: 15m, 6h; 0: never.", "TIME")]
Jitter = Annotated[str, option("--jitter", "Begin a scheduled sync up to this much later, at random.", "TIME")]
_LONGEST_GRACE_S = 3600.0
Announcement = dict[str, str | None]
"""Facts about a server that are announced."""


@shared("text", "json")
def serve(
    encoders: Annotated[
        bool, option("--encoders", "Serve the configured encoder and reranker only, without an index.")
    ] = False,
    host: Annotated[str, option("--host", "Address to listen on.", "HOST")] = "127.0.0.1",
    port: Annotated[int, option("--port", "Port to listen on; 0 picks a free one.", "PORT", min=0, max=65535)] = 8100,
    workers: Annotated[int, option("--workers", "Processes that answer, on one port.", "N", min=1, max=256)] = 1,
    threads: Annotated[
        int, option("--threads", "Searches at once per process; 0: one a core.", "N", min=0, max=256)
    ] = 0,
    queue: Annotated[int, option("--queue", "Requests that may wait; others get 503.", "N", min=0, max=100_000)] = 128,
    api_key_env: Annotated[
        str | None, option("--api-key-env", "Environment variable with the key that clients must send.", "NAME")
    ] = None,
    grace: Annotated[str, option("--grace", "Time to finish requests at shutdown: 10 or 10s.", "SECONDS")] = "10s",
    insecure: server_access.Insecure = False,
    allowed_host: server_access.AllowedHosts = None,
    allowed_origin: server_access.AllowedOrigins = None,
    root_path: server_access.RootPath = "",
    tls_cert: server_access.TlsCertificate = None,
    tls_key: server_access.TlsKey = None,
    sync_every: SyncEvery = None,
    jitter: Jitter = "0s",
    access_log: Annotated[
        str | None, option("--access-log", "Log requests as JSON lines to FILE; -: to stderr.", "FILE|-")
    ] = None,
    log_queries: Annotated[bool, option("--log-queries", "The access log has the texts of queries, too.")] = False,
    mcp_texts: McpTexts = None,
    allow_writes: AllowWrites = False,
    *,
    shared: Shared,
) -> None:
    """Answer searches over HTTP: POST /search takes the JSON of `retrieve query -` and answers as `query --json` does.

    GET /health and /readyz tell its state, GET /metrics has metrics for Prometheus, GET /docs shows the whole API.
    Without an index, one is built from the configured sources. A new generation is opened once it is published.
    With --encoders: the models only (POST /embed, /v1/embeddings, /v1/rerank), which else answer beside the search.
    SIGTERM ends it with exit code 0, SIGINT with 130: running requests are answered within --grace, others with 503.
    SIGHUP reads the configuration again and prints which changed keys need a restart.
    """
    _check_packages()
    pool = threads or len(os.sched_getaffinity(0)), queue
    flags = ServerFlags(
        shared,
        encoders,
        host,
        api_key_env,
        insecure,
        (allowed_host, allowed_origin),
        (tls_cert, tls_key),
        (access_log, log_queries),
        pool,
        workers,
        (sync_every, jitter),
        (mcp_texts, allow_writes),
        _root(root_path),
    )
    _run(flags, port, _seconds(grace))


def _run(flags: ServerFlags, port: int, grace: float) -> None:
    """Answer requests. Raises: typer.Exit, KeyboardInterrupt: at its end."""
    from retrieve_cli.http.listening import bind, reserve
    from retrieve_cli.server.http.running import Ended, Running, run, run_workers

    shared, host, several = flags.shared, flags.host, flags.workers > 1
    parts = flags.parts()
    access = parts.access
    options = Running(grace, verbose=shared.talk.verbose, tls=access.tls)
    try:
        with (reserve if several else bind)(host, port) as listener:
            url = f"{access.scheme}://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
            public = f"{url}{flags.root}{'/v1' if flags.encoders else ''}"
            if several:
                said: Announcement = {"artifacts": str(shared.artifacts), "workers": str(flags.workers)}
                ready = partial(_announce, shared, public, said)
                run_workers(partial(_worker, flags, url), flags.workers, listener, ready, options)
            else:
                app, said, reread = parts.server(url)
                app.root = flags.root
                run(app, listener, partial(_announce, shared, public, said), options, reread=reread)
    except Ended:  # by SIGTERM
        raise typer.Exit(Exit.OK) from None


def _worker(flags: ServerFlags, url: str) -> Service:
    """Return the application of this process, one of several."""
    from retrieve_cli.cli.failures import failure_of
    from retrieve_cli.server.http.running import begin_worker, fail_to_start

    try:
        app, _, reread = flags.parts().server(url)
        app.root = flags.root
    except RetrieveError as error:
        flags.shared.talk.error(*failure_of(error))
        fail_to_start()
    begin_worker(reread)
    return app


def _seconds(text: str) -> float:
    """Return seconds, given with or without their unit. Raises: UsageError if they are not a number, or too many."""
    with suppress(ValueError):
        seconds = float(text.strip().removesuffix("s"))
        if 0 <= seconds <= _LONGEST_GRACE_S:
            return seconds
    raise UsageError(f"--grace takes 0 to {_LONGEST_GRACE_S:g} seconds, not {quoted(text)}", hint="--grace 10s")


def _root(path: str) -> str:
    """Return a path without a slash at its end. Raises: UsageError: it is not a path."""
    root = path.rstrip("/")
    if root and not ROOT.fullmatch(root):
        raise UsageError(f"--root-path takes a path, not {quoted(path)}", hint="--root-path /search")
    return root


def _check_packages() -> None:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        message = f"the server needs fastapi, prometheus-client and uvicorn; {error.name} is not installed"
        raise Unavailable(message, hint="pip install 'retrieve-cli[serve]'") from error


def _announce(shared: Shared, url: str, said: Announcement) -> None:
    if shared.format == "json":
        print(jsonlib.dumps({"url": url, **said}), flush=True)
    names = " and ".join(filter(None, (said.get("model"), said.get("reranker")))) or str(said.get("artifacts"))
    shared.talk.say(f"ready: {names} at {url}")


class ServerFlags(NamedTuple):
    """Flags of one call of `retrieve serve`: plain values, which can be sent to another process."""

    shared: Shared
    encoders: bool
    host: str
    api_key_env: str | None
    insecure: bool
    allowed: tuple[list[str] | None, list[str] | None]
    """Hosts and origins."""
    certificate: tuple[Path | None, Path | None]
    """The certificate and its key."""
    log: tuple[str | None, bool]
    """The place of the access log, and True if it has the texts of queries."""
    pool: tuple[int, int]
    """Searches at once, and requests that may wait."""
    workers: int
    syncs: tuple[str | None, str]
    """The time between two syncs, and its jitter."""
    mcp: tuple[TextChannel | None, bool]
    """The channel of texts, and True if documents may be added."""
    root: str
    """The path below which a proxy has the server."""

    def parts(self) -> ServerParts:
        """Return the parts of a server, checked. Raises: RetrieveError: a flag or the configuration is wrong."""
        from retrieve_cli.http.secrets import read_key

        settings = self.shared.settings()
        access = server_access.access_of(
            self.shared,
            settings,
            read_key(self.api_key_env),
            host=self.host,
            insecure=self.insecure,
            certificate=self.certificate,
            allowed=self.allowed,
        )
        place, texts = self.log
        channel, writes = self.mcp
        return ServerParts(
            self.shared,
            settings,
            access,
            access_log_of(place, texts=texts),
            self.pool,
            self.workers,
            syncs_of(self.shared, settings, *self.syncs),
            mcp_options(channel, writes=writes),
            self.encoders,
        )


class ServerParts(NamedTuple):
    """Choices of one call of `retrieve serve`, from which a server is made."""

    shared: Shared
    settings: Settings
    access: server_access.ServerAccess
    log: AccessLog | None
    pool: tuple[int, int]
    """Searches at once, and requests that may wait."""
    workers: int
    syncs: SyncOptions
    mcp: McpOptions
    encoders: bool

    def server(self, url: str) -> tuple[Service, Announcement, Callable[[], None]]:
        """Return the server of the index or of the models, as `search` does."""
        return self.models() if self.encoders else self.search(url)

    def search(self, url: str) -> tuple[Service, Announcement, Callable[[], None]]:
        """Return the server of the index, its announcement, and a function that reads the configuration again."""
        from retrieve_cli.server.http.app import server_app
        from retrieve_cli.server.http.state import State

        live, say = LiveIndex(self.shared.store, self.settings), self.shared.talk.say
        if live.fault is not None:
            say(f"note: {live.fault.message}; GET /health reports if one is being built, and searches answer with that")
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
            server_access.warn_without_tenants(self.access.callers, live.index, say)
        said = {"artifacts": str(self.shared.artifacts), "generation": generation}
        return server_app(state), said, partial(self._reread, live)

    def _reread(self, live: LiveIndex | None) -> None:
        """Read the configuration again, and answer under it; the log names what needs a restart."""
        from threading import Thread

        Thread(target=reconfigure, args=(live, self.settings, self.shared), name="reread").start()

    def models(self) -> tuple[Service, Announcement, Callable[[], None]]:
        """Return the server of the models, and as `search` does."""
        from retrieve_cli.server.http.model_parts import configured, load_models
        from retrieve_cli.server.http.models import models_app

        parts, access = configured(self.settings), self.access
        app = models_app(parts, access.callers, hosts=access.hosts(), metrics=self._metrics(), log=self.log)
        load_models(parts)
        self.shared.talk.detail(f"device: {parts.encoder.device}")
        said = {"model": parts.name, "reranker": None if parts.scorer is None else parts.scorer.name}
        return app, said, partial(self._reread, None)

    def _metrics(self) -> Metrics:
        """Return the metrics of this process, which adds up with the other workers."""
        from retrieve_cli.server.http.metrics import Metrics

        return Metrics()


def reconfigure(live: LiveIndex | None, begun: Settings, shared: Shared) -> None:
    """Read the configuration again and let the index answer under it; print what took effect, and what needs a restart.

    `begun` has the settings of the start; with a configuration that cannot be used, the previous one is kept.
    """

    def say(sentence: str) -> None:
        sys.stderr.write(f"SIGHUP: {printable(sentence)}\n")  # one write: workers share the stream
        sys.stderr.flush()

    present = begun if live is None else live.settings
    now = frozenset[str]() if live is None else sections("answers") - {"models"}  # these concern served models, too
    try:
        read = load(shared.config, say=say)
        withheld = [key for key in present.withheld if key.partition(".")[0] not in now]
        withheld += [key for key in read.withheld if key.partition(".")[0] in now]
        settings = replace(present, withheld=withheld, **{name: getattr(read, name) for name in now})
        if live is not None and settings != present:
            live.reconfigure(settings)
    except RetrieveError as error:
        say(f"keeping the previous configuration: {error.message} ({error.hint})")
        return
    groups = {"in force": changed_keys(present, settings), "needs a restart": changed_keys(settings, read)}
    said = [f"{what}: {', '.join(keys)}" for what, keys in groups.items() if keys]
    say(f"configuration read; {'; '.join(said) or 'nothing has changed'}")


def access_log_of(place: str | None, *, texts: bool) -> AccessLog | None:
    """Return the log of requests, if one is named. Raises: RetrieveError if it cannot be written."""
    if place is None and texts:
        raise UsageError(
            "--log-queries needs a log of requests", hint="--access-log FILE; or --access-log - for stderr"
        )
    return None if place is None else AccessLog(place, texts=texts)


def syncs_of(shared: Shared, settings: Settings, every: str | None, jitter: str) -> SyncOptions:
    """Return the sync options of a server: by the flags, else by `sync.every_hours`. Raises: UsageError."""
    hours = settings.sync.every_hours
    every_s = seconds(every, "--sync-every") if every is not None else hours and 3600 * hours
    sources = settings.sources.list or settings.withholds("sources")  # a sync says that these need a yes
    first = bool(sources) and settings.sources.auto_sync is not False
    flags = [] if shared.config is None else ["--config", str(shared.config)]
    return SyncOptions(flags, every_s, seconds(jitter, "--jitter"), first)
