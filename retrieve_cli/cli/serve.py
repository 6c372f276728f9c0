"""`retrieve serve`."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from retrieve_cli.cli.mcp_options import AllowWrites, McpTexts, mcp_options
from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.cli.serve_syncs import Jitter, SyncEvery, syncs_of
from retrieve_cli.cli.server_access import (
    Access,
    AllowedHosts,
    AllowedOrigins,
    Insecure,
    TlsCertificate,
    TlsKey,
    access_of,
    warn_without_tenants,
)
from retrieve_cli.errors import Exit, Unavailable, UsageError, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from retrieve_cli.config.settings import Settings
    from retrieve_cli.serving.access_log import AccessLog
    from retrieve_cli.serving.mcp.host import McpOptions
    from retrieve_cli.serving.metrics import Metrics
    from retrieve_cli.serving.running import Running
    from retrieve_cli.serving.service import Service
    from retrieve_cli.serving.syncing import SyncOptions
    from retrieve_cli.web.listening import Listener

_LONGEST_GRACE_S = 3600.0


@shared("text", "json")
def serve(
    encoders: Annotated[
        bool, typer.Option("--encoders", help="Serve the configured encoder and reranker only, without an index.")
    ] = False,
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8100,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, max=256, help="Processes that answer, on one port.")
    ] = 1,
    threads: Annotated[
        int, typer.Option("--threads", metavar="N", min=0, max=256, help="Searches at once per process; 0: one a core.")
    ] = 0,
    queue: Annotated[
        int, typer.Option("--queue", metavar="N", min=0, max=100_000, help="Requests that may wait; others get 503.")
    ] = 128,
    api_key_env: Annotated[
        str | None,
        typer.Option("--api-key-env", metavar="NAME", help="Environment variable with the key that clients must send."),
    ] = None,
    grace: Annotated[
        str, typer.Option("--grace", metavar="SECONDS", help="Time to finish requests at shutdown: 10 or 10s.")
    ] = "10s",
    insecure: Insecure = False,
    allowed_host: AllowedHosts = None,
    allowed_origin: AllowedOrigins = None,
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    sync_every: SyncEvery = None,
    jitter: Jitter = "0s",
    access_log: Annotated[
        str | None,
        typer.Option("--access-log", metavar="FILE|-", help="Log requests as JSON lines to FILE; -: to stderr."),
    ] = None,
    log_queries: Annotated[
        bool, typer.Option("--log-queries", help="The access log has the texts of queries, too.")
    ] = False,
    mcp_texts: McpTexts = None,
    allow_writes: AllowWrites = False,
    background: Annotated[
        bool, typer.Option("--background", help="Start a process that answers `retrieve query` of this user at once.")
    ] = False,
    idle: Annotated[
        str, typer.Option("--idle", metavar="TIME", help="With --background: end after this time without a query.")
    ] = "10m",
    stop: Annotated[bool, typer.Option("--stop", help="End the process that --background has started.")] = False,
    attached: Annotated[bool, typer.Option("--attached", hidden=True)] = False,
    descriptor: Annotated[int | None, typer.Option("--fd", hidden=True)] = None,
    *,
    shared: Shared,
) -> None:
    """Answer searches over HTTP: POST /search takes the JSON of `retrieve query -` and answers as `query --json` does.

    GET /health and /readyz tell its state, GET /metrics has metrics for Prometheus, /openapi.json the whole API.
    A new generation is opened as soon as it is published. With --encoders: the models only
    (POST /embed, /v1/embeddings, /v1/rerank), which else answer beside the search.
    SIGTERM ends it with exit code 0, SIGINT with 130: running requests are answered within --grace, others with 503.
    """
    if background or stop or attached:
        from retrieve_cli.cli import warm

        warm.serve(shared, stop=stop, idle=idle, attached=attached)
        return
    from retrieve_cli.serving.running import Running
    from retrieve_cli.web.secrets import read_key

    seconds = _seconds(grace)
    _check_packages()
    settings = shared.settings()
    log = _access_log(access_log, texts=log_queries)
    key = read_key(api_key_env)
    access = access_of(
        shared,
        settings,
        key,
        host=host,
        workers=workers,
        insecure=insecure,
        certificate=(tls_cert, tls_key),
        allowed=(allowed_host, allowed_origin),
    )
    running = Running(seconds, verbose=shared.talk.verbose, tls=access.tls)
    from retrieve_cli.cli.warm import running as warm_process

    is_alone = not encoders and descriptor is None
    with _listening(host, port, descriptor) as listener, warm_process(shared) if is_alone else nullcontext():
        number = listener.getsockname()[1]
        url = f"{access.scheme}://{f'[{host}]' if ':' in host else host}:{number}"
        if workers > 1 and descriptor is None:
            _run_workers(shared, listener, workers, url)
            return
        if encoders:
            app, said = _models(shared, settings, access, log=log)
            url += "/v1"
        else:
            pool = threads or len(os.sched_getaffinity(0)), queue
            syncs = syncs_of(shared, settings, sync_every, jitter)
            mcp = mcp_options(mcp_texts, writes=allow_writes)
            app, said = _search(
                shared, settings, access, pool=pool, workers=workers, url=url, syncs=syncs, log=log, mcp=mcp
            )
        if descriptor is not None:
            from retrieve_cli.serving.workers import end_with_parent

            end_with_parent()
        announced = (lambda: None) if descriptor is not None else lambda: _announce(shared, url, said)
        _run(app, listener, announced, running)


def _access_log(place: str | None, *, texts: bool) -> AccessLog | None:
    """Return the log of requests, if one is named. Raises: RetrieveError if it cannot be written."""
    from retrieve_cli.serving.access_log import AccessLog

    if place is None and texts:
        raise UsageError(
            "--log-queries needs a log of requests", hint="--access-log FILE; or --access-log - for stderr"
        )
    return None if place is None else AccessLog(place, texts=texts)


def _metrics(shared: Shared) -> Metrics:
    """Return the metrics of this process, which adds up with the other workers."""
    from pathlib import Path

    from retrieve_cli.output.journal import QUERIES
    from retrieve_cli.serving.metrics import Metrics
    from retrieve_cli.serving.workers import SHARED

    folder = os.environ.get(SHARED)
    return Metrics(Path(folder) if folder else None, query_log=shared.store.runs / QUERIES)


def _search(
    shared: Shared,
    settings: Settings,
    access: Access,
    *,
    pool: tuple[int, int],
    workers: int,
    url: str,
    syncs: SyncOptions,
    log: AccessLog | None,
    mcp: McpOptions,
) -> tuple[Service, dict[str, str | None]]:
    """Return the server of the index, and what is announced of it."""
    from retrieve_cli.api.live import LiveIndex
    from retrieve_cli.errors import RetrieveError
    from retrieve_cli.serving.app import server_app
    from retrieve_cli.serving.pool import Pool
    from retrieve_cli.serving.state import State

    live = LiveIndex(shared.store, settings)
    if live.fault is not None:
        shared.talk.say(f"note: {live.fault.message}; searches are answered by an error until there is an index")
    hosts, metrics = access.hosts(), _metrics(shared)
    state = State(
        live,
        Pool(*pool),
        access.callers,
        hosts=hosts,
        public_url=url,
        workers=workers,
        syncs=syncs,
        metrics=metrics,
        access_log=log,
        mcp=mcp,
    )
    generation = None
    with suppress(RetrieveError):
        generation = live.index.generation
        warn_without_tenants(access.callers, live.index, shared.talk.say)
    return server_app(state), {"artifacts": str(shared.artifacts), "generation": generation}


def _models(
    shared: Shared, settings: Settings, access: Access, *, log: AccessLog | None
) -> tuple[Service, dict[str, str | None]]:
    """Return the server of the models, and what is announced of it."""
    from retrieve_cli.serving.model_parts import configured, warm
    from retrieve_cli.serving.models import models_app

    parts = configured(settings)
    app = models_app(parts, access.callers, hosts=access.hosts(), metrics=_metrics(shared), log=log)
    warm(parts)
    shared.talk.detail(f"device: {parts.encoder.device}")
    return app, {"model": parts.name, "reranker": None if parts.scorer is None else parts.scorer.name}


def _run_workers(shared: Shared, listener: Listener, count: int, url: str) -> None:
    """Answer by several processes. Raises: typer.Exit, KeyboardInterrupt at its end."""
    import signal

    from retrieve_cli.serving.workers import Workers
    from retrieve_cli.web.listening import listen

    listen(listener)
    listener.set_inheritable(True)
    _announce(shared, url, {"artifacts": str(shared.artifacts), "workers": str(count)})
    ended = Workers(sys.argv[1:], count, listener.fileno(), say=shared.talk.say).run()
    if ended == signal.SIGINT:
        raise KeyboardInterrupt
    raise typer.Exit(Exit.OK)


def _run(app: Service, listener: Listener, announced: Callable[[], None], running: Running) -> None:
    """Answer requests until the end. Raises: typer.Exit by SIGTERM, KeyboardInterrupt by SIGINT."""
    from retrieve_cli.serving.running import Ended, run

    try:
        run(app, listener, announced, running)
    except Ended:
        raise typer.Exit(Exit.OK) from None


@contextmanager
def _listening(host: str, port: int, descriptor: int | None) -> Iterator[Listener]:
    """Yield the socket of the server: bound here, or inherited by a worker."""
    from retrieve_cli.web.listening import bind, inherited

    with bind(host, port) if descriptor is None else nullcontext(inherited(descriptor)) as listener:
        yield listener


def _seconds(text: str) -> float:
    """Return seconds, given with or without their unit. Raises: UsageError if they are not a number, or too many."""
    with suppress(ValueError):
        seconds = float(text.strip().removesuffix("s"))
        if 0 <= seconds <= _LONGEST_GRACE_S:
            return seconds
    raise UsageError(f"--grace takes 0 to {_LONGEST_GRACE_S:g} seconds, not {quoted(text)}", hint="--grace 10s")


def _check_packages() -> None:
    """Raises: Unavailable if a package of the server is missing, before a model is loaded for it."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        message = f"the server needs fastapi and uvicorn; {error.name} is not installed"
        raise Unavailable(message, hint="pip install 'retrieve-cli[serve]'") from error


def _announce(shared: Shared, url: str, said: dict[str, str | None]) -> None:
    """Say that the server answers, and of what."""
    if shared.format == "json":
        print(jsonlib.dumps({"url": url, **said}), flush=True)
    names = " and ".join(filter(None, (said.get("model"), said.get("reranker")))) or str(said.get("artifacts"))
    shared.talk.say(f"ready: {names} at {url}")
