"""A process that parses or draws documents one by one: `python -m retrieve_cli.sources.formats.processes.child`."""

from __future__ import annotations

import gc
import hashlib
import json
import mmap
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module

import msgspec

from retrieve_cli.errors import BadDocument, NotADocument, RetrieveError, shortened
from retrieve_cli.sources.formats.formats import ungzipped
from retrieve_cli.sources.formats.processes import confinement, messages
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.frames import Requests

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
    confinement.confine(parent, memory_bytes)
    requests = Requests()
    gc.set_threshold(_YOUNG)
    modules: set[str] = set()
    marks = mmap.mmap(state, messages.STATE_SIZE)
    for count in range(1, _MOST_FILES + 1):
        asked = _request(requests)
        messages.MEMORY.pack_into(marks, messages.STATE.size, *confinement.memory_used())
        messages.STATE.pack_into(marks, 0, asked.number, 0)
        form, content = _answer(asked, requests, partial(messages.STATE.pack_into, marks, 0, asked.number))
        gc.collect()
        if asked.module not in modules:
            modules.add(asked.module)
            gc.freeze()  # a module stays: the next search for cycles is in what the next document leaves
        last = form == messages.OUT_OF_MEMORY or count == _MOST_FILES
        last = last or confinement.data_bytes() > _WORN * memory_bytes
        requests.answer(msgspec.json.encode(messages.AnswerHead(form, asked.number, last)), content)
        if last:
            break
    os._exit(0)


def _request(requests: Requests) -> messages.ReceivedRequest:
    """Return the next request; end the process if the parent closed the pipe."""
    requests.wait(messages.IDLE_S)
    return msgspec.json.decode(requests.head(messages.LONGEST_REQUEST)[0], type=messages.ReceivedRequest)


def _answer(request: messages.ReceivedRequest, requests: Requests, on_page: Callable[[int], None]) -> tuple[str, bytes]:
    """Parse or draw a document; return the form of the answer and its content."""
    try:
        confinement.limit_cpu(request.limits.cpu_s)
        content = _content(request, requests, on_page)
    except RetrieveError as error:
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
    """Return the document, packed, or its picture; answer with the rows of a table, and return nothing.

    Raises:
        BadDocument: it cannot be read, or is not the file that was asked for.
        UsageError: a table has too many rows.
    """
    content = requests.read(request.size)
    extra = {} if request.sidecar is None else {"sidecar": requests.read(request.sidecar)}
    if hashlib.sha1(content, usedforsecurity=False).hexdigest() != request.sha1:
        raise BadDocument("it changed while it was read", hint="sync again")
    content = ungzipped(content, request.name, request.limits, most=request.limits.max_bytes)
    module = import_module(request.module)
    if request.table is not None:
        head = msgspec.json.encode(messages.AnswerHead(messages.ROWS, request.number, last=False))
        for lines in module.parts(content, *request.table, max_cells=request.limits.max_cells):
            requests.answer(head, lines)
        return b""
    if request.drawing is not None:
        drawn: bytes = module.render(content, request.drawing.pages, marks=request.drawing.marks, on_page=on_page)
        return drawn
    parsed = module.parse(content, name=request.name, limits=request.limits, on_page=on_page, **extra)
    return messages.packed(parsed)


if __name__ == "__main__":
    main()
