"""One process that parses and draws documents, as the process that asks for them sees it."""

from __future__ import annotations

import json
import mmap
import os
import selectors
import signal
import sys
import time
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts import Parsed
from retrieve_cli.documents.processes import messages, transfer
from retrieve_cli.documents.processes.messages import Request
from retrieve_cli.documents.processes.pictures import checked
from retrieve_cli.documents.processes.starting import start, state_file
from retrieve_cli.errors import BadDocument, NotADocument, printable, shortened

if TYPE_CHECKING:
    import resource

_TICK_S = 0.25
"""Seconds between two looks at the clocks of a process."""
_READ = 1 << 20
_SAID = 4096
"""Last bytes of its standard error that are kept."""
_REASON = 500
"""Characters of a reason from the process, which is not trusted."""
_QUOTED = 120
"""Characters of the last line on its standard error that are quoted."""
_LAST_PAGE = 10_000_000
"""Largest number of a page that is believed."""
_NEARLY = 0.75
"""Share of the memory limit above which a process that crashed is said to have run out of memory."""
_WALL_PER_CPU, _WALL_S = 4, 30.0
"""Wall-clock limit: so many times the CPU limit, and this on top, for a machine with other work."""
_SENSELESS = "an answer that makes no sense"
_CRASHES = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGTRAP", "SIGILL", "SIGKILL")


class NotBegun(Exception):
    """The process ended before it began with the file; the text is the last line that it wrote."""


