"""The copy of the warm process that answers: it becomes, as far as a program can see, the process of the command."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from retrieve_cli.warm import messages
from retrieve_cli.web import local

if TYPE_CHECKING:
    from retrieve_cli.warm.messages import Call
    from retrieve_cli.web.local import Connection

_NAMES = ("<stdin>", "<stdout>", "<stderr>")
_UNWRITTEN = 120
"""Exit code of Python if its output cannot be written at the end."""


class Declined(BaseException):
    """The call is to be done by the command itself; nothing was written yet."""


_READS, _WRITES = ("-", "--stream"), ("--save-run", "--trec-ids")
"""Words of calls that change something before they write: these wait until it is sure that they are done here."""
_is_copy = False


def decline() -> None:
    """Leave the call to the command itself, if this process answers for one."""
    if _is_copy:
        raise Declined


class _Gate:
    """The word of the process that the call is to be done here; without it, nothing may be written."""

    def __init__(self, channel: Connection, connection: Connection) -> None:
        self._channel = channel
        self._connection = connection
        self._is_open = self._has_begun = False

    def wait(self) -> None:
        """Wait for the word; if there will be none, end this process."""
        if not self._is_open:
            if self._channel.recv(1) != messages.GO:
                os._exit(0)
            self._is_open = True

    def begin(self) -> None:
        """Announce the first byte of output."""
        if not self._has_begun:
            self.wait()
            self._has_begun = True
            self.tell(messages.BEGUN)

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
        body, (number, *descriptors) = local.receive(channel, messages.HEAD, messages.size_of, files=streams + 1)
        call = messages.unpacked(body)
        connection = local.opened(number)
        connection.settimeout(None)
    except BaseException:  # noqa: BLE001  the process makes another one
        os._exit(1)
    _do(call, descriptors, _Gate(channel, connection), run)


def _do(call: Call, descriptors: Sequence[int], gate: _Gate, run: Callable[[], int]) -> NoReturn:
    """Do a call as the process of the command would, and end this process."""
    code = 1
    try:
        _become(call, descriptors, gate.begin)
        if any(word in _READS or word.startswith(_WRITES) for word in call.words):
            gate.wait()
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


def _become(call: Call, descriptors: Sequence[int], begin: Callable[[], None]) -> None:
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


class _Announced(io.FileIO):
    """A stream whose first byte is announced."""

    begin: Callable[[], None]

    def write(self, data: bytes) -> int | None:  # type: ignore[override]
        """Write, as `FileIO` does."""
        self.begin()
        return super().write(data)


def _stream(number: int, begin: Callable[[], None]) -> TextIO:
    """Return a standard stream, as Python makes it at its start."""
    raw = _Announced(number, "wb" if number else "rb", closefd=False)
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
    """Do what Python does at its end; return the exit code."""
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
