"""Reader of documents, from the settings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Card
from retrieve_cli.version import FOLDER

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import DocumentFile, DocumentReader
    from retrieve_cli.contracts.layout import Mark
    from retrieve_cli.sources.formats.formats import ParsingLimits

_sharing = Lock()


def limits_of(settings: Settings) -> ParsingLimits:
    """Return the configured limits of documents and tables."""
    from retrieve_cli.sources.formats.formats import MB, ParsingLimits

    parsing = settings.parsing
    sizes = int(parsing.max_mb * MB), int(parsing.memory_mb * MB)
    cells = settings.catalog.max_cells
    return ParsingLimits(max_bytes=sizes[0], memory_bytes=sizes[1], cpu_s=parsing.cpu_s, max_cells=cells)


def reader_of(settings: Settings) -> DocumentReader:
    """Return a reader of documents with the configured limits."""
    return _reader(limits_of(settings), settings.docs.max_mb, settings.parsing.workers)


@cache
def has_networkless_parsers() -> bool:
    """Return True if this kernel gives the processes that parse documents an empty network."""
    from retrieve_cli.sources.formats.processes import child

    code = f"from {child.__name__} import leave_network; raise SystemExit(not leave_network())"
    environment = {**os.environ, "PYTHONPATH": str(Path(FOLDER).parent)}
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, env=environment, check=False, stderr=subprocess.DEVNULL).returncode == 0  # noqa: S603


def shared_reader(settings: Settings) -> DocumentReader:
    """Return the reader, with its processes, of all queries and pictures under the same limits in this process."""
    with _sharing:  # threads that ask for the first time at the same time get the same one
        return _shared(limits_of(settings), settings.docs.max_mb, settings.parsing.workers)


def _reader(limits: ParsingLimits, max_mb: float, workers: int | None) -> DocumentReader:
    from retrieve_cli.sources.formats.formats import MB
    from retrieve_cli.sources.formats.reader import SandboxedReader

    return SandboxedReader(limits, text_bytes=int(max_mb * MB), workers=workers)


_shared = lru_cache(maxsize=4)(_reader)


def suffixes() -> Sequence[str]:
    """Return the suffixes of the names of documents in any format."""
    from retrieve_cli.sources.formats import formats

    return formats.suffixes()


def cards_of(kinds: Collection[str]) -> Mapping[str, Card] | None:
    """Return the parser of each format among the kinds of records; None if none of them is a format."""
    from retrieve_cli.sources.formats import formats

    names = (name for name in kinds if name in formats.FORMATS)
    cards = {name: formats.card(name, main_content=True) for name in names}
    return {name: card for name, card in sorted(cards.items()) if card} or None


DRAWN = "pdf"
"""Format of documents whose pages can be drawn."""


def draw(file: DocumentFile, pages: Sequence[int], *, settings: Settings, marks: Sequence[Mark] = ()) -> bytes:
    """Return a PNG of pages of a PDF, numbered from 1, side by side, with marks.

    Raises:
        BadDocument: it is not a readable PDF, lacks a page, or its content has changed.
        Unavailable: a package is missing.
    """
    return shared_reader(settings).draw(file, DRAWN, pages=pages, marks=marks)
