"""The copy of the warm process that answers: it becomes, as far as a program can see, the process of the command."""

from __future__ import annotations

import io
import marshal
import os
import resource
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TextIO

from retrieve_cli.cli.warm import messages
from retrieve_cli.http import local

if TYPE_CHECKING:
    from retrieve_cli.http.local import Connection

_NAMES = ("<stdin>", "<stdout>", "<stderr>")
_UNWRITTEN = 120
"""Exit code of Python if its output cannot be written at the end."""


class ProgramCall(NamedTuple):
    """A call of the program: everything that its result depends on."""

    words: Sequence[str]
    environment: Mapping[bytes, bytes]
    streams: Sequence[int]
    """Open standard streams: 0, 1, 2."""
    ignored: Sequence[int]
    """Signals that the caller ignores."""
    umask: int
    path: str
    """The first entry of `sys.path`: the folder of the script, or of the call."""


class Declined(BaseException):
    """The call is to be done by the command itself; nothing was read or written yet."""


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = frozenset(f"os.{name}" for name in ("mkdir", "rename", "remove", "rmdir", "link", "symlink", "truncate"))
"""Events of Python by which something on the disk changes; and `open`, with one of the flags above."""
_LIMITS = [getattr(resource, name) for name in sorted(dir(resource)) if name.startswith("RLIMIT_")]
_is_copy = False


def decline() -> None:
    """Leave the call to the command itself, if this process answers for one."""
    if _is_copy:
        raise Declined


