"""Atomic and durable files: complete or absent, even after a power failure.

Marks of a file that change when it is written, and the age from which they are reliable.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path
from typing import BinaryIO

from retrieve_cli.untrusted.files import regular_descriptor

PIECE = 1 << 18
"""Bytes written to a file at a time."""


def replace(path: Path, content: str | bytes, *, mode: int | None = None) -> None:
    """Replace the file in one step: a reader sees the old or the new content, never a part.

    `mode` is its permissions, before a byte is in it; None: according to the umask.
    """
    new = unfinished(path)
    if new.is_symlink():  # not created by this program: it may lead anywhere
        new.unlink()
    try:
        with open(new, "wb", opener=regular_descriptor) as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    sync(path.parent)


def unfinished(path: Path) -> Path:
    """Return the place of the new content of a file until it replaces the file; a killed writer leaves it there."""
    return path.with_name(f".{path.name}.new")


def write(file: BinaryIO, data: memoryview) -> None:
    """Write many bytes in small pieces: the kernel copies them from the processor's cache, in half the time."""
    file.writelines(data[start : start + PIECE] for start in range(0, len(data), PIECE))


def put(path: Path, text: str) -> None:
    """Write a file that a user named: through links, and with its existing permissions. A pipe or a device such as
    /dev/stdout is written directly; any other file is replaced as `replace` does.

    Raises:
        OSError: it cannot be written.
    """
    target = Path(os.path.realpath(path))
    is_device = path.is_absolute() and path.parts[1:2] in (("dev",), ("proc",))
    if is_device or (target.exists() and not target.is_file()):
        path.write_text(text, "utf-8", newline="")
        return
    rights = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    if rights is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    replace(target, text, mode=rights)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing; their names are on the disk. Raises: OSError."""
    if folder.is_dir():
        return
    missing = [one for one in (folder, *folder.parents) if not one.is_dir()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync(one.parent)


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


SETTLED_NS = 2_000_000_000
"""Minimum age of a file for its times to change with the next write: clocks of file systems are coarse."""


def marks_of(status: os.stat_result) -> tuple[int, int, int, int, int]:
    """Return device, inode, size and times of a file: equal if the file was not written to."""
    device, inode = ((number + 2**63) % 2**64 - 2**63 for number in (status.st_dev, status.st_ino))  # as signed numbers
    return device, inode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def settled(*times_ns: int) -> bool:
    """Return True if a file with these times of change cannot change again within the same tick of its clock."""
    return time.time_ns() - max(times_ns) > SETTLED_NS
