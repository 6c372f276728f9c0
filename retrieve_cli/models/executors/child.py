"""A process that encodes texts and ends with its coordinator: `python -m retrieve_cli.models.executors.child`."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from retrieve_cli.errors import RetrieveError, shortened
from retrieve_cli.models.executors.workers import Hello, NotEncoded, Unfit, UnitResults, WorkUnit
from retrieve_cli.untrusted.frames import Requests, ignore_terminal

if TYPE_CHECKING:
    from retrieve_cli.models.executors.encoding import Encoders

Send: TypeAlias = Callable[[object], None]
_REASON = 300
"""Characters of an unexpected error that are reported."""


def main() -> None:
    """Answer requests until the coordinator closes the pipe."""
    requests = Requests()
    ignore_terminal()
    units: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_receive, args=(requests, units), daemon=True).start()
    lock = Lock()

    def send(answer: object) -> None:
        with lock:
            requests.answer(b"", pickle.dumps(answer))

    encoders = _begin(units.get(), send)
    while True:
        _encode(encoders, units.get(), send)


def _receive(requests: Requests, units: SimpleQueue[Any]) -> None:
    """Pass requests on. When they end, the process exits at once."""
    try:
        while True:
            units.put(pickle.loads(requests.read(requests.head(0)[1])))  # noqa: S301  from the coordinator
    finally:
        os._exit(0)


def _begin(hello: Hello, send: Send) -> Encoders:
    """Make the encoders and answer with the encoded probes; end the process if the encoders cannot be made."""
    sys.path[:0] = [folder for folder in hello.paths if folder not in sys.path]
    module, _, name = hello.factory.partition(":")
    try:
        with _cores(hello.threads):
            encoders: Encoders = getattr(import_module(module), name)(hello.settings)
        send(encoders.answer(hello.probes))
    except RetrieveError as error:
        send(Unfit(f"{error.message} ({error.hint})" if error.hint else error.message))
        os._exit(1)
    return encoders


@contextmanager
def _cores(count: int) -> Iterator[None]:
    """Let encoders that are made in this context believe that there are so many cores: they start one thread for
    each. The process itself is not bound to any: the kernel moves it off a core that has other work."""
    bound = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
    try:
        if bound:
            with suppress(OSError):
                os.sched_setaffinity(0, set(sorted(bound)[:count]))
        yield
    finally:
        if bound:
            with suppress(OSError):
                os.sched_setaffinity(0, bound)


def _encode(encoders: Encoders, work: WorkUnit, send: Send) -> None:
    """Send that the unit has begun, its results as they come, and None or the reason at its end."""
    before = encoders.truncated
    send((work.unit, UnitResults((), ())))
    end: NotEncoded | None = None
    try:
        encoders.encode(work.texts, work.wanted, lambda *results: send((work.unit, UnitResults(*results))))
    except RetrieveError as error:
        end = NotEncoded(error.message)
    except MemoryError:
        os._exit(1)  # a fresh process has more
    except Exception as error:  # noqa: BLE001  a model may fail on any text from outside
        end = NotEncoded(f"{type(error).__name__}: {shortened(str(error), _REASON)}")
    send((work.unit, UnitResults((), (), encoders.truncated - before)))
    send((work.unit, end))


if __name__ == "__main__":
    main()
