"""A process that reads documents one by one: `python -m retrieve_cli.sources.formats.processes.child`.

It confines itself before it sees the first one. The kernel limits its memory, CPU time, open files and threads, lets
it write no byte to a file, ends it with its parent, and takes its network away if it can. The guard in Python is for
libraries that want to be helpful (a download, a cache): native code that a document has taken over does not ask it.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from math import ceil
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from retrieve_cli.errors import BadDocument, NotADocument, RetrieveError, shortened
from retrieve_cli.sources.formats.formats import MB, ungzipped
from retrieve_cli.sources.formats.processes import messages
from retrieve_cli.sources.formats.processes.messages import ParseRequest

_MOST_DOCUMENTS, _WORN = 1000, 0.25
"""Documents after which the process ends, as libraries leak; share of the memory limit that it may hold afterwards."""
_LIBRARIES = 2 << 30
"""Address space for the code of libraries and for memory that they reserve and do not use."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_DENIED = ("os.", "pty.", "resource.prlimit", "shutil.", "socket.", "subprocess.", "tempfile.")
"""Beginnings of the names of audit events (PEP 578) that raise an error; a few that read folders pass."""
_GRANTED = ("os.listdir", "os.putenv", "os.scandir", "os.unsetenv", "os.walk")


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    descriptor, parent, memory_bytes = map(int, sys.argv[1:])
    pipe = Connection(descriptor)
    confine(parent, memory_bytes)
    gc.set_threshold(50_000)  # parsing makes few cycles, and keeps many objects to its end
    with suppress(EOFError, OSError):
        for _ in range(_MOST_DOCUMENTS):
            request, contents = pipe.recv()
            answer = _answer(request, contents, pipe)
            pipe.send_bytes(answer)
            form = answer[:1]
            del request, contents, answer
            gc.collect()
            if form == messages.OUT_OF_MEMORY or _data_bytes() > _WORN * memory_bytes:
                break
    os._exit(0)


def confine(parent: int, memory_bytes: int) -> None:
    """Confine this process; end it if its parent has ended."""
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    if sys.platform == "linux":
        leave_network()
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(0)
    # RLIMIT_DATA counts memory that can be written; RLIMIT_AS also the code of libraries, which map hundreds of MB.
    limits = {"DATA": memory_bytes, "AS": memory_bytes + _LIBRARIES, "FSIZE": 0, "CORE": 0, "NOFILE": 256, "NPROC": 0}
    for name, value in limits.items():
        _limit(f"RLIMIT_{name}", value, hard=True)
    sys.addaudithook(_guard)


def leave_network() -> bool:
    """Move this process into an empty network, without any rights there; return False if the kernel does not grant it.

    A user namespace is needed for that, except by root, who would lose the right to read the files of others.
    """
    library, is_root = ctypes.CDLL(None), os.geteuid() == 0
    library.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    left: bool = library.unshare(0x40000000 | (0 if is_root else 0x10000000)) == 0  # CLONE_NEWNET, CLONE_NEWUSER
    if not is_root:
        library.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
    return left


def _limit(name: str, value: int, *, hard: bool) -> None:
    """Set a limit, never above the one that is set, if this system has it."""
    with suppress(AttributeError, OSError, ValueError):
        number = getattr(resource, name)
        highest = resource.getrlimit(number)[1]
        bounded = value if highest == resource.RLIM_INFINITY else min(value, highest)
        resource.setrlimit(number, (bounded, bounded if hard else highest))


def _guard(event: str, arguments: Sequence[Any]) -> None:
    """Reject network, programs and changes of files."""
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES
    if (writes and not isinstance(arguments[0], int)) or (event.startswith(_DENIED) and event not in _GRANTED):
        raise PermissionError(f"a process that reads documents may not do this: {event}")


def _data_bytes() -> int:
    """Return the memory that counts towards the limit; 0 if this system does not report it."""
    with suppress(OSError), open("/proc/self/statm", "rb") as file:  # noqa: PTH123
        return int(file.read().split()[5]) * resource.getpagesize()
    return 0


def _answer(request: ParseRequest, contents: list[bytes], pipe: Connection) -> bytes:
    """Read a document; return the answer."""
    message, hint, foreign = "", "", False
    try:
        pipe.send_bytes(messages.BEGUN)
        _limit("RLIMIT_CPU", ceil(time.process_time() + request.limits.cpu_s), hard=False)
        content = _content(request, contents, pipe)
        if len(content) < messages.LONGEST:
            return messages.DONE + content
        message = f"its text has {len(content) / MB:,.0f} MB with the places of its words; the limit is 256 MB"
    except RetrieveError as error:
        message, hint, foreign = error.message, error.hint, isinstance(error, NotADocument)
    except MemoryError:
        return messages.OUT_OF_MEMORY
    except RecursionError:
        message = "it is nested too deeply"
    except Exception as error:  # noqa: BLE001  a parser may fail in any way on a file from outside
        reason = f"{type(error).__name__}: {shortened(str(error), 300)}"
        message = f"it cannot be processed ({reason}); please report it"
    texts = [text.encode("utf-8", "replace").decode() for text in (message, hint)]
    return messages.REJECTED + msgspec.json.encode((*texts, foreign))


def _content(request: ParseRequest, contents: list[bytes], pipe: Connection) -> bytes:
    """Return a document, packed, or its picture; send the rows of a table, and return nothing."""
    if hashlib.sha1(contents[0], usedforsecurity=False).digest() != request.sha1:
        raise BadDocument("it changed while it was read", hint="sync again")
    limits, module = request.limits, import_module(request.module)
    content = ungzipped(contents[0], request.name, limits, most=limits.max_bytes)
    if request.table is not None:
        for rows in module.parts(content, *request.table, max_cells=limits.max_cells):
            pipe.send_bytes(messages.ROWS + rows)
        return b""
    named = {"on_page": lambda number: pipe.send_bytes(messages.PAGE + number.to_bytes(8, "little"))}
    if request.pages is not None:
        return bytes(module.render(content, request.pages, marks=request.marks, **named))
    sidecar = {"sidecar": contents[1]} if contents[1:] else {}
    return messages.packed(module.parse(content, name=request.name, limits=limits, **named, **sidecar))


if __name__ == "__main__":
    main()
