"""`retrieve serve`."""

from __future__ import annotations

import asyncio
import atexit
import json as jsonlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieve_cli.cli.options import Shared, Talk, shared
from retrieve_cli.errors import Exit, Unavailable, UsageError, quoted

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Encoder, PairScorer
    from retrieve_cli.serving.service import Service
    from retrieve_cli.web.listening import Listener

_LOOPBACK = ("127.", "::1")
_LONGEST_GRACE_S = 3600.0
_CLOSING_S = 0.5
"""Seconds that connections may take to close after their last answer."""
_KEEP_ALIVE_S = 75
"""Longer than clients pause between batches: each new connection costs a round trip."""


@shared("text", "json")
def serve(
    encoders: Annotated[bool, typer.Option("--encoders", help="Serve the configured encoder and reranker.")] = False,
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8100,
    api_key_env: Annotated[
        str | None,
        typer.Option("--api-key-env", metavar="NAME", help="Environment variable with the key that clients must send."),
    ] = None,
    grace: Annotated[
        str, typer.Option("--grace", metavar="SECONDS", help="Time to finish requests at shutdown: 10 or 10s.")
    ] = "10s",
    *,
    shared: Shared,
) -> None:
    """Serve the encoder, and the cross-encoder if one is configured, over an OpenAI-compatible API.

    POST /v1/embeddings takes texts unchanged; `input_type: query` or `passage` adds the model's own prefix.
    GET /metrics has metrics for Prometheus: of its requests, and of the query log in --artifacts.
    SIGTERM ends it with exit code 0, SIGINT with 130: running requests are answered within --grace, others with 503.
    """
    from retrieve_cli.web.listening import bind
    from retrieve_cli.web.secrets import read_key

    if not encoders:
        hint = "serve models: retrieve serve --encoders; search from a program: retrieve query - --stream --json"
        raise UsageError("`retrieve serve` needs --encoders", hint=hint)
    seconds = _seconds(grace)
    _check_packages()
    settings = shared.settings()
    key = read_key(api_key_env)
    with bind(host, port) as listener:
        encoder, scorer, prompted = _parts(settings)
        from retrieve_cli.output.journal import QUERIES
        from retrieve_cli.serving.app import encoder_app

        name = encoder.card.name
        query, passage, log = *prompted, shared.store.runs / QUERIES
        app = encoder_app(encoder, scorer, name, key, query_prefix=query, passage_prefix=passage, query_log=log)
        _warm(encoder, scorer)
        shared.talk.detail(f"device: {encoder.device}")
        address = listener.getsockname()
        if key is None and not address[0].startswith(_LOOPBACK):
            shared.talk.say("note: anyone who reaches this port may use it; require a key with --api-key-env NAME")
        url = f"http://{f'[{host}]' if ':' in host else host}:{address[1]}/v1"
        _serve(app, listener, lambda: _announce(shared, url, name, scorer), shared.talk, grace=seconds)


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


def _parts(settings: Settings) -> tuple[Encoder, PairScorer | None, tuple[str, str]]:
    """Return the configured encoder without its prefixes, the cross-encoder if there is one, and the two prefixes.

    Raises:
        Unavailable: a model is not on this machine.
        UsageError: a cross-encoder is configured without a model.
    """
    from retrieve_cli.assemble.encoders import encoder_to_build
    from retrieve_cli.assemble.rerankers import pair_scorer
    from retrieve_cli.config.loading import override

    card = encoder_to_build(settings).card
    bare = override(settings, {"encoder": {"query_prefix": "", "passage_prefix": ""}}, where="serve")
    scorer = pair_scorer(settings) if settings.rerank.backend == "cross_encoder" else None
    return encoder_to_build(bare), scorer, (card.query_prefix, card.passage_prefix)


def _warm(encoder: Encoder, scorer: PairScorer | None) -> None:
    """Load the models."""
    encoder.encode_passages(["ready"])
    if scorer is not None:
        scorer.score("ready", ["ready"])


def _announce(shared: Shared, url: str, name: str, scorer: PairScorer | None) -> None:
    reranker = None if scorer is None else scorer.name
    if shared.format == "json":
        print(jsonlib.dumps({"url": url, "model": name, "reranker": reranker}), flush=True)
    shared.talk.say(f"ready: {name}{f' and {reranker}' if reranker else ''} at {url}")


def _serve(app: Service, listener: Listener, ready: Callable[[], None], talk: Talk, *, grace: float) -> None:
    """Answer requests until SIGTERM, the usual end of a server, or SIGINT.

    Raises:
        RetrieveError: another process has taken the port.
        KeyboardInterrupt: by SIGINT, once running requests are answered.
    """
    import uvicorn

    from retrieve_cli.web.listening import listen

    class Server(uvicorn.Server):
        """Announces its start, and ends within the grace period."""

        async def startup(self, sockets: list[Listener] | None = None) -> None:
            await super().startup(sockets)
            ready()

        async def shutdown(self, sockets: list[Listener] | None = None) -> None:
            loop = asyncio.get_running_loop()
            loop.call_later(grace, app.give_up)
            # By then every request is answered: a client that is still connected does not read, or sent half a request.
            loop.call_later(grace + _CLOSING_S, self.hang_up)
            await super().shutdown(sockets)

        def hang_up(self) -> None:
            for connection in self.server_state.connections:
                connection.transport.abort()

    listen(listener)
    config = uvicorn.Config(
        app,
        log_config=_logging(),
        log_level="info" if talk.verbose else "warning",
        access_log=talk.verbose,
        lifespan="on",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=ceil(grace + 10 * _CLOSING_S),
    )
    with _ends_well(signal.SIGTERM), _unhindered_by(app):
        Server(config).run(sockets=[listener])


@contextmanager
def _ends_well(number: signal.Signals) -> Iterator[None]:
    """End the program with exit code 0 on a signal; uvicorn raises it again when it is done."""

    def end(*_: object) -> None:
        raise typer.Exit(Exit.OK)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, end)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def _unhindered_by(app: Service) -> Iterator[None]:
    """End the program although a computation is running: by itself it would run into libraries being unloaded."""
    try:
        yield
    except (typer.Exit, KeyboardInterrupt) as ended:
        if app.busy:
            code = ended.exit_code if isinstance(ended, typer.Exit) else Exit.INTERRUPTED
            atexit.register(_end, int(code))
        raise


def _end(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _logging() -> dict[str, Any]:
    """Send the log of uvicorn to stderr; by itself it would log requests on stdout."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr"}},
        "loggers": {"uvicorn": {"handlers": ["stderr"], "propagate": False}},
    }
