"""A server process: uvicorn on sockets that are bound already, until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import ceil
from typing import TYPE_CHECKING, Any

from retrieve_cli.errors import Exit
from retrieve_cli.frozen import Frozen
from retrieve_cli.server.http.admission import SlowClients
from retrieve_cli.server.http.service import NOSNIFF
from retrieve_cli.server.http.workers import handling, rereading

if TYPE_CHECKING:
    import uvicorn

    from retrieve_cli.http.listening import Listener
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
        log_config={  # all to stderr: the default of uvicorn for requests is stdout
            "version": 1,
            "disable_existing_loggers": False,
            "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr"}},
            "loggers": {"uvicorn": {"handlers": ["stderr"], "propagate": False}},
        },
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

    def end(*_: object) -> None:  # uvicorn raises the signal again when it is done
        raise Ended

    with handling(signal.SIGTERM, end), _unhindered_by(app), rereading(options.reread):
        _server(app, config, ready, options.grace).run(sockets=[listener])


def _protocol() -> type[asyncio.Protocol]:
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
