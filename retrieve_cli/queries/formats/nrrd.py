"""Axes from a NRRD header, read by pynrrd."""

from __future__ import annotations

import io
from collections.abc import Mapping
from math import prod
from typing import Any

from retrieve_cli.queries.formats.content import PACKED, Content
from retrieve_cli.queries.formats.header import Header, Unreadable

PLACE = ("domain", "space")
MOMENT = ("time", "list")
"""Kinds of axis along which whole volumes follow each other: a list is what diffusion scans have."""


def read_nrrd(content: Content, _: str) -> Header:
    """Read the text before the first blank line.

    Raises:
        Unreadable: it has no end within what is read.
    """
    import nrrd

    content.stream.seek(0)
    text = content.stream.read(min(PACKED, content.stream.size)).replace(b"\r\n", b"\n")
    if not (ended := text.find(b"\n\n") + 1) and (len(text) == PACKED or b"\ndata file:" not in text):
        raise Unreadable("is truncated: its NRRD header has no end")
    header = nrrd.read_header(io.BytesIO(text[: ended or None] + b"\n"))
    sizes = [int(size) for size in header.get("sizes", ())]
    if not sizes or min(sizes) < 1 or len(sizes) != int(header.get("dimension", 0)) or len(sizes) > 16:
        return Header("NRRD", complaints=("has impossible image sizes in its header",))
    attached = "data file" not in header and "datafile" not in header
    if content.complete and attached and header.get("encoding") == "raw" and prod(sizes) > content.stream.size:
        return Header("NRRD", complaints=("is truncated: its header promises more data than it has",))
    return _header(header, sizes)


def _header(header: Mapping[str, Any], sizes: list[int]) -> Header:
    kinds = [str(kind).lower() for kind in header.get("kinds", ())]
    if not any(kind in PLACE for kind in kinds):
        kinds = ["space"] * min(len(sizes), 3) + ["time"] * (len(sizes) - 3)
    places = [size for size, kind in zip(sizes, kinds, strict=False) if kind in PLACE]
    moments = [size for size, kind in zip(sizes, kinds, strict=False) if kind in MOMENT]
    return Header("NRRD", depth=places[2] if len(places) > 2 else 1, moments=prod([*moments, *places[3:]]))
