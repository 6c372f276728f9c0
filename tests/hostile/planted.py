"""A program with every fault that the harness looks for: its first argument says which."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from pathlib import Path

from hostile import limits


def run(arguments: list[str]) -> int:
    """Run within the limits; what spins has a second of CPU time."""
    fault, *rest = arguments
    limits.apply(cpu_s=1 if fault == "spin" else limits.CPU_S)
    if fault == "code":
        return int(rest[0])
    if fault == "print":
        os.write(1, rest[0].encode())
        return 0
    if fault == "say":
        os.write(2, rest[1].encode())
        return int(rest[0])
    return _FAULTS[fault]() or 0


def _crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _parent() -> None:
    os.kill(os.getppid(), signal.SIGKILL)


def _spin() -> None:
    while True:
        pass


def _sleep() -> None:
    signal.pause()


def _allocate() -> None:
    held = bytearray(2300 << 20)
    held[:: 1 << 12] = b"x" * (len(held) >> 12)


def _reserve() -> None:
    bytearray(5 << 30)


def _flood() -> None:
    while True:
        os.write(1, b"x" * 100_000)


def _raise() -> None:
    raise KeyError("planted")


def _bug() -> int:
    print("error: KeyError: 'planted'\nhint: this is a bug in retrieve; -v shows where it happened", file=sys.stderr)
    return 1


def _warn() -> None:
    warnings.warn("planted", stacklevel=1)


def _execute() -> None:
    Path("canary").touch()


_FAULTS = {
    "crash": _crash, "parent": _parent, "spin": _spin, "sleep": _sleep, "allocate": _allocate, "reserve": _reserve,
    "flood": _flood, "raise": _raise, "bug": _bug, "warn": _warn, "execute": _execute,
}  # fmt: skip
