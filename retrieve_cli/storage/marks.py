"""Marks of a file that change with it, and when they can be relied on."""

from __future__ import annotations

import os
import time

SETTLED_NS = 2_000_000_000
"""Age from which a file that is written once more has other times: clocks of file systems are coarse."""


def marks_of(status: os.stat_result) -> tuple[int, int, int, int, int]:
    """Return device, inode, size and times of a file: all equal, and nobody wrote to it."""
    device, inode = _signed(status.st_dev), _signed(status.st_ino)
    return device, inode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def settled(*times_ns: int) -> bool:
    """Return True if a file of these times of change cannot change again within the same ticks of its clock."""
    return time.time_ns() - max(times_ns) > SETTLED_NS


def _signed(number: int) -> int:
    """The number that the same 64 bits are with a sign."""
    return (number + 2**63) % 2**64 - 2**63
