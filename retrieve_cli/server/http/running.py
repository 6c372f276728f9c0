"""A server process: uvicorn on sockets that are bound already, until SIGTERM or SIGINT.

Several processes that answer on one socket. One that dies is replaced, while the others go on answering.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import ceil
from tempfile import TemporaryDirectory
from threading import Thread, current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any

from retrieve_cli.errors import Exit, RetrieveError
from retrieve_cli.frozen import Frozen
from retrieve_cli.http.listening import Listener, is_answered
from retrieve_cli.server.http.admission import SlowClients
from retrieve_cli.server.http.service import NOSNIFF

if TYPE_CHECKING:
    import uvicorn

    from retrieve_cli.server.http.service import Service


_CLOSING_S = 0.5
"""Seconds that connections may take to close after their last answer."""
_KEEP_ALIVE_S = 75
"""Longer than clients pause between batches: each new connection costs a round trip."""
_TICKS = 10
"""Ticks of uvicorn, ten a second, between two looks for slow clients."""
_HEADERS_BYTES = 32 << 10
"""Most bytes of the headers of a request."""


class Running(Frozen):
    """Options of a server process."""

    grace: float
    """Seconds to finish requests at shutdown."""
    verbose: bool = False
    tls: Mapping[str, Any] = {}
    """Options of uvicorn for TLS."""
    reread: Callable[[], None] = lambda: None
    """Reads the configuration again; called on SIGHUP."""


class Ended(Exception):
    """The end of the process by SIGTERM, the usual end of a server."""


def run(app: Service, listener: Listener, ready: Callable[[], None], options: Running) -> None:
    """Answer requests until SIGTERM or SIGINT.

    Raises:
        RetrieveError: another process has taken the port.
        Ended: by SIGTERM, once running requests are answered.
        KeyboardInterrupt: by SIGINT, once running requests are answered.
    """
    import uvicorn

    from retrieve_cli.http.listening import listen

    listen(listener)
    config = uvicorn.Config(
        app,
        log_config=_logging(),
        log_level="info" if options.verbose else "warning",
        access_log=options.verbose,
        lifespan="on",
        http=_protocol(),
        ws="none",
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_HEADERS_BYTES,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=ceil(options.grace + 10 * _CLOSING_S),
        **options.tls,
    )
    with _ends_well(signal.SIGTERM), _unhindered_by(app), rereading(options.reread):
        _server(app, config, ready, options.grace).run(sockets=[listener])


def _protocol() -> type[asyncio.Protocol]:
    """Return the protocol of a connection."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Protocol(H11Protocol):
        """Answers malformed HTTP with the header of all other answers, too."""

        def send_400_response(self, msg: str) -> None:
            length = str(len(msg)).encode()
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", length), NOSNIFF]
            event = h11.Response(status_code=400, headers=[*headers, (b"connection", b"close")], reason=b"Bad Request")
            parts = [event, h11.Data(data=msg.encode("ascii")), h11.EndOfMessage()]
            self.transport.write(b"".join(self.conn.send(part) or b"" for part in parts))
            self.transport.close()

    return Protocol


def _server(app: Service, config: uvicorn.Config, ready: Callable[[], None], grace: float) -> uvicorn.Server:
    """Return a server that calls `ready` once it listens, and ends within the grace period."""
    import uvicorn

    slow = SlowClients()

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

        async def on_tick(self, counter: int) -> bool:
            if counter % _TICKS == 0:
                slow.close(self.server_state.connections, time.monotonic())
            return await super().on_tick(counter)

        def hang_up(self) -> None:
            for connection in self.server_state.connections:
                connection.transport.abort()

    return Server(config)


@contextmanager
def _ends_well(number: signal.Signals) -> Iterator[None]:
    """Raise `Ended` on a signal; uvicorn raises the signal again when it is done."""

    def end(*_: object) -> None:
        raise Ended

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


