"""The one line of JSON that `retrieve sync --json` prints, also if it fails.

It goes to stdout with the failure inside. An error is one object on stderr as well, as everywhere, unless stderr goes
where stdout goes (`retrieve sync --json >> sync.log 2>&1`): a log has one line of each sync.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer

from retrieve_cli.cli.failures import Failure, failure_of
from retrieve_cli.cli.options import Shared, Talk
from retrieve_cli.errors import RetrieveError
from retrieve_cli.storage.lock import now

if TYPE_CHECKING:
    from retrieve_cli.contracts import Json
    from retrieve_cli.ingest.report import Report


class SyncLine:
    """Prints one line: JSON for programs, a sentence for people."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.printed = False
        self._begun = time.monotonic()

    def report(self, report: Report, *, verb: str = "", more: Mapping[str, Json] | None = None) -> None:
        """Print the outcome of a build or sync; `more` are further keys of the JSON."""
        self.write({"time": now(), **report.to_json(), **(more or {})}, [report.sentence(verb)])

    def write(self, value: Mapping[str, Json], sentences: list[str]) -> None:
        """Print a value, or sentences with the same meaning."""
        self.printed = True  # also if it fails half way, or is interrupted: one line, not two
        self._shared.show(value, sentences)

    def failed(self, failure: Failure, generation: str | None) -> None:
        """Print a failure as a line of JSON; people read it on stderr."""
        if self._shared.format == "json" and not self.printed:
            self.write(_failed(failure, generation, seconds=round(time.monotonic() - self._begun, 3)), [])


@contextmanager
def one_line(shared: Shared) -> Iterator[SyncLine]:
    """Give the line to print to; a failure is printed to it."""
    line = SyncLine(shared)
    try:
        yield line
    except typer.Exit:
        raise
    except BaseException as error:  # noqa: BLE001  whatever happens, the line is printed; the error goes on
        failure = failure_of(error)
        generation = None
        with suppress(RetrieveError):  # a folder that cannot be one of artifacts
            generation = shared.store.live()
        line.failed(failure, generation)
        raise_once(shared, error)


def raise_once(shared: Shared, error: BaseException) -> None:
    """Raise an error that a line of JSON holds already: only its code if stderr goes to the same place.

    Raises:
        BaseException: the error, or typer.Exit with its code.
    """
    failure = failure_of(error)
    if shared.format == "json" and streams_are_one() and not (shared.talk.verbose and failure.kind == "internal"):
        raise typer.Exit(failure.code) from error
    raise error


def failed_before(failure: Failure, talk: Talk) -> int:
    """Print the line of a sync whose command line cannot be parsed; return the exit code."""
    from retrieve_cli.output.formats import document

    print(document(_failed(failure, None)))
    return failure.code if streams_are_one() else talk.error(*failure)


def streams_are_one() -> bool:
    """Return True if stdout and stderr go to the same place: one log, one terminal."""
    try:
        first, second = os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return os.path.samestat(first, second)


def _failed(failure: Failure, generation: str | None, *, seconds: float = 0.0) -> dict[str, Json]:
    from retrieve_cli.ingest.changes import Changes

    counts: dict[str, Json] = {**Changes().counts, "quarantined": 0, "rejected_new": 0, "seconds": seconds}
    return {"time": now(), "status": "failed", "generation": generation, **counts, "error": failure.to_json()}
