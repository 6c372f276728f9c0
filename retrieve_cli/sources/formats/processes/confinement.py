"""Limits of a process that parses documents, set by itself before it sees the first one."""

from __future__ import annotations

import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from typing import Any

from retrieve_cli.sources.formats.processes import kernel_rules
from retrieve_cli.untrusted.frames import ignore_terminal

_OWN_FILES = 4096
"""Most bytes of a file that the process writes: it writes none but its state, which is a few bytes."""
_MOST_FILES = 256
"""Most open files."""
_LIBRARIES = 2 << 30
"""Address space for the code of libraries and for memory that they reserve but do not use, beside the memory limit."""
_OTHER_THREADS_S = 1
"""CPU seconds by which the kernel ends the process later than the process that watches it would."""
_counts: list[int] = []
"""Descriptor of the kernel's counts of the memory of this process, where it has them."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_DENIED = (
    "socket.", "subprocess.", "pty.", "shutil.", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system",
    "os.startfile", "os.kill", "os.killpg", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink",
    "os.truncate", "os.chmod", "os.chown", "os.chflags", "os.setxattr", "os.removexattr",
    "os.utime", "tempfile.", "webbrowser.", "ftplib.", "http.", "smtplib.", "urllib.Request", "sqlite3.connect",
    "resource.prlimit",
)  # fmt: skip
"""Beginnings of the names of audit events (PEP 578) that raise an error."""


def confine(parent: int, memory_bytes: int) -> None:
    """Confine this process; end it if its parent has ended already."""
    _reset_signals()
    if not kernel_rules.end_with_parent():
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()
    if os.getppid() != parent:
        os._exit(0)
    _limit("RLIMIT_CORE", 0)
    _limit("RLIMIT_FSIZE", _OWN_FILES)
    _limit("RLIMIT_NOFILE", _MOST_FILES)
    # RLIMIT_DATA counts the memory that only this process can write, with the stacks of threads, and not the code of
    # libraries, which RLIMIT_AS counts as well: PDFium, lxml and NumPy map hundreds of MB of it. The second is the
    # bound for shared memory, which the first does not count, and for systems that don't enforce the first.
    _limit("RLIMIT_DATA", memory_bytes)
    _limit("RLIMIT_AS", memory_bytes + _LIBRARIES)
    _limit("RLIMIT_NPROC", 0)
    with suppress(OSError):
        _counts.append(os.open("/proc/self/statm", os.O_RDONLY))  # it cannot be opened afterwards
    kernel_rules.restrict()
    sys.addaudithook(_guard)


def limit_cpu(seconds: float) -> None:
    """Let the kernel end this process after some more CPU seconds, if the process that watches it does not."""
    _limit("RLIMIT_CPU", ceil(time.process_time() + seconds) + _OTHER_THREADS_S, hard=False)


def data_bytes() -> int:
    """Return the memory that counts towards the limit; 0 if this system does not report it."""
    try:
        return int(os.pread(_counts[0], 200, 0).split()[5]) * mmap.PAGESIZE
    except (OSError, ValueError, IndexError):
        return 0


def memory_used() -> tuple[int, int]:
    """Return the peak memory of this process, in the unit of the kernel, and the number of its page faults."""
    try:
        import resource
    except ImportError:
        return 0, 0
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_maxrss, used.ru_minflt


def _limit(name: str, value: int, *, hard: bool = True) -> None:
    """Set a limit, never above the one that is set; a system without it is skipped."""
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        number = getattr(resource, name)
        highest = resource.getrlimit(number)[1]
        bounded = value if highest == resource.RLIM_INFINITY else min(value, highest)
        resource.setrlimit(number, (bounded, bounded if hard else highest))


def _reset_signals() -> None:
    """Reset the signal handlers that the parent has set; ignore the signals of its terminal."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals():
        with suppress(OSError, ValueError, TypeError):
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
    ignore_terminal()
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)


def _end_after(parent: int) -> None:
    """End this process soon after its parent, on systems that cannot do that by themselves."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def _guard(event: str, arguments: Sequence[Any]) -> None:
    """Reject network, programs and changes of files in Python code.

    This is a guard against mistakes and against libraries that want to be helpful (a download, a cache, a log), and all
    there is on systems without `kernel_rules`; native code that was taken over by a document does not ask it.
    """
    if event == "open":
        flags = arguments[2] if len(arguments) > 2 else 0
        if isinstance(flags, int) and flags & _WRITES and not isinstance(arguments[0], int):
            raise PermissionError("a process that parses documents does not write files")
    elif event.startswith(_DENIED):
        raise PermissionError(f"a process that parses documents may not do this: {event}")