def _logging() -> dict[str, Any]:
    """Send the log of uvicorn to stderr; its default for requests is stdout."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr"}},
        "loggers": {"uvicorn": {"handlers": ["stderr"], "propagate": False}},
    }


_LOOK_S = 0.1
"""Seconds between two looks at the workers."""
_SOON_S = 5.0
"""A worker that dies this soon after its start could not start."""
_MOST_FAILED = 3
"""Starts in a row that may fail before the server gives up."""
NUMBER = "RETRIEVE_WORKER"
"""Environment variable with the number of a worker, from 1."""
PARENT = "RETRIEVE_WORKER_PARENT"
"""Environment variable with the process id of the process that started a worker."""
SHARED = "RETRIEVE_WORKERS_FOLDER"
"""Environment variable with a folder that only the workers of a server share."""


class Workers:
    """Worker processes, each of them the same command line, with a separate socket at the same address."""

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        reserved: Listener,
        *,
        say: Callable[[str], None],
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """`reserved` is a socket at the address, which each worker inherits. One callback prints a sentence for the
        operator, `ready` is called once the first worker listens."""
        self._command = [*command, "--fd", str(reserved.fileno())]
        self._count = count
        self._reserved = reserved
        self._say = say
        self._ready: Callable[[], None] | None = ready
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._begun: dict[int, float] = {}
        self._failed = 0
        self._signal = 0
        self._shared = TemporaryDirectory(prefix="retrieve-serve-", ignore_cleanup_errors=True)

    def run(self) -> int:
        """Keep the workers running until SIGTERM or SIGINT, and return the signal.

        Raises:
            RetrieveError: workers cannot start.
        """
        before = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            with rereading(self._reread):
                while not self._signal:
                    for number in range(1, self._count + 1):
                        self._keep(number)
                    if self._ready is not None and is_answered(self._reserved):
                        self._ready()
                        self._ready = None
                    time.sleep(_LOOK_S)
            return self._signal
        finally:
            self._stop()
            self._shared.cleanup()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _reread(self) -> None:
        """Have every worker read the configuration again."""
        for process in self._processes.values():
            process.send_signal(signal.SIGHUP)

    def _keep(self, number: int) -> None:
        """Start a worker that does not run."""
        process = self._processes.get(number)
        if process is not None and (code := process.poll()) is None:
            if time.monotonic() - self._begun[number] > _SOON_S:
                self._failed = 0
            return
        if process is not None:
            soon = time.monotonic() - self._begun[number] < _SOON_S
            self._failed = self._failed + 1 if soon else 0
            self._say(f"worker {number} ended with code {code}; starting another one")
            if self._failed > _MOST_FAILED:
                raise RetrieveError("the workers end as soon as they start", hint="see the messages above")
        own = {NUMBER: str(number), PARENT: str(os.getpid()), SHARED: self._shared.name}
        environment = {**os.environ, **own}
        self._processes[number] = subprocess.Popen(  # noqa: S603  this program
            [sys.executable, "-m", "retrieve_cli", *self._command],
            env=environment,
            pass_fds=[self._reserved.fileno()],
            stdin=subprocess.DEVNULL,
        )
        self._begun[number] = time.monotonic()

    def _end(self, number: int, _: FrameType | None) -> None:
        self._signal = number

    def _stop(self) -> None:
        """End all workers, which finish their requests within the grace period."""
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.terminate()
        for process in self._processes.values():
            process.wait()


@contextmanager
def rereading(reread: Callable[[], None]) -> Iterator[None]:
    """Call a function on SIGHUP. If the terminal is gone, SIGHUP ends the process; if it is ignored (nohup), it stays
    ignored."""
    terminals = [descriptor for descriptor in range(3) if os.isatty(descriptor)]

    def hang_up(*_: object) -> None:
        if all(os.isatty(descriptor) for descriptor in terminals):
            reread()
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    if current_thread() is not main_thread() or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        yield
        return
    before = signal.signal(signal.SIGHUP, hang_up)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def end_with_parent() -> None:
    """End this worker when the process that started it is gone, even by SIGKILL: no process would replace or end it."""
    parent = os.environ.get(PARENT)

    def watch() -> None:
        while str(os.getppid()) == parent:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, name="parent", daemon=True).start()
