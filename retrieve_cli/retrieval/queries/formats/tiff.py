"""Pages of a TIFF (also BigTIFF, OME-TIFF, ImageJ TIFF and whole slides), read by tifffile."""

from __future__ import annotations

import json
import re
from math import prod
from typing import Any, BinaryIO, cast

from retrieve_cli.retrieval.queries.formats.content import Content, Header, UnreadableHeader

PLACES = ((273, 279), (324, 325))
"""Tags with the offsets of strips or tiles, and with their lengths."""
SLIDES = ("SVS", "NDPI")
"""Formats whose pages are one picture in several sizes."""
CONTRASTS = {
    "Fluorescence": "fluorescence-microscopy",
    "Brightfield": "brightfield-microscopy",
    "Phase": "brightfield-microscopy",
    "DIC": "brightfield-microscopy",
}
"""OME's contrast methods, as catalogs name the modality."""
Extent = tuple[int, int]
"""Planes, and moments."""


def read_tiff(content: Content, named: str) -> Header:
    """Return the header of the first page, and use the second if it is its neighbour.

    Raises:
        UnreadableHeader: there is no page.
    """
    from tifffile import TiffFile

    # NDPI is a special TIFF, known only by its name before the first tag is read.
    with TiffFile(
        cast("BinaryIO", content.stream), name="x.ndpi" if named == "NDPI" else "x.tif", _multifile=False
    ) as tiff:
        try:
            page: Any = tiff.pages[0]
        except IndexError as error:
            raise UnreadableHeader("starts as TIFF but has no page") from error
        if not (page.imagewidth and page.imagelength):
            raise UnreadableHeader("starts as TIFF but has a page without a size")
        kind = _kind(tiff, page)
        wrong: tuple[str, ...] = () if named in ("TIFF", kind) else (f"is named as {named} but contains {kind}",)
        if content.complete and _is_cut(page, content.stream.size):
            wrong += ("is truncated: its header promises more data than it has",)
        depth, moments = (1, 1) if kind in SLIDES else _extent(tiff, page, kind)
        contrast = re.search(r'ContrastMethod="(\w+)"', page.description) if kind == "OME-TIFF" else None
        modality = CONTRASTS.get(contrast[1]) if contrast else None
        return Header(kind, modality=modality, depth=depth, moments=moments, complaints=wrong)


def _kind(tiff: Any, page: Any) -> str:
    kinds = {"OME-TIFF": page.is_ome, "SVS": page.is_svs, "NDPI": tiff.is_ndpi, "LSM": tiff.is_lsm}
    return next((name for name, is_one in kinds.items() if is_one), "TIFF")


def _extent(tiff: Any, page: Any, kind: str) -> Extent:
    """Return planes and moments, by the notes of the program that wrote the file, or else by the pages."""
    if kind == "OME-TIFF":
        pixels = re.search(r"<(?:\w+:)?Pixels\b[^<>]*>", page.description)
        return _noted(r'\b{}\s*=\s*["\'](\d+)', pixels[0] if pixels else "", "SizeZ", "SizeT")
    if page.is_imagej:
        return _noted(r"^{}=(\d+)", page.imagej_description, "slices", "frames")
    if page.shaped_description:
        return _shaped(page.shaped_description, page.samplesperpixel)
    return (2 if _has_neighbour(tiff, page) else 1), 1


def _noted(pattern: str, text: str, *names: str) -> Extent:
    matches = [re.search(pattern.format(name), text, re.MULTILINE) for name in names]
    planes, moments = (max(int(match[1][:9]), 1) if match else 1 for match in matches)
    return planes, moments


def _shaped(description: str, samples: int) -> Extent:
    """Read the array sizes that tifffile notes, of which the last may be colours."""
    try:
        sizes = [int(size) for size in json.loads(description)["shape"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 1, 1
    if samples > 1 and sizes and sizes[-1] == samples:
        sizes.pop()
    outer = [size for size in sizes[:-2] if size > 1]
    return (outer[-1] if outer else 1), prod(outer[:-1])


def _has_neighbour(tiff: Any, page: Any) -> bool:
    """Return True if a second page is as large as the first; thumbnails and smaller copies are not."""
    try:
        second = tiff.pages[1]
    except (IndexError, ValueError):
        return False
    return not second.is_reduced and second.shape == page.shape


def _is_cut(page: Any, size: int) -> bool:
    """Return True if the header places pixels beyond the end of the file."""
    for places, lengths in PLACES:
        if (at := page.tags.get(places)) and (long := page.tags.get(lengths)):
            at, long = _numbers(at.value), _numbers(long.value)
            return any(start + count > size for start, count in zip(at, long, strict=False))
    return False


def _numbers(value: Any) -> list[int]:
    return [int(number) for number in value] if hasattr(value, "__iter__") else [int(value or 0)]
