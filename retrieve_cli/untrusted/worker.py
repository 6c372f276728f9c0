"""A worker process as the process sees it that has started it: requests, answers, and how it ended.

It is another program, not a copy of this one, which may have threads and locks, and is asked by one thread at a time.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieve_cli.errors import printable, shortened
from retrieve_cli.untrusted.frames import SIZES, sizes_of
from retrieve_cli.version import FOLDER

if TYPE_CHECKING:
    import resource

TICK_S = 0.25
"""Seconds between two looks at the clocks of a process."""
_READ = 1 << 20
_SAID = 4096
"""Last bytes of its standard error that are kept."""
_LAST_READS = 4
"""Reads of what a process leaves on its standard error: a pipe holds less than one of them."""
_QUOTED = 200
"""Characters of the last line on its standard error that are quoted."""
_END_S = 5.0
"""Seconds in which a process is gone that has closed its pipe, or was killed."""


class Gone(Exception):
    """The process has ended, or has closed its pipe, before it answered."""


class WorkerProcess:
    """A process that answers requests: `python -m MODULE`."""

    def __init__(
        self,
        module: str,
        *arguments: int,
        environment: Mapping[str, str],
        descriptors: Sequence[int],
    ) -> None:
        """Start it with the search path for modules of this process, without the folder that is current at the time,
        in the root folder and in a separate session, so that the terminal of the user is not its terminal.

        Raises:
            OSError: it cannot be started.
        """
        self.used: resource.struct_rusage | None = None
        """Resources that it has used, known once it has ended."""
        self._rest = memoryview(b"")
        """Bytes of a request that are not sent."""
        self._body = bytearray()
        """Bytes of answers that have come."""
        self._said = b""
        self._process = subprocess.Popen(  # noqa: S603  this program
            [sys.executable, "-m", module, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            pass_fds=descriptors,
            env={**environment, "PYTHONPATH": os.pathsep.join(search_path()), "PYTHONSAFEPATH": "1"},
            cwd="/",
            start_new_session=True,
        )
        streams: tuple[Any, ...] = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._input, self._output, self._error = streams
        os.set_blocking(self._input.fileno(), False)  # one that does not read must not stop its watch
        os.set_blocking(self._error.fileno(), False)
        self._streams = selectors.DefaultSelector()
        self._streams.register(self._output, selectors.EVENT_READ)
        self._streams.register(self._error, selectors.EVENT_READ)

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    @property
    def has_more(self) -> bool:
        """True if something has come after the last answer."""
        return bool(self._body)

    @property
    def has_spoken(self) -> bool:
        """True if there is something to read that was not asked for, or the end."""
        return self.has_more or any(key.fileobj is self._output for key, _ in self._streams.select(0))

    def send(self, request: bytes) -> None:
        """Send a request, by the time that its answer is received."""
        if not self._rest:
            self._streams.register(self._input, selectors.EVENT_WRITE)
        self._rest = memoryview(request)
        self._said = b""

    def receive(self, *, head: int, body: int, look: Callable[[], None] = lambda: None) -> tuple[bytes, bytes]:
        """Return head and body of the next answer, which have at most so many bytes.

        `look` is called four times a second or more often, and may raise an error to give up.

        Raises:
            Gone: the process has ended, or has closed its pipe.
            ValueError: it is no answer.
        """
        while (sizes := self._whole(head, body)) is None or self._rest:
            for key, _ in self._streams.select(TICK_S):
                if key.fileobj is self._input:
                    self._send()
                elif key.fileobj is self._error:
                    self._listen()
                elif some := os.read(key.fd, _READ):
                    self._body += some
                else:
                    raise Gone
            look()
        end = SIZES + sizes[0]
        view = memoryview(self._body)
        answer = bytes(view[SIZES:end]), bytes(view[end : end + sizes[1]])
        view.release()
        del self._body[: end + sizes[1]]
        return answer

    def _whole(self, head: int, body: int) -> tuple[int, int] | None:
        """Return the sizes of an answer once it has arrived. Raises: ValueError: it is not an answer."""
        if len(self._body) < SIZES:
            return None
        sizes = sizes_of(bytes(self._body[:SIZES]), head=head, body=body)
        return sizes if len(self._body) >= SIZES + sum(sizes) else None

    def _send(self) -> None:
        """Write as much of a request as the pipe takes."""
        with suppress(BlockingIOError):
            try:
                self._rest = self._rest[os.write(self._input.fileno(), self._rest) :]
            except BrokenPipeError:  # it has ended: so does its answer
                self._rest = memoryview(b"")
        if not self._rest:
            self._streams.unregister(self._input)

    def _listen(self) -> None:
        """Read some of its standard error, without waiting for more."""
        with suppress(BlockingIOError, KeyError):
            if some := os.read(self._error.fileno(), _READ):
                self._said = (self._said + some)[-_SAID:]
            else:
                self._streams.unregister(self._error)

    # ------------------------------------------------------------------------------------------ the end

    def last_line(self) -> str:
        """Return the end of its standard error since the last request; it is not trusted."""
        for _ in range(_LAST_READS):
            self._listen()
        return shortened(printable(self._said.decode("utf-8", "replace").strip().rpartition("\n")[2]), _QUOTED)

    def ending(self) -> str:
        """Return how it has ended, in words, with its last line unless it was killed."""
        code = self.wait(_END_S)
        if code is None:
            return "it closed its pipe"
        line, name = self.last_line(), signal_name(code)
        end = f"signal {name}" if name else f"exit code {code}"
        return f"{end}: {line}" if line and name != "SIGKILL" else end

    def wait(self, seconds: float) -> int | None:
        """Return its exit code once it has ended; None if it does not within some seconds."""
        until = time.monotonic() + seconds
        while self._process.returncode is None:
            try:
                pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
            except ChildProcessError:  # another thread, which kills it, has just seen its end
                return self._process.wait()
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self.used = used
            elif time.monotonic() > until:
                return None
            else:
                time.sleep(0.002)
        return self._process.returncode

    def kill(self) -> None:
        """End it at once, from any thread; `close` has still to be called by the thread that uses it."""
        with suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """End it at once and free what belongs to it."""
        self.kill()
        self.wait(_END_S)
        self._streams.close()
        for stream in (self._input, self._output, self._error):
            stream.close()


def signal_name(code: int | None) -> str:
    """Return the name of the signal that ended a process; empty if none did."""
    if code is None or code >= 0:
        return ""
    with suppress(ValueError):
        return signal.Signals(-code).name
    return str(-code)


def search_path() -> list[str]:
    """Return the search path for modules of this process, without the folder that is current at the time."""
    package = str(Path(FOLDER).parent)
    return [package, *(path for path in sys.path if Path(path).is_absolute() and path != package)]