class Process:
    """Parses and draws files, one at a time, within limits of memory and time."""

    def __init__(self, memory_bytes: int) -> None:
        """Raises: OSError if no process can be started."""
        self._memory_bytes = memory_bytes
        self._begun = 0
        self._said = b""
        self._peak = 0
        self.last = False
        """True if it takes no other file."""
        with state_file() as file:
            os.ftruncate(file.fileno(), messages.STATE_SIZE)
            self._marks = mmap.mmap(file.fileno(), messages.STATE_SIZE)
            self._process = start(file.fileno(), memory_bytes)
        streams: tuple[Any, ...] = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._input, self._output, self._error = streams
        os.set_blocking(self._input.fileno(), False)  # one that does not read must not stop its watch
        self._streams = selectors.DefaultSelector()
        self._streams.register(self._output, selectors.EVENT_READ)
        self._streams.register(self._error, selectors.EVENT_READ)

    def ask(self, request: Request) -> Parsed | bytes:
        """Return the document, or its picture.

        Raises:
            BadDocument: it cannot be read, or the process ended with it.
            NotBegun: the process ended before.
        """
        self._begun += 1
        self._said = b""
        try:
            packed = request.packed(self._begun)
        except OSError as error:
            self._begun -= 1
            raise BadDocument(f"it cannot be read: {error.strerror or error}") from error
        form, content = self._answer(request, packed)
        if form == messages.OUT_OF_MEMORY:
            raise self._ended(self._memory_reason, "parsing.memory_mb")
        try:
            if form == request.form:
                return transfer.unpacked(content) if request.drawing is None else checked(content)
            if form != messages.REJECTED:
                raise ValueError("an unknown form")
            *said, foreign = json.loads(content)
            message, hint = (shortened(printable(part), _REASON) for part in said)
        except (ValueError, TypeError, RecursionError) as error:
            self.close()  # a document may have taken it over
            what = f": {shortened(str(error))}" if form == request.form else ""
            raise self._ended(f"{_SENSELESS}{what}") from error
        raise (NotADocument if foreign is True else BadDocument)(message, hint=hint)

    def _answer(self, request: Request, packed: bytes) -> tuple[bytes, bytes]:
        """Send a request and return the form and the content of the answer."""
        if self._has_spoken():
            raise NotBegun("it spoke without being asked")
        watch = _Watch(self._process.pid, request.limits.cpu_s)
        rest, body = memoryview(packed), bytearray()
        self._streams.register(self._input, selectors.EVENT_WRITE)
        while (answer := self._whole(body, request.longest)) is None or rest:
            for key, _ in self._streams.select(_TICK_S):
                if key.fileobj is self._input:
                    rest = self._send(rest)
                    continue
                some = os.read(key.fd, _READ)
                if key.fileobj is self._error:
                    self._said = (self._said + some)[-_SAID:]
                    if not some:
                        self._streams.unregister(key.fileobj)
                elif some:
                    body += some
                else:
                    raise self._gone(request.limits.cpu_s)
            if exceeded := watch.exceeded():
                self.close()
                raise self._ended(*exceeded)
        return answer

    def _send(self, rest: memoryview) -> memoryview:
        """Write as much of a request as the pipe takes; return the rest."""
        try:
            rest = rest[os.write(self._input.fileno(), rest) :]
        except BlockingIOError:
            return rest
        except BrokenPipeError:  # it has ended: so does its answer
            rest = rest[:0]
        if not rest:
            self._streams.unregister(self._input)
        return rest

    def _has_spoken(self) -> bool:
        """Return True if there is an answer to no request: the process is not what it was any more."""
        return any(key.fileobj is self._output for key, _ in self._streams.select(0))

    def _whole(self, body: bytearray, longest: int) -> tuple[bytes, bytes] | None:
        """Return form and content of an answer, None while it is incomplete. Raises: BadDocument if it is not one."""
        if len(body) < messages.ANSWER.size:
            return None
        form, self.last, number, size = messages.ANSWER.unpack_from(body)
        sensible = number == self._begun and size <= longest
        if not sensible or len(body) > messages.ANSWER.size + size:
            self.close()
            raise self._ended(_SENSELESS)
        return (
            (form, bytes(memoryview(body)[messages.ANSWER.size :]))
            if len(body) - messages.ANSWER.size == size
            else None
        )

    def _gone(self, cpu_s: float) -> BadDocument | NotBegun:
        """Return the error for a process that ended by itself."""
        self._last_words()
        code = self._wait(1.0)
        self.close()
        line = shortened(printable(self._said.decode("utf-8", "replace").strip().rpartition("\n")[2]), _QUOTED)
        if messages.STATE.unpack_from(self._marks)[0] != self._begun:
            return NotBegun(line)
        name = _signal_name(code)
        if name == "SIGXCPU":
            return self._ended(*_cpu_reason(cpu_s))
        if name in _CRASHES and self._peak > _NEARLY * self._memory_bytes:
            return self._ended(self._memory_reason, "parsing.memory_mb")
        end = f"signal {name}" if name else f"exit code {code}"
        return self._ended(f"{end}: {line}" if line else end)

    def _last_words(self) -> None:
        """Read what it has written to its standard error, without waiting for more."""
        os.set_blocking(self._error.fileno(), False)
        with suppress(OSError):
            while some := os.read(self._error.fileno(), _READ):
                self._said = (self._said + some)[-_SAID:]

    def _ended(self, reason: str, key: str = "") -> BadDocument:
        """Return the reason to reject the file that it was parsing; `key` sets the limit."""
        self.last = True
        page = messages.STATE.unpack_from(self._marks)[1]
        where = f" on page {page}" if 0 < page <= _LAST_PAGE else ""
        return BadDocument(f"the reader ended{where} ({reason})", hint=f"{key} sets the limit" if key else "")

    @property
    def _memory_reason(self) -> str:
        return f"out of memory: limit {self._memory_bytes / 2**20:,.0f} MB"

    def _wait(self, seconds: float) -> int | None:
        """Return its exit code once it has ended, None if it does not within some seconds."""
        until = time.monotonic() + seconds
        while self._process.returncode is None:
            try:
                pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
            except ChildProcessError:  # another thread, which kills it, has just seen its end
                return self._process.wait()
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self._peak = self._peak_of(used)
            elif time.monotonic() > until:
                return None
            else:
                time.sleep(0.002)
        return self._process.returncode

    def _peak_of(self, used: resource.struct_rusage) -> int:
        """Return the bytes that it has used for this file, as far as the kernel says.

        The kernel counts the peak of a process from that of the process that started it. A peak that has not grown is
        therefore not one of this file, and the pages are counted that were given to it meanwhile.
        """
        peak, faults = messages.MEMORY.unpack_from(self._marks, messages.STATE.size)
        if used.ru_maxrss > peak:
            return int(used.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
        return max(0, used.ru_minflt - int(faults)) * mmap.PAGESIZE

    def kill(self) -> None:
        """End it at once; `close` has still to be called by the thread that uses it."""
        with suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """End it at once and free what belongs to it."""
        self.last = True
        self.kill()
        self._wait(inf)
        self._streams.close()
        for stream in (self._input, self._output, self._error):
            stream.close()


class _Watch:
    """Clocks of a process while it parses one file."""

    def __init__(self, pid: int, cpu_s: float) -> None:
        self._clock = (~pid << 3) | 2
        """Number of the CPU clock of another process on Linux (`MAKE_PROCESS_CPUCLOCK`)."""
        self._cpu_s = cpu_s
        self._cpu_before = self._cpu()
        self._looked = time.monotonic()
        self._wall = 0.0

    def exceeded(self) -> tuple[str, str] | None:
        """Return the reason to end the process, and the key of the limit; None if it is within the limits."""
        now = time.monotonic()
        self._wall += min(now - self._looked, 4 * _TICK_S)  # if this process was stopped, so was the other one
        self._looked = now
        if self._cpu() - self._cpu_before > self._cpu_s:
            return _cpu_reason(self._cpu_s)
        wall = _WALL_PER_CPU * self._cpu_s + _WALL_S
        return (f"no end within {wall:,.0f} s", "parsing.cpu_s") if self._wall > wall else None

    def _cpu(self) -> float:
        """Return the CPU seconds of the process; 0 on other systems, where RLIMIT_CPU ends it."""
        try:
            return time.clock_gettime(self._clock) if sys.platform == "linux" else 0.0
        except (OSError, OverflowError):  # it has just ended
            return 0.0


def _cpu_reason(cpu_s: float) -> tuple[str, str]:
    return f"more than {cpu_s:g} s of CPU time", "parsing.cpu_s"


def _signal_name(code: int | None) -> str:
    if code is None or code >= 0:
        return ""
    with suppress(ValueError):
        return signal.Signals(-code).name
    return str(-code)
