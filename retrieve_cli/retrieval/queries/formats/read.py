"""Facts from the header of a file or folder, as tokens for the query."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from retrieve_cli.errors import printable
from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.queries.formats.header import Header
from retrieve_cli.retrieval.queries.formats.image_folder import look_into_folder
from retrieve_cli.retrieval.queries.formats.look import look, look_at_head


class FileTokens(Frozen):
    """Facts about the kind of a file, and its problems."""

    tokens: tuple[str, ...] = ()
    """Format, modality, dimensionality and anatomy, in this order, without unknown ones: `format:CT`."""
    warnings: tuple[str, ...] = ()
    """Sentences for the user, each with the name of the file."""
    remarks: tuple[str, ...] = ()
    """Sentences about conclusions from a sound file."""


def read_file(path: Path) -> FileTokens:
    """Return the tokens of a file, or of a folder that is one thing; only headers are read; no content is an error."""
    with overheard() as heard:
        header = look_into_folder(path) if _is_folder(path) else look(path)
    return _found(header, heard, str(path))


def read_head(name: str, data: bytes) -> FileTokens:
    """Return the tokens of a file by its name and its first bytes; no content is an error."""
    with overheard() as heard:
        header = look_at_head(name, data)
    return _found(header, heard, name)


def _found(header: Header, heard: Sequence[str], name: str) -> FileTokens:
    complaints = header.complaints
    if heard and not complaints:
        complaints = ("has a header with minor errors",)
    shown = printable(name.encode("utf-8", "replace").decode())
    warnings = tuple(f"{shown} {complaint}" for complaint in complaints)
    return FileTokens(_tokens(header), warnings, tuple(f"{shown} {remark}" for remark in _remarks(header)))


def _tokens(header: Header) -> tuple[str, ...]:
    formats = (header.format, header.modality, header.likely)
    tokens = [f"format:{value}" for value in formats if value]
    return (*tokens, f"anatomy:{header.anatomy}") if header.anatomy else tuple(tokens)


def _remarks(header: Header) -> tuple[str, ...]:
    if not header.lone_slice:
        return ()
    remark = f"is one slice ({header.dimensionality}) of a {header.modality} series, which is likely a volume"
    return (f"{remark}: searching for {header.likely}",)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # opening it shows the problem
        return False


LOGGERS = ("pydicom", "tifffile", "nibabel.global", "PIL.Image")


@contextmanager
def overheard() -> Iterator[list[str]]:
    """Silence imaging libraries; afterwards the list has an entry for each of their warnings.

    The text of a warning is dropped: it may quote the header, and so the name of a person.
    """
    heard: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            heard.append(record.name)
        return False

    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addFilter(keep)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield heard
    finally:
        for logger in loggers:
            logger.removeFilter(keep)
    # Warnings about a library's own code do not concern the file.
    heard += [one.category.__name__ for one in caught if issubclass(one.category, (UserWarning, RuntimeWarning))]
