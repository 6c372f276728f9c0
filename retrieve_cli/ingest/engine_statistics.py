"""Statistics of the scores of indexes in engines, written when these are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any

from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage import durable, engine_record, pickles
from retrieve_cli.storage.engine_record import STATISTICS
from retrieve_cli.storage.exported import Exported

if TYPE_CHECKING:
    from retrieve_cli.storage.generation import Generation


def write(generation: Generation, parts: Sequence[Exported]) -> None:
    """Write the statistics of the scores of all parts into the folder of a generation, unless they are there."""
    path = generation.folder / STATISTICS
    with suppress(IndexCorrupt):  # what is missing or damaged is written again
        stored = pickles.load(path)
        if isinstance(stored, dict) and all(exported.part.name in stored for exported in parts):
            return
    found = {exported.part.name: _statistics(exported, generation) for exported in parts}
    _settle(path, partial(pickles.dump, found))


def copy(source: Path, target: Path) -> None:
    """Copy the statistics of a generation from one folder to another. Raises: OSError."""
    _settle(target / STATISTICS, partial(copyfile, source / STATISTICS))


def _settle(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file in one step that survives a crash. Raises: OSError."""
    unfinished = durable.unfinished(path)
    write(unfinished)
    durable.sync(unfinished)
    unfinished.replace(path)


def _statistics(exported: Exported, generation: Generation) -> Mapping[str, Any]:
    """Return the statistics of the scores of a part in their stored form."""
    from retrieve_cli.storage.term_statistics import posting_statistics
    from retrieve_cli.storage.vector_statistics import vector_statistics

    starts = generation.starts if exported.part.unit == "chunk" else None
    part = exported.part
    if exported.postings is not None:
        signed = int(bool((exported.postings.values <= 0).any()))
        return {**posting_statistics(exported.postings, starts=starts).to_arrays(), engine_record.SIGNED: signed}
    vectors = exported.vectors() if exported.vectors else ()
    return vector_statistics(vectors, dim=part.dim or 0, length=part.rows, starts=starts).to_arrays()
