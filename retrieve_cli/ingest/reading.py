"""Progress of reading a source: records of a catalog, files of a folder."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial

from retrieve_cli.contracts import Countable, Source
from retrieve_cli.errors import RetrieveError, shortened
from retrieve_cli.progress.tasks import Task, task


def reading(source: Source, what: str = "reading") -> AbstractContextManager[Task]:
    """Begin the task of reading a source, counted in items."""
    unit = "records" if source.kind == "catalog" else "files"
    return task(f"{what} {shortened(source.name, 40)}", unit, partial(_count, source))


def _count(source: Source) -> int | None:
    """The number of items, if the source says it; what cannot be read is for the reader to report."""
    try:
        return source.count() if isinstance(source, Countable) else None
    except (OSError, RetrieveError):
        return None
