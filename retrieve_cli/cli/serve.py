"""`retrieve serve`."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from retrieve_cli.cli.mcp import AllowWrites, McpTexts, mcp_options
from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.cli.server_access import AllowedHosts, AllowedOrigins, Insecure, TlsCertificate, TlsKey, access_of
from retrieve_cli.cli.server_parts import Jitter, SyncEvery, syncs_of
from retrieve_cli.errors import Exit, Unavailable, UsageError, quoted
from retrieve_cli.frozen import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from retrieve_cli.http.listening import Listener
    from retrieve_cli.server.http.running import Running
    from retrieve_cli.server.http.service import Service

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
    Without an index, one is built from the configured sources. A new generation is opened once it is published.
    With --encoders: the models only (POST /embed, /v1/embeddings, /v1/rerank), which else answer beside the search.
    SIGTERM ends it with exit code 0, SIGINT with 130: running requests are answered within --grace, others with 503.
    """
    from retrieve_cli.cli.warm import command as warm

    if background or stop or attached:
        warm.serve(shared, stop=stop, idle=idle, attached=attached)
        return
    _check_packages()
    from retrieve_cli.cli.server_parts import ServerParts, access_log_of
    from retrieve_cli.http.secrets import read_key
    from retrieve_cli.server.http.running import Running
    from retrieve_cli.server.http.workers import end_with_parent

    running = Running(_seconds(grace), verbose=shared.talk.verbose)
    settings = shared.settings()
    access = access_of(
        shared,
        settings,
        read_key(api_key_env),
        host=host,
        workers=workers,
        insecure=insecure,
        certificate=(tls_cert, tls_key),
        allowed=(allowed_host, allowed_origin),
    )
    parts = ServerParts(
        shared,
        settings,
        access,
        log=access_log_of(access_log, texts=log_queries),
        pool=(threads or len(os.sched_getaffinity(0)), queue),
        workers=workers,
        syncs=syncs_of(shared, settings, sync_every, jitter),
        mcp=mcp_options(mcp_texts, writes=allow_writes),
    )
    own = _listening(host, port, descriptor, shared=workers > 1)
    with own as listener, nullcontext() if encoders or descriptor is not None else warm.running(shared):
        url = f"{access.scheme}://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        if workers > 1 and descriptor is None:
            _run_workers(shared, listener, workers, url)
            return
        app, said = parts.models() if encoders else parts.search(url)
        if descriptor is None:
            ready = partial(_announce, shared, f"{url}/v1" if encoders else url, said)
        else:
            ready = partial(end_with_parent)  # which has announced the server
        _run(app, listener, ready, replace(running, tls=access.tls))


def _run_workers(shared: Shared, listener: Listener, count: int, url: str) -> None:
    """Answer by several processes. Raises: typer.Exit, KeyboardInterrupt at its end."""
    import signal

    from retrieve_cli.server.http.workers import Workers

    ready = partial(_announce, shared, url, {"artifacts": str(shared.artifacts), "workers": str(count)})
    ended = Workers(sys.argv[1:], count, listener, say=shared.talk.say, ready=ready).run()
    if ended == signal.SIGINT:
        raise KeyboardInterrupt
    raise typer.Exit(Exit.OK)


def _run(app: Service, listener: Listener, ready: Callable[[], None], running: Running) -> None:
    """Answer requests until the end. Raises: typer.Exit by SIGTERM, KeyboardInterrupt by SIGINT."""
    from retrieve_cli.server.http.running import Ended, run

    try:
        run(app, listener, ready, running)
    except Ended:
        raise typer.Exit(Exit.OK) from None


@contextmanager
def _listening(host: str, port: int, descriptor: int | None, *, shared: bool) -> Iterator[Listener]:
    """Yield the socket of the server, or of a worker, at the address that the server has reserved for all of them."""
    from retrieve_cli.http.listening import beside, bind, reserve

    own = reserve(host, port) if shared else bind(host, port)
    with own if descriptor is None else beside(descriptor) as listener:
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
    """Print that the server is ready, and the index or the models that it serves."""
    if shared.format == "json":
        print(jsonlib.dumps({"url": url, **said}), flush=True)
    names = " and ".join(filter(None, (said.get("model"), said.get("reranker")))) or str(said.get("artifacts"))
    shared.talk.say(f"ready: {names} at {url}")
