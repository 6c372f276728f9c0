"""Facts from a Zarr folder: the axes of OME-Zarr, or the shape of an array (Zarr 2 and 3)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

from retrieve_cli.queries.formats.content import opened
from retrieve_cli.queries.formats.header import Header, Unreadable

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
        return _of_shape("Zarr", top.get("shape"))
    axes = [str(axis["name"] if isinstance(axis, Mapping) else axis) for axis in scales[0].get("axes", "tczyx")]
    place = PurePosixPath(str(scales[0]["datasets"][0]["path"]))
    if place.is_absolute() or ".." in place.parts:
        raise Unreadable("has Zarr metadata that points outside the folder")
    shape = _metadata(folder / place).get("shape") or ()
    if len(shape) != len(axes):
        return Header("OME-Zarr", complaints=("has Zarr metadata whose axes and shape disagree",))
    sizes = dict(zip(axes, map(int, shape), strict=True))
    return Header("OME-Zarr", depth=max(sizes.get("z", 1), 1), moments=max(sizes.get("t", 1), 1))


def _of_shape(name: str, shape: Sequence[Any] | None) -> Header:
    if not shape:
        return Header(name)
    outer = [int(size) for size in shape[:-2] if int(size) > 1]
    return Header(name, depth=outer[-1] if outer else 1, moments=prod(outer[:-1]))


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
        raise Unreadable("has Zarr metadata that cannot be read")
    return value
