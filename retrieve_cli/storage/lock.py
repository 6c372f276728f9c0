"""Locks for writers and readers: advisory locks of the kernel (flock), which end with their process in any case.

A writer holds the file `lock`, which names the process. A reader shares the lock of its generation's folder while it is
open; only the removal of old generations checks this lock, and skips a folder that is in use.
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
"""Seconds between two attempts to take a lock that another process holds."""


class Hold:
    """A shared lock on a folder, released when this object is deleted or its process ends."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def __del__(self) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)


def share(folder: Path) -> Hold | None:
    """Protect `folder` from removal while the returned hold lives; None if it is gone or being removed."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return Hold(None)  # the folder can be entered but not opened: locking is impossible
    hold = Hold(descriptor)
    return hold if _unhindered(descriptor, fcntl.LOCK_SH) else None


@contextmanager
def lock_exclusively(folder: Path) -> Iterator[bool]:
    """Yield True if no reader holds the folder; then none can begin until the context ends."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield _unhindered(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def _unhindered(descriptor: int, lock: int) -> bool:
    """Take a lock without waiting; return False if another process holds it.

    A file system without locks returns True: readers keep at least the files that they have open.
    """
    try:
        fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True


@contextmanager
def hold_for_writing(
    file: Path, *, wait: float, say: Callable[[str], None] = lambda _: None, mode: int = 0o666
) -> Iterator[None]:
    """Hold `file` for one writer, and write pid, host, start and command of this process into it.

    Waits up to `wait` seconds for another writer to end, and reports that once.

    Raises:
        Locked: another writer still holds it then; the message names the process.
        OSError: the file cannot be opened for writing.
    """
    until = time.monotonic() + wait
    reported = False
    while (descriptor := take(file, mode)) is None:
        if time.monotonic() >= until:
            hint = "wait for it to end; retrieve sync --wait SECONDS does that"
            raise Locked(f"another writer{holder(file)} holds {file.parent}", hint=hint)
        if not reported:
            say(f"waiting for another writer{holder(file)}")
            reported = True
        time.sleep(_POLL)
    owner = {"pid": os.getpid(), "host": os.uname().nodename, "start": now(), "command": shlex.join(sys.argv)}
    try:
        with suppress(OSError):  # a full disk does not stop it here
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(owner).encode(), 0)
        yield
    finally:
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
        os.close(descriptor)


def holder(file: Path) -> str:
    """Return the current or last holder of the lock, in brackets; empty if the file does not name one."""
    try:
        owner = json.loads(read_text(file, limit=CONFIG, errors="replace"))
        return f" (pid {owner['pid']} on {owner['host']} since {owner['start']}: {owner['command']})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def is_held(file: Path) -> bool:
    """Return True if a writer is active."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not _unhindered(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def take(file: Path, mode: int = 0o666) -> int | None:
    """Return a descriptor that holds the lock; None if another process holds it. `mode` is the mode of a new file.

    Raises:
        OSError: the file cannot be opened, or is not a regular file.
    """
    descriptor = regular_descriptor(file, os.O_RDWR | os.O_CREAT, mode=mode)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The file may have been removed in the meantime: a lock on a file without a name protects nothing.
        if os.fstat(descriptor).st_ino == file.stat().st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def now() -> str:
    """Return the time of this moment, ISO 8601 in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
