"""Recognition of one file, which the reader of its format then reads."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from retrieve_cli.queries.formats.content import GZIP, LIMIT, Content, Exhausted, content_of, decompressed, opened
from retrieve_cli.queries.formats.dicom import read_dicom
from retrieve_cli.queries.formats.header import Header, Unreadable
from retrieve_cli.queries.formats.metaimage import read_metaimage
from retrieve_cli.queries.formats.mgh import read_mgh
from retrieve_cli.queries.formats.nifti import read_nifti
from retrieve_cli.queries.formats.nrrd import read_nrrd
from retrieve_cli.queries.formats.picture import read_picture
from retrieve_cli.queries.formats.recognize import named_as, recognized
from retrieve_cli.queries.formats.tiff import read_tiff

Reader = Callable[[Content, str], Header]
"""Bytes and their supposed format to facts from the header; it may raise anything."""
READERS: Mapping[str, Reader] = {
    "DICOM": read_dicom,
    "NIfTI": read_nifti,
    "NRRD": read_nrrd,
    "MHA": read_metaimage,
    "MGZ": read_mgh,
    **dict.fromkeys(("TIFF", "OME-TIFF", "SVS", "NDPI", "LSM"), read_tiff),
    **dict.fromkeys(("PNG", "JPEG", "GIF", "BMP"), read_picture),
}
INSTALL = "pip install 'retrieve-cli[imaging]'"


def look(path: Path, allowance: int = LIMIT) -> Header:
    """Return the facts from the header of a file; its problems are among them, and never an error."""
    try:
        with opened(path, allowance) as content:
            return _look_into(content, path.name)
    except Unreadable as error:
        return Header(complaints=(str(error),))
    except FileNotFoundError:
        return Header(complaints=("does not exist",))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no file can have this name"
        return Header(complaints=(f"cannot be read: {reason}",))


def look_at_head(name: str, data: bytes) -> Header:
    """Return the facts from the first bytes of a file; its problems are among them, and never an error."""
    try:
        if not data:
            raise Unreadable("is empty")
        return _look_into(content_of(io.BytesIO(data), len(data), LIMIT, complete=False), name)
    except Unreadable as error:
        return Header(complaints=(str(error),))


def _look_into(content: Content, name: str) -> Header:
    """Read a file by its format. Raises: Unreadable: the format is not known."""
    packed = content.head.startswith(GZIP)
    zipped = name.lower().endswith(".gz")
    if packed:
        content = decompressed(content)
    inner = name[:-3] if zipped else name
    try:
        kind, wrong = recognized(inner, content.head)
    except Unreadable:
        if packed and not named_as(inner):
            return Header("GZIP")
        raise
    if zipped and not packed:
        wrong += ("is named as compressed but is not",)
    header = _read(content, kind.name)
    return replace(header, complaints=(*wrong, *header.complaints))


def _read(content: Content, kind: str) -> Header:
    if kind not in READERS:
        return Header(kind)
    try:
        return READERS[kind](content, kind)
    except Unreadable:
        raise
    except ImportError:
        return Header(kind, complaints=(f"is recognized by its first bytes only: {INSTALL}",))
    except Exhausted:
        return Header(kind, complaints=("has a header longer than the first megabyte",))
    except Exception as error:  # a malformed header may make a library raise anything
        raise Unreadable(f"starts as {kind}, but its header cannot be read ({type(error).__name__})") from error
