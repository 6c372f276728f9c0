"""Several processes that answer on one socket. One that dies is replaced, while the others go on answering."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from tempfile import TemporaryDirectory
from threading import Thread, current_thread, main_thread
from types import FrameType

from retrieve_cli.errors import RetrieveError
from retrieve_cli.http.listening import Listener, is_answered

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
SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the folder in which the workers of a server count together."""


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
        self._count, self._reserved, self._say = count, reserved, say
        self._ready: Callable[[], None] | None = ready
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._begun: dict[int, float] = {}
        self._failed = self._signal = 0
        self._shared = TemporaryDirectory(prefix="retrieve-serve-", ignore_cleanup_errors=True)

    def run(self) -> int:
        """Keep the workers running until SIGTERM or SIGINT, and return the signal.

        Raises:
            RetrieveError: workers cannot start.
        """
        with handling(signal.SIGTERM, self._end), handling(signal.SIGINT, self._end):
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
                for process in self._processes.values():  # each finishes its requests within the grace period
                    with suppress(ProcessLookupError):
                        process.terminate()
                for process in self._processes.values():
                    process.wait()
                self._shared.cleanup()

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
            self._failed = self._failed + 1 if time.monotonic() - self._begun[number] < _SOON_S else 0
            self._say(f"worker {number} ended with code {code}; starting another one")
            if self._failed > _MOST_FAILED:
                raise RetrieveError("the workers end as soon as they start", hint="see the messages above")
        self._processes[number] = subprocess.Popen(  # noqa: S603  this program
            [sys.executable, "-m", "retrieve_cli", *self._command],
            env={**os.environ, NUMBER: str(number), PARENT: str(os.getpid()), SHARED: self._shared.name},
            pass_fds=[self._reserved.fileno()],
            stdin=subprocess.DEVNULL,
        )
        self._begun[number] = time.monotonic()

    def _end(self, number: int, _: FrameType | None) -> None:
        self._signal = number


@contextmanager
def handling(number: signal.Signals, handler: Callable[..., None]) -> Iterator[None]:
    """Handle a signal; in a thread other than the main one, which Python gives no signals, do nothing."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


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

    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    with nullcontext() if ignored else handling(signal.SIGHUP, hang_up):
        yield


def end_with_parent() -> None:
    """End this worker when the process that started it is gone, even by SIGKILL: no process would replace or end it."""
    parent = os.environ.get(PARENT)

    def watch() -> None:
        while str(os.getppid()) == parent:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, name="parent", daemon=True).start()
