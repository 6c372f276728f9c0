"""Facts from the header of a file or folder, as tokens for the query."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

from retrieve_cli.errors import printable
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.retrieval.queries.formats.content import Header, UnreadableHeader, opened
from retrieve_cli.retrieval.queries.formats.dicom import SLICED, VOLUMETRIC
from retrieve_cli.retrieval.queries.formats.look import look, look_at_head
from retrieve_cli.retrieval.queries.formats.table import FOLDERS


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
    complaints = header.complaints or (("has a header with minor errors",) if heard else ())
    shown = printable(name.encode("utf-8", "replace").decode())
    tokens = [f"format:{value}" for value in (header.format, header.modality, header.likely) if value]
    tokens += [f"anatomy:{header.anatomy}"] if header.anatomy else []
    remarks: tuple[str, ...] = ()
    if header.lone_slice:
        remark = f"is one slice ({header.dimensionality}) of a {header.modality} series, which is likely a volume"
        remarks = (f"{shown} {remark}: searching for {header.likely}",)
    return FileTokens(tuple(tokens), tuple(f"{shown} {complaint}" for complaint in complaints), remarks)


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


SAMPLES = 8
"""The most files that are read of a folder."""
SAMPLE_LIMIT = 250_000
"""The most bytes that are read of each."""
ENTRIES = 20_000
"""The most names that are listed of a folder."""
DEPTH = 3
"""Levels of folders that are searched for files: patient, study, series."""


def look_into_folder(folder: Path) -> Header:
    """Return the facts about a folder; its problems are among them, and never an error."""
    try:
        if is_zarr(folder):
            return read_zarr(folder)
        if (folder / "dataset_description.json").is_file():
            return Header("BIDS")
        if must := FOLDERS.get(folder.suffix.lower()):
            return Header(complaints=(f"is named as {must} but is not",))
        return _series(_files(folder))
    except UnreadableHeader as error:
        return Header(complaints=(str(error),))
    except OSError as error:
        return Header(complaints=(f"cannot be read: {error.strerror}",))
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError):
        return Header("Zarr", complaints=("has Zarr metadata that cannot be read",))


def _files(folder: Path) -> list[Path]:
    """Return the files of the folder, or else of its subfolders, by name. Raises: OSError: it cannot be listed."""
    level = [folder]
    for _ in range(DEPTH + 1):
        entries = list(islice((entry for place in level for entry in os.scandir(place)), ENTRIES))
        shown = [entry for entry in entries if not entry.name.startswith(".") and entry.name != "DICOMDIR"]
        if files := [Path(entry.path) for entry in shown if entry.is_file()]:
            return sorted(files)
        level = [Path(entry.path) for entry in shown if entry.is_dir(follow_symlinks=False)]
    return []


def _series(files: Sequence[Path]) -> Header:
    """Return what the files have in common, judged by a few of them spread over all. Raises: UnreadableHeader: there
    are no files, or they have nothing in common."""
    if not files:
        raise UnreadableHeader("is a folder without files")
    last = len(files) - 1
    chosen = sorted({round(at * last / (SAMPLES - 1)) for at in range(SAMPLES)})
    headers = [look(files[at], SAMPLE_LIMIT) for at in chosen]
    recognized = [header for header in headers if header.format]
    # Reports and listings are often beside the slices.
    known = [header for header in recognized if header.format == "DICOM"] or recognized
    formats = {header.format for header in known}
    if not known:
        raise UnreadableHeader("is a folder without files of a known format")
    if len(formats) > 1:
        raise UnreadableHeader(f"is a folder of several formats ({', '.join(sorted(map(str, formats)))})")
    wrong = [header for header in headers if header.complaints]
    complaints = (f"is a folder in which {len(wrong)} of the {len(headers)} files read are damaged",) if wrong else ()
    return _common(known, len(files), complaints)


def _common(headers: Sequence[Header], files: int, complaints: tuple[str, ...]) -> Header:
    modality = _same([header.modality for header in headers])
    anatomy = _same([header.anatomy for header in headers])
    kind = headers[0].format
    if len({header.series for header in headers}) > 1:
        return Header(
            kind, modality, anatomy=anatomy, complaints=(*complaints, "is a folder with more than one series")
        )
    if kind != "DICOM":  # pictures side by side need not be a volume
        return Header(kind, complaints=complaints)
    depth, moments = headers[0].depth, max(header.moments for header in headers)
    if files == 1:
        return replace(headers[0], complaints=complaints)
    # Two localizers are not a volume.
    slices = modality in SLICED and (modality not in VOLUMETRIC or any(header.lone_slice for header in headers))
    depth = files if depth == 1 and slices else depth
    return Header(kind, modality, depth, moments, anatomy=anatomy, complaints=complaints)


def _same(values: Sequence[str | None]) -> str | None:
    return values[0] if len(set(values)) == 1 else None


MARKS = ("zarr.json", ".zarray", ".zgroup")


def is_zarr(folder: Path) -> bool:
    """Return True if a folder is the top of a Zarr hierarchy."""
    return any((folder / mark).is_file() for mark in MARKS)


def read_zarr(folder: Path) -> Header:
    """Read the metadata of the top, and of the first array that it points to.

    Raises:
        OSError, Unreadable: one of its files cannot be read, or is not valid.
    """
    top = _metadata(folder)
    attributes = top.get("attributes", {})
    scales = attributes.get("ome", attributes).get("multiscales")
    if not scales:
        shape = top.get("shape")
        outer = [int(size) for size in (shape or ())[:-2] if int(size) > 1]
        depth = (outer[-1] if outer else 1) if shape else None
        return Header("Zarr", depth=depth, moments=prod(outer[:-1]))
    axes = [str(axis["name"] if isinstance(axis, Mapping) else axis) for axis in scales[0].get("axes", "tczyx")]
    place = PurePosixPath(str(scales[0]["datasets"][0]["path"]))
    if place.is_absolute() or ".." in place.parts:
        raise UnreadableHeader("has Zarr metadata that points outside the folder")
    shape = _metadata(folder / place).get("shape") or ()
    if len(shape) != len(axes):
        return Header("OME-Zarr", complaints=("has Zarr metadata whose axes and shape disagree",))
    sizes = dict(zip(axes, map(int, shape), strict=True))
    return Header("OME-Zarr", depth=max(sizes.get("z", 1), 1), moments=max(sizes.get("t", 1), 1))


def _metadata(folder: Path) -> dict[str, Any]:
    """Return the metadata of a group or an array, with its attributes in the place where Zarr 3 has them."""
    metadata: dict[str, Any] = {}
    for name in MARKS:
        if (folder / name).is_file():
            metadata |= _object(folder / name)
    if (folder / ".zattrs").is_file():
        metadata["attributes"] = _object(folder / ".zattrs")
    return metadata


def _object(path: Path) -> dict[str, Any]:
    with opened(path) as content:
        value = json.loads(content.stream.read())
    if not isinstance(value, dict):
        raise UnreadableHeader("has Zarr metadata that cannot be read")
    return value
