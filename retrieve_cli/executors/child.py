"""A process that encodes units of texts: `python -m retrieve_cli.executors.child`. It ends with its coordinator."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING

from retrieve_cli.errors import RetrieveError, shortened
from retrieve_cli.executors import messages
from retrieve_cli.processes.frames import Requests, ignore_terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrieve_cli.contracts import Json
    from retrieve_cli.contracts.executors import Encoded
    from retrieve_cli.executors.encoding import Encoders

_REASON = 300
"""Characters of an unexpected error that are reported."""


def main() -> None:
    """Answer requests until there are none."""
    requests = Requests()
    ignore_terminal()
    units: SimpleQueue[Json] = SimpleQueue()
    Thread(target=_receive, args=(requests, units), daemon=True).start()
    lock = Lock()

    def send(head: Json, arrays: messages.Arrays | None = None) -> None:
        with lock:
            requests.answer(*messages.packed(head, arrays))

    encoders = _begin(units.get()["hello"], send)
    while True:
        _encode(encoders, messages.work_of(units.get()), send)


def _receive(requests: Requests, units: SimpleQueue[Json]) -> None:
    """Pass requests on. Their end is that of this process, whatever it is at."""
    try:
        while True:
            units.put(requests.head(messages.MOST_HEAD)[0])
    finally:
        os._exit(0)


def _begin(hello: Json, send: Callable[..., None]) -> Encoders:
    """Make the encoders and answer with what they make of the probes; end the process if they cannot be made."""
    sys.path[:0] = [folder for folder in hello["paths"] if folder not in sys.path]
    module, _, name = hello["factory"].partition(":")
    try:
        with _cores(hello["threads"]):
            encoders: Encoders = getattr(import_module(module), name)(hello["settings"])
        send(*encoders.ready(hello["probes"]))
    except RetrieveError as error:
        send({"failed": error.message, "hint": error.hint})
        os._exit(1)
    return encoders


class _cores:  # noqa: N801  a context
    """Lets encoders that are made in this context believe that there are so many cores: they start one thread for
    each. The process itself is not bound to any: the kernel moves it off a core that has other work."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __enter__(self) -> None:
        if hasattr(os, "sched_setaffinity"):
            self._all = os.sched_getaffinity(0)
            with suppress(OSError):
                os.sched_setaffinity(0, set(sorted(self._all)[: self._count]))

    def __exit__(self, *_: object) -> None:
        if hasattr(os, "sched_setaffinity"):
            with suppress(OSError):
                os.sched_setaffinity(0, self._all)


def _encode(encoders: Encoders, work: messages.Work, send: Callable[..., None]) -> None:
    """Encode a unit, and send results as they come."""
    before = encoders.truncated

    def done(places: Sequence[int], results: Sequence[Encoded]) -> None:
        head, arrays = messages.results_frame(results)
        send({"unit": work.unit, "places": list(places), **head}, arrays)

    reason = ""
    try:
        encoders.encode(work.texts, work.wanted, done)
    except RetrieveError as error:
        reason = error.message
    except MemoryError:
        os._exit(1)  # a fresh process has more
    except Exception as error:  # noqa: BLE001  a model may fail on any text from outside
        reason = f"{type(error).__name__}: {shortened(str(error), _REASON)}"
    send({"unit": work.unit, "end": reason, "truncated": encoders.truncated - before})


if __name__ == "__main__":
    main()
