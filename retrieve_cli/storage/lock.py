"""Who writes and who reads: advisory locks of the kernel (flock), which end with their holder however it dies.

One writer holds the file `lock`, which says who it is. A reader shares the lock of its generation's folder for as long
as it is open; nobody waits for that but the removal of old generations, which passes over a folder that is held.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from retrieve_cli.errors import Locked
from retrieve_cli.untrusted.files import CONFIG, read_text, regular_descriptor

_POLL = 0.05
"""Seconds between two tries for a lock that another process holds."""


class Hold:
    """A shared lock on a folder, let go when this object is forgotten or its process ends."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def __del__(self) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)


def share(folder: Path) -> Hold | None:
    """Keeps `folder` from being removed while the returned hold lives; None where it is gone or going."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return Hold(None)  # it may be entered and not be read: there is nothing to lock
    hold = Hold(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError:
        return hold  # a file system without locks: the reader has its files open, and so they stay
    return hold


def in_use(folder: Path) -> bool:
    """Whether a reader holds the folder."""
    with alone(folder) as mine:
        return not mine


@contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Whether no reader holds the folder; if so, none can begin to until the end of this context."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = True
        except OSError as error:  # where there are no locks, readers keep at least the files that they have open
            mine = not isinstance(error, BlockingIOError)
        yield mine
    finally:
        os.close(descriptor)


@contextmanager
def writing(file: Path, *, wait: float, say: Callable[[str], None]) -> Iterator[None]:
    """Holds `file` for one writer, and writes into it who that is: pid, host, start, command.

    Waits up to `wait` seconds for another writer to end, and says so once.

    Raises:
        Locked: another writer still holds it then; names it.
        OSError: the file cannot be opened for writing.
    """
    until = time.monotonic() + wait
    said = False
    while (descriptor := _take(file)) is None:
        if time.monotonic() >= until:
            hint = "wait for it to end, or let this command wait: retrieve sync --wait SECONDS"
            raise Locked(f"another writer{holder(file)} holds {file.parent}", hint=hint)
        if not said:
            say(f"waiting for another writer{holder(file)}")
            said = True
        time.sleep(_POLL)
    try:
        _write(descriptor, {"pid": os.getpid(), "host": os.uname().nodename, "start": _now(), "command": _command()})
        yield
    finally:
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
        os.close(descriptor)


def holder(file: Path) -> str:
    """Who holds or last held the lock, in brackets; empty where the file does not say."""
    try:
        who = json.loads(read_text(file, limit=CONFIG, errors="replace"))
        return f" (pid {who['pid']} on {who['host']} since {who['start']}: {who['command']})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def held(file: Path) -> bool:
    """Whether a writer is at work now."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)  # a file system without locks does not tell
    finally:
        os.close(descriptor)
    return False


def _take(file: Path) -> int | None:
    """A descriptor that holds the lock, None while another one does.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    descriptor = regular_descriptor(file, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Somebody may have removed the file meanwhile: a lock on a file without a name keeps nobody out.
        if os.fstat(descriptor).st_ino == file.stat().st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _write(descriptor: int, value: dict[str, object]) -> None:
    """What the file says is for people; a disk without room for it does not stop the writer here."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(value).encode(), 0)


def _command() -> str:
    return shlex.join(sys.argv)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
