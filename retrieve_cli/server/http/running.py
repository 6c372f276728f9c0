"""Server processes: uvicorn on sockets that are bound already, until SIGTERM or SIGINT.

One process answers by itself; of several, uvicorn's supervisor starts each and replaces one that dies.
"""

from __future__ import annotations

import asyncio
import atexit
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

import h11
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors.multiprocess import Multiprocess

from retrieve_cli.errors import Exit, RetrieveError
from retrieve_cli.frozen import Frozen
from retrieve_cli.http.listening import listen
from retrieve_cli.server.http.service import NOSNIFF

if TYPE_CHECKING:
    from retrieve_cli.http.listening import Listener
    from retrieve_cli.server.http.service import Service

_KEEP_ALIVE_S = 75
"""Longer than clients pause between batches: each new connection costs a round trip."""
_HEADERS_BYTES = 32 << 10
"""Most bytes of the headers of a request."""
_SILENT_S = 60
"""Seconds without a sign of life after which a worker is replaced: it may be loading a model."""


class Running(Frozen):
    """Options of a server process."""

    grace: float
    """Seconds to finish requests at shutdown."""
    verbose: bool = False
    tls: Mapping[str, Any] = {}
    """Options of uvicorn for TLS."""


class Ended(Exception):
    """The end of the process by SIGTERM, the usual end of a server."""


# ----------------------------------------------------------------------------------------------- connections

_CONNECTIONS: WeakSet[H11Protocol] = WeakSet()


class Protocol(H11Protocol):
    """Answers malformed HTTP with the header of all other answers, too; the server's end closes it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        super().connection_made(transport)
        _CONNECTIONS.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        super().connection_lost(exc)
        _CONNECTIONS.discard(self)

    def send_400_response(self, msg: str) -> None:
        """Answer malformed HTTP."""
        length = str(len(msg)).encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", length), NOSNIFF]
        event = h11.Response(status_code=400, headers=[*headers, (b"connection", b"close")], reason=b"Bad Request")
        parts = [event, h11.Data(data=msg.encode("ascii")), h11.EndOfMessage()]
        self.transport.write(b"".join(self.conn.send(part) or b"" for part in parts))
        self.transport.close()


def _config(app: Callable[..., Any], options: Running, *, workers: int = 1) -> uvicorn.Config:
    """Return the configuration of a process; of one of several workers, `app` makes its application."""
    return uvicorn.Config(
        app,
        factory=workers > 1,
        workers=workers,
        log_config={  # all to stderr: the default of uvicorn for requests is stdout
            "version": 1,
            "disable_existing_loggers": False,
            "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr"}},
            "loggers": {"uvicorn": {"handlers": ["stderr"], "propagate": False}},
        },
        log_level="info" if options.verbose else "warning",
        access_log=options.verbose,
        lifespan="on",
        http=Protocol,
        ws="none",
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_HEADERS_BYTES,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=cast("int", options.grace),
        timeout_worker_healthcheck=_SILENT_S,
        **options.tls,
    )


# ----------------------------------------------------------------------------------------------- one process


def run(
    app: Service, listener: Listener, ready: Callable[[], None], options: Running, *, reread: Callable[[], None]
) -> None:
    """Answer requests until SIGTERM or SIGINT; `reread` reads the configuration again, on SIGHUP.

    Raises:
        RetrieveError: another process has taken the port.
        Ended: by SIGTERM, once running requests are answered.
        KeyboardInterrupt: by SIGINT, once running requests are answered.
    """
    listen(listener)

    class Server(uvicorn.Server):
        """Announces its start, and leaves no connection open."""

        async def startup(self, sockets: list[Listener] | None = None) -> None:
            await super().startup(sockets)
            ready()

        async def shutdown(self, sockets: list[Listener] | None = None) -> None:
            await super().shutdown(sockets)
            for connection in list(_CONNECTIONS):  # their clients do not read, or sent half a request
                connection.transport.abort()
            await asyncio.sleep(0)

    def end(*_: object) -> None:  # uvicorn raises the signal again when it is done
        raise Ended

    signal.signal(signal.SIGTERM, end)
    heed_hang_up(reread)
    with _unhindered_by(app):
        Server(_config(app, options)).run(sockets=[listener])


@contextmanager
def _unhindered_by(app: Service) -> Iterator[None]:
    """End the program although a computation is running, which would otherwise use libraries being unloaded."""
    try:
        yield
    except (Ended, KeyboardInterrupt) as ended:
        if app.busy:
            atexit.register(_end, int(Exit.OK if isinstance(ended, Ended) else Exit.INTERRUPTED))
        raise


def _end(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def heed_hang_up(reread: Callable[[], None]) -> None:
    """Call a function on SIGHUP. If the terminal is gone, SIGHUP ends the process; if it is ignored (nohup), it stays
    ignored."""
    terminals = [descriptor for descriptor in range(3) if os.isatty(descriptor)]

    def hang_up(*_: object) -> None:
        if all(os.isatty(descriptor) for descriptor in terminals):
            reread()
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, hang_up)


# ----------------------------------------------------------------------------------------------- several processes


class _Supervisor(Multiprocess):
    """uvicorn's supervisor, which announces the first worker that answers and passes SIGHUP on."""

    def __init__(self, config: uvicorn.Config, listener: Listener, ready: Callable[[], None]) -> None:
        heeded = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)}
        super().__init__(config, [listener])
        for number, handler in heeded.items():
            signal.signal(number, handler)
        heed_hang_up(self._pass_on)
        self.ended = 0
        self._ready: Callable[[], None] | None = ready

    def keep_subprocess_alive(self) -> None:
        """Replace workers that have died, and announce the server once."""
        super().keep_subprocess_alive()
        if self._ready is not None and any(process.is_ready() for process in self.processes):
            self._ready()
            self._ready = None

    def handle_int(self) -> None:
        """End at SIGINT."""
        self.ended = signal.SIGINT
        super().handle_int()

    def handle_term(self) -> None:
        """End at SIGTERM."""
        self.ended = signal.SIGTERM
        super().handle_term()

    def _pass_on(self) -> None:
        for process in self.processes:
            if process.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGHUP)


def run_workers(
    make: Callable[[], Service], count: int, listener: Listener, ready: Callable[[], None], options: Running
) -> None:
    """Answer by several processes until SIGTERM or SIGINT. Each calls `make`, which is sent to it.

    Raises:
        RetrieveError: workers cannot start.
        Ended: by SIGTERM, once running requests are answered.
        KeyboardInterrupt: by SIGINT, once running requests are answered.
    """
    from retrieve_cli.server.http.metrics import SHARED

    with TemporaryDirectory(prefix="retrieve-serve-", ignore_cleanup_errors=True) as folder:
        os.environ[SHARED] = folder
        supervisor = _Supervisor(_config(make, options, workers=count), listener, ready)
        supervisor.run()
    if supervisor.ended == signal.SIGINT:
        raise KeyboardInterrupt
    if supervisor.ended == signal.SIGTERM:
        raise Ended
    raise RetrieveError("the workers end as soon as they start", hint="see the messages above")


def begin_worker(reread: Callable[[], None]) -> None:
    """Let this worker end with its parent, even if that is killed; the signals of a terminal are left to the parent."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    heed_hang_up(reread)
    Thread(target=watch, name="parent", daemon=True).start()


def fail_to_start() -> None:
    """End a worker that cannot start; the supervisor then gives up."""
    sys.exit(STARTUP_FAILURE)
