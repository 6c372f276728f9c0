"""Marks of a file that change when it is written, and the age from which they are reliable."""

from __future__ import annotations

import os
import time

SETTLED_NS = 2_000_000_000
"""Minimum age of a file for its times to change with the next write: clocks of file systems are coarse."""


def marks_of(status: os.stat_result) -> tuple[int, int, int, int, int]:
    """Return device, inode, size and times of a file: equal if the file was not written to."""
    device, inode = _signed(status.st_dev), _signed(status.st_ino)
    return device, inode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def settled(*times_ns: int) -> bool:
    """Return True if a file with these times of change cannot change again within the same tick of its clock."""
    return time.time_ns() - max(times_ns) > SETTLED_NS


def _signed(number: int) -> int:
    """Return the same 64 bits as a signed number."""
    return (number + 2**63) % 2**64 - 2**63
