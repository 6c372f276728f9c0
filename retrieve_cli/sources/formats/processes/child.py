"""A process that parses or draws documents one by one: `python -m retrieve_cli.sources.formats.processes.child`.

Limits of a process that parses documents, set by itself before it sees the first one.
"""

from __future__ import annotations

import gc
import hashlib
import json
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from math import ceil
from typing import Any

from retrieve_cli.errors import BadDocument, NotADocument, shortened
from retrieve_cli.sources.formats.formats import ungzipped
from retrieve_cli.sources.formats.processes import kernel_rules, messages
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.frames import Requests, ignore_terminal

_MOST_FILES = 1000
"""Files after which the process is replaced: libraries leak."""
_YOUNG = 50_000
"""New objects after which Python looks for cycles: parsing makes few of them, and keeps many objects to the end."""
_WORN = 0.25
"""Share of the memory limit which the process may hold between two files; above it, it is replaced."""
_REASON = 300
"""Characters of an unexpected error that are reported."""


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    parent, state, memory_bytes = map(int, sys.argv[1:4])
    confine(parent, memory_bytes)
    requests = Requests()
    gc.set_threshold(_YOUNG)
    modules: set[str] = set()
    marks = mmap.mmap(state, messages.STATE_SIZE)
    for count in range(1, _MOST_FILES + 1):
        asked = _request(requests)
        messages.MEMORY.pack_into(marks, messages.STATE.size, *memory_used())
        messages.STATE.pack_into(marks, 0, asked.number, 0)
        form, content = _answer(asked, requests, partial(messages.STATE.pack_into, marks, 0, asked.number))
        gc.collect()
        if asked.module not in modules:
            modules.add(asked.module)
            gc.freeze()  # a module stays: the next search for cycles is in what the next document leaves
        last = form == messages.OUT_OF_MEMORY or count == _MOST_FILES
        last = last or data_bytes() > _WORN * memory_bytes
        head = {"form": form, "number": asked.number, "last": last}
        requests.answer(json.dumps(head).encode(), content)
        if last:
            break
    os._exit(0)


def _request(requests: Requests) -> messages.ReceivedRequest:
    """Return the next request; end the process if the parent closed the pipe."""
    requests.wait(messages.IDLE_S)
    return messages.asked_of(json.loads(requests.head(messages.LONGEST_REQUEST)[0]))


def _answer(request: messages.ReceivedRequest, requests: Requests, on_page: Callable[[int], None]) -> tuple[str, bytes]:
    """Parse or draw a document; return the form of the answer and its content."""
    try:
        limit_cpu(request.limits.cpu_s)
        content = _content(request, requests, on_page)
    except BadDocument as error:
        return _rejected(error.message, error.hint, foreign=isinstance(error, NotADocument))
    except OSError as error:
        return _rejected(f"it cannot be read: {error.strerror or error}")
    except MemoryError:
        return messages.OUT_OF_MEMORY, b""
    except RecursionError:
        return _rejected("it is nested too deeply")
    except Exception as error:  # noqa: BLE001  a parser may fail on any file from outside
        said = f"{type(error).__name__}: {shortened(str(error), _REASON)}"
        return _rejected(f"it cannot be processed ({said}); please report it")
    if len(content) > request.longest:
        what = "its picture has" if request.drawing else "its text and the places of its words have"
        size, limit = (part / files.MB for part in (len(content), request.longest))
        return _rejected(f"{what} {size:,.0f} MB; the limit is {limit:,.0f} MB")
    return (messages.DOCUMENT if request.drawing is None else messages.PICTURE), content


def _rejected(message: str, hint: str = "", *, foreign: bool = False) -> tuple[str, bytes]:
    return messages.REJECTED, json.dumps([message, hint, foreign]).encode()


def _content(request: messages.ReceivedRequest, requests: Requests, on_page: Callable[[int], None]) -> bytes:
    """Return the document, packed, or its picture.

    Raises:
        BadDocument: it cannot be read, or is not the file that was asked for.
    """
    content = requests.read(request.size)
    extra = {} if request.sidecar is None else {"sidecar": requests.read(request.sidecar)}
    if hashlib.sha1(content, usedforsecurity=False).hexdigest() != request.sha1:
        raise BadDocument("it changed while it was read", hint="sync again")
    content = ungzipped(content, request.name, request.limits, most=request.limits.max_bytes)
    module = import_module(request.module)
    if request.drawing is not None:
        drawn: bytes = module.render(content, request.drawing.pages, marks=request.drawing.marks, on_page=on_page)
        return drawn
    parsed = module.parse(content, name=request.name, limits=request.limits, on_page=on_page, **extra)
    return messages.packed(parsed)


if __name__ == "__main__":
    main()


_OWN_FILES = 4096
"""Most bytes of a file that the process writes: it writes none but its state, which is a few bytes."""
_MOST_OPEN_FILES = 256
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
    _limit("RLIMIT_NOFILE", _MOST_OPEN_FILES)
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
