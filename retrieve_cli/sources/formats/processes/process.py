"""One process that parses and draws documents, as its parent sees it; its answers and pictures are not trusted."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Any
from zlib import crc32

import msgspec

from retrieve_cli.contracts import Parsed
from retrieve_cli.errors import BadDocument, NotADocument, RetrieveError, printable, shortened
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.processes import messages
from retrieve_cli.sources.formats.processes.kernel_rules import missing
from retrieve_cli.sources.formats.processes.messages import ParseRequest
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.worker import TICK_S, Gone, WorkerProcess, signal_name

_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "SYSTEMROOT", "PATH")
"""Variables of the environment that may be needed to start Python. No other one is passed on: they hold secrets."""
_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUTF8": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}
_REASON = 500
"""Characters of a reason from the process, which is not trusted."""
_LAST_PAGE = 10_000_000
"""Largest number of a page that is believed."""
_NEARLY = 0.75
"""Share of the memory limit above which a crash is reported as running out of memory."""
_WALL_PER_CPU, _WALL_S = 4, 30.0
"""Wall-clock limit: so many times the CPU limit, and this on top, for a machine with other work."""
_SENSELESS = "an answer that makes no sense"
_NO_MEMORY = "memory allocation of"
"""Beginning of the last line of a library in Rust that asked for more memory than the limit."""
_CRASHES = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGTRAP", "SIGILL", "SIGKILL")


class NotBegun(Exception):
    """The process ended before it began with the file; the text is the last line that it wrote."""


class Process:
    """Parses and draws files, one at a time, within limits of memory and time."""

    def __init__(self, memory_bytes: int) -> None:
        """Raises: OSError if no process can be started."""
        report_missing_protection()
        self._memory_bytes = memory_bytes
        self._begun = 0
        self.last = False
        """True if it takes no other file."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        with _state_file() as file:
            os.ftruncate(file.fileno(), messages.STATE_SIZE)
            self._marks = mmap.mmap(file.fileno(), messages.STATE_SIZE)
            self._worker = WorkerProcess(
                "retrieve_cli.sources.formats.processes.child",
                *(os.getpid(), file.fileno(), memory_bytes),
                environment={**kept, **_ENVIRONMENT},
                descriptors=(file.fileno(),),
            )

    def ask(self, request: ParseRequest) -> Parsed | bytes:
        """Return the document, or its picture.

        Raises:
            BadDocument: it cannot be read, or the process ended with it.
            NotBegun: the process ended before.
        """
        self._begin(request)
        return self._outcome(request, *self._answer(request))

    def lines(self, request: ParseRequest) -> Iterator[bytes]:
        """Yield the lines of a table. Raises: BadDocument, NotBegun: as in `ask`."""
        self._begin(request)
        form, content = self._answer(request)
        while form == messages.ROWS:
            yield from content.split(b"\n")
            form, content = self._answer(request)
        if form != messages.DOCUMENT:
            self._outcome(request, form, content)

    def _begin(self, request: ParseRequest) -> None:
        """Send a request."""
        try:
            packed = request.packed(self._begun + 1)
        except OSError as error:
            raise BadDocument(f"it cannot be read: {error.strerror or error}") from error
        self._begun += 1
        if self._worker.has_spoken:
            raise NotBegun("it spoke without being asked")
        self._worker.send(packed)

    def _outcome(self, request: ParseRequest, form: str, content: bytes) -> Parsed | bytes:
        """Return what an answer has. Raises: BadDocument."""
        if form == messages.OUT_OF_MEMORY:
            raise self._ended(self._memory_reason, "parsing.memory_mb")
        try:
            if form == request.form:
                return messages.unpacked(content) if request.drawing is None else checked_picture(content)
            if form != messages.REJECTED:
                raise ValueError("an unknown form")
            *said, foreign = msgspec.json.decode(content, type=tuple[str, str, bool])
            message, hint = (shortened(printable(part), _REASON) for part in said)
        except (ValueError, TypeError, RecursionError) as error:
            self.close()  # a document may have taken it over
            what = f": {shortened(str(error))}" if form == request.form else ""
            raise self._ended(f"{_SENSELESS}{what}") from error
        raise (NotADocument if foreign else BadDocument)(message, hint=hint)

    def _answer(self, request: ParseRequest) -> tuple[str, bytes]:
        """Return the form and the content of the next answer."""
        watch = _Watch(self._worker.pid, request.limits.cpu_s)

        def look() -> None:
            if exceeded := watch.exceeded():
                self.close()
                raise self._ended(*exceeded)

        try:
            head, content = self._worker.receive(head=messages.LONGEST_HEAD, body=request.longest, look=look)
            answer = msgspec.json.decode(head, type=messages.AnswerHead)
            self.last = answer.last
            more = answer.form != messages.ROWS and self._worker.has_more
            if answer.number != self._begun or more:
                raise ValueError("an answer to no request")
        except Gone:
            raise self._gone(request.limits.cpu_s) from None
        except (ValueError, RecursionError) as error:
            self.close()
            raise self._ended(_SENSELESS) from error
        return answer.form, content

    def _gone(self, cpu_s: float) -> BadDocument | NotBegun:
        """Return the error for a process that ended by itself."""
        end, name, line = self._worker.ending(), signal_name(self._worker.wait(0)), self._worker.last_line()
        self.close()
        if messages.STATE.unpack_from(self._marks)[0] != self._begun:
            return NotBegun(line)
        if name == "SIGXCPU":
            return self._ended(*_cpu_reason(cpu_s))
        full = line.startswith(_NO_MEMORY) or self._peak > _NEARLY * self._memory_bytes
        if name in _CRASHES and full:
            return self._ended(self._memory_reason, "parsing.memory_mb")
        return self._ended(end)

    def _ended(self, reason: str, key: str = "") -> BadDocument:
        """Return the reason to reject the file that it was parsing; `key` sets the limit."""
        self.last = True
        page = messages.STATE.unpack_from(self._marks)[1]
        where = f" on page {page}" if 0 < page <= _LAST_PAGE else ""
        return BadDocument(f"the reader ended{where} ({reason})", hint=f"{key} sets the limit" if key else "")

    @property
    def _memory_reason(self) -> str:
        return f"out of memory: limit {self._memory_bytes / 2**20:,.0f} MB"

    @property
    def _peak(self) -> int:
        """Bytes that it has used for its last file, as far as the kernel reports them.

        The kernel starts the peak of a process at the peak of its parent. A peak that has not grown is therefore not
        of this file, and the pages are counted that the process received meanwhile.
        """
        used = self._worker.used
        if used is None:
            return 0
        peak, faults = messages.MEMORY.unpack_from(self._marks, messages.STATE.size)
        if used.ru_maxrss > peak:
            return int(used.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
        return max(0, used.ru_minflt - int(faults)) * mmap.PAGESIZE

    def kill(self) -> None:
        """End it at once; `close` has still to be called by the thread that uses it."""
        self._worker.kill()

    def close(self) -> None:
        """End it at once and free what belongs to it."""
        self.last = True
        self._worker.close()


def table_lines(path: Path, kind: str, sheet: str, *, limits: ParsingLimits) -> Iterator[bytes]:
    """Yield the lines of JSON of a table that a package reads, see `table_formats`.

    Raises:
        BadDocument: it cannot be read.
        RetrieveError: no process can be started.
        OSError: the file cannot be read.
    """
    if (size := path.stat().st_size) > limits.max_bytes:
        message = f"it has {size / files.MB:,.1f} MB; the limit is {limits.max_bytes / files.MB:,.0f} MB"
        raise BadDocument(message, hint="parsing.max_mb sets the limit")
    sha1 = files.sha1_of(path, limit=limits.max_bytes)
    module = "retrieve_cli.sources.catalogs.table_formats"
    request = ParseRequest(module, path, sha1, "table", limits, limits.max_bytes, table=(kind, sheet))
    process = Process(limits.memory_bytes)
    try:
        yield from process.lines(request)
    except NotBegun as error:
        message = f"no process that reads documents can be started: {error}"
        raise RetrieveError(message, hint="check the limits of this machine") from error
    finally:
        process.close()


def _state_file() -> Any:
    """Return a file without a name."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("documents"), "w+b")
    return tempfile.TemporaryFile()


@cache
def report_missing_protection() -> None:
    """Report on standard error, once in a run, the protection that this kernel lacks for a complete sandbox."""
    if lacks := missing():
        print(f"Documents are parsed with less protection here: {'; '.join(lacks)}.", file=sys.stderr)


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
        self._wall += min(now - self._looked, 4 * TICK_S)  # if this process was stopped, so was the other one
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


_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHUNK = Struct(">I4s")
_HEADER = Struct(">IIBBBBB")
_CHECK = Struct(">I")
_PLAIN = (8, 2, 0, 0, 0)
"""Red, green and blue with 8 bits each, deflated, filtered by row, not interlaced."""
_MOST_CHUNKS = 10_000
"""Parts of a file; Pillow writes pixels in parts of 64 KB or more."""
_WIDEST, _HIGHEST = 1 << 15, 1 << 13
"""Pixels: twice the size of four pages side by side."""


def checked_picture(content: bytes) -> bytes:
    """Return a picture.

    Nothing but its header, its pixels and its end is in it (Portable Network Graphics, third edition, chapter 5): no
    text, no colour profile and no animation for a program that shows it. The pixels are not unpacked.

    Raises:
        ValueError: it is not such a file, or is too large.
    """
    if not content.startswith(_SIGNATURE):
        raise ValueError("not a PNG")
    place, names = len(_SIGNATURE), list[bytes]()
    while place < len(content) and len(names) <= _MOST_CHUNKS:
        name, place = _chunk(content, place)
        names.append(name)
    if place != len(content) or names[:1] != [b"IHDR"] or names[-1:] != [b"IEND"] or set(names[1:-1]) != {b"IDAT"}:
        raise ValueError("a PNG of other parts")
    return content


def _chunk(content: bytes, place: int) -> tuple[bytes, int]:
    """Return the name of a chunk and the place of the next one. Raises: ValueError."""
    start = place + _CHUNK.size
    if start > len(content):
        raise ValueError("a PNG that breaks off")
    size, name = _CHUNK.unpack_from(content, place)
    end = start + size
    if end + _CHECK.size > len(content):
        raise ValueError("a PNG that breaks off")
    if crc32(memoryview(content)[place + 4 : end]) != _CHECK.unpack_from(content, end)[0]:
        raise ValueError("a damaged PNG")
    if name == b"IHDR":
        if size != _HEADER.size:
            raise ValueError("a PNG of other parts")
        width, height, *kind = _HEADER.unpack_from(content, start)
        if not (0 < width <= _WIDEST and 0 < height <= _HIGHEST and tuple(kind) == _PLAIN):
            raise ValueError("a picture of another kind or size")
    elif name == b"IEND" and size:
        raise ValueError("a PNG of other parts")
    return name, end + _CHECK.size
