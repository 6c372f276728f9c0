"""What a file or folder that the user hands in says about itself, as tokens for the query."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from retrieve_cli.errors import printable
from retrieve_cli.queries.formats.complaints import overheard
from retrieve_cli.queries.formats.header import Header
from retrieve_cli.queries.formats.image_folder import look_into_folder
from retrieve_cli.queries.formats.look import look


@dataclass(frozen=True, slots=True)
class FileTokens:
    """What a file says of its kind, and what is wrong with it."""

    tokens: tuple[str, ...] = ()
    """Format, modality, dimensionality and anatomy, in this order, as far as they are known: `format:CT`."""
    warnings: tuple[str, ...] = ()
    """Sentences for the user, each with the name of the file."""
    remarks: tuple[str, ...] = ()
    """The same of what was concluded from a file with which nothing is wrong."""


def read_file(path: Path) -> FileTokens:
    """The tokens of a file, or of a folder that is one thing; only headers are read, and no file is an error."""
    with overheard() as heard:
        header = look_into_folder(path) if _is_folder(path) else look(path)
    complaints = header.complaints
    if heard and not complaints:
        complaints = ("has a header that is not quite as it should be",)
    shown = printable(str(path).encode("utf-8", "replace").decode())
    warnings = tuple(f"{shown} {complaint}" for complaint in complaints)
    return FileTokens(_tokens(header), warnings, tuple(f"{shown} {remark}" for remark in _remarks(header)))


def _tokens(header: Header) -> tuple[str, ...]:
    formats = (header.format, header.modality, header.likely)
    tokens = [f"format:{value}" for value in formats if value]
    return (*tokens, f"anatomy:{header.anatomy}") if header.anatomy else tuple(tokens)


def _remarks(header: Header) -> tuple[str, ...]:
    if not header.lone_slice:
        return ()
    said = f"is one slice ({header.dimensionality}) of a {header.modality} series, which is likely a volume"
    return (f"{said}: the query has format:{header.likely}",)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # what is wrong with it shows when it is opened
        return False