class _Gate:
    """The word of the process that the call is to be done here; without it, nothing may be read or written."""

    def __init__(self, channel: Connection, connection: Connection) -> None:
        self._channel = channel
        self._connection = connection
        self._is_open = self._has_begun = False
        self._lock = threading.RLock()

    def wait(self) -> None:
        """Wait for permission to write; end this process if it cannot come any more."""
        if not self._is_open:
            if self._channel.recv(1) != messages.GO:
                os._exit(0)
            self._is_open = True

    def begin(self) -> None:
        """Announce, before it happens, the first byte of input or output, or the first change on the disk: from then on
        the call cannot be done again."""
        with self._lock:
            if not self._has_begun:
                self.wait()
                self._has_begun = True
                self.tell(messages.BEGUN)

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Announce the first change on the disk: a hook of `sys.addaudithook`."""
        if not self._has_begun and (
            event in _CHANGES or (event == "open" and isinstance(flags := arguments[2], int) and flags & _WRITING)
        ):
            self.begin()

    @property
    def caller(self) -> int:
        """The process of the command."""
        return local.owner(self._connection)[0]

    def tell(self, message: bytes) -> None:
        """Send a message to the command."""
        self.wait()
        with suppress(OSError):
            self._connection.sendall(message)


def wait(channel: Connection, run: Callable[[], int], rehearse: Callable[[], None] | None, *, streams: int) -> NoReturn:
    """Rehearse, wait for a call, do it, and end this process."""
    try:
        if rehearse is not None:
            rehearse()
            channel.sendall(messages.READY)
        _, body, (number, *descriptors) = local.receive(channel, longest=messages.LONGEST, files=streams + 1)
        call = ProgramCall(*marshal.loads(body))  # noqa: S302  from this user and this interpreter, as both sides have checked
        connection = local.opened(number)
        connection.settimeout(None)
    except BaseException:  # noqa: BLE001  the process makes another one
        os._exit(1)
    _do(call, descriptors, _Gate(channel, connection), run)


def _do(call: ProgramCall, descriptors: Sequence[int], gate: _Gate, run: Callable[[], int]) -> NoReturn:
    """Do a call as the process of the command would, and end this process."""
    code = 1
    try:
        _become(call, descriptors, gate.begin)
        _share_limits(gate.caller)
        sys.addaudithook(gate.watch)
        code = run()
    except Declined:
        gate.tell(messages.DECLINED)
        os._exit(0)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001  what ends a process, ends this one
        traceback.print_exc()
    code = _leave(code)
    gate.tell(messages.ENDED + bytes([code & 0xFF]))
    os._exit(code)


def _become(call: ProgramCall, descriptors: Sequence[int], begin: Callable[[], None]) -> None:
    """Take over the folder, the streams, the environment and the arguments of the caller."""
    global _is_copy  # noqa: PLW0603  a fact about the process
    _is_copy = True
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    here, *streams = descriptors
    os.fchdir(here)
    os.close(here)
    given = dict(zip(call.streams, streams, strict=True))
    for number in (0, 1, 2):
        if number in given:
            os.dup2(given[number], number)
            os.close(given[number])
        else:
            os.close(number)
    opened = [_stream(number, begin) if number in given else None for number in (0, 1, 2)]
    for name, stream in zip(("stdin", "stdout", "stderr"), opened, strict=True):
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.environb.clear()
    os.environb.update({**messages.OURS, **call.environment})
    time.tzset()
    os.umask(call.umask)
    sys.argv[:] = call.words
    sys.path[0] = call.path
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN if number in call.ignored else signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN if signal.SIGINT in call.ignored else signal.default_int_handler)


def _share_limits(caller: int) -> None:
    """Take over the resource limits, the priority and the processors of the command. Raises: Declined: a setting cannot
    be taken over."""
    try:
        for limit in _LIMITS:
            if (wanted := resource.prlimit(caller, limit)) != resource.getrlimit(limit):
                resource.setrlimit(limit, wanted)
        if (priority := os.getpriority(os.PRIO_PROCESS, caller)) != os.getpriority(os.PRIO_PROCESS, 0):
            os.setpriority(os.PRIO_PROCESS, 0, priority)
        if (cores := os.sched_getaffinity(caller)) != os.sched_getaffinity(0):
            os.sched_setaffinity(0, cores)
    except (OSError, ValueError):
        raise Declined from None


class _Announced(io.FileIO):
    """A stream of which the first byte, read or written, is announced."""

    begin: Callable[[], None]

    def readinto(self, buffer: Any) -> int:
        """Read, as `FileIO` does."""
        self._await()
        return super().readinto(buffer)

    def readall(self) -> bytes:
        """Read, as `FileIO` does."""
        self._await()
        return super().readall()

    def read(self, size: int | None = -1) -> bytes:
        """Read, as `FileIO` does."""
        self._await()
        return super().read(size)

    def _await(self) -> None:
        """Announce input once it has arrived: while this process waits for it, the call can be repeated."""
        waiting = select.poll()
        waiting.register(self.fileno(), select.POLLIN)
        waiting.poll()
        self.begin()

    def write(self, data: bytes) -> int | None:  # type: ignore[override]
        """Write, as `FileIO` does."""
        self.begin()
        return super().write(data)


def _stream(number: int, begin: Callable[[], None]) -> TextIO:
    """Return a standard stream, as Python makes it at its start."""
    raw: Any = _Announced(number, "wb" if number else "rb", closefd=False)
    raw.begin = begin
    raw.name = _NAMES[number]
    if number == 0:
        return io.TextIOWrapper(io.BufferedReader(raw), "utf-8", "surrogateescape")
    lines = number == 2 or raw.isatty()
    errors = "strict" if number == 1 else "backslashreplace"
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    buffer: Any = raw if at_once else io.BufferedWriter(raw)
    stream = io.TextIOWrapper(
        buffer, "utf-8", errors, newline="\n", line_buffering=lines and not at_once, write_through=at_once
    )
    vars(stream)["mode"] = "w"
    return stream


def _leave(code: int) -> int:
    """Join threads, run exit handlers and flush the streams, as Python does; return the exit code."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    import atexit

    atexit._run_exitfuncs()  # noqa: SLF001  there is no public way to run them before `os._exit`
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError) as error:
            with suppress(OSError, ValueError):
                print(f"Exception ignored in: {stream!r}\n{type(error).__name__}: {error}", file=sys.stderr)
            code = _UNWRITTEN
    return code
