"""Sizes from a NIfTI header (NIfTI-1, NIfTI-2 and CIFTI), read by nibabel."""

from __future__ import annotations

from math import isfinite, prod
from typing import Any

from retrieve_cli.queries.formats.content import Content
from retrieve_cli.queries.formats.header import Header, Unreadable

CIFTI = range(3000, 3100)
"""Intent codes of files whose axes are not spatial."""


def read_nifti(content: Content, _: str) -> Header:
    """Return the header of one file, single or the first of a pair.

    Raises:
        Unreadable: it is truncated.
    """
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header

    second = content.head[4:7] in (b"n+2", b"ni2")
    kind: Any
    kind, length = (Nifti2Header, 540) if second else (Nifti1Header, 348)
    if len(content.head) < length:
        raise Unreadable("is truncated: its NIfTI header is incomplete")
    header: Any = kind(content.head[:length], check=False)
    if int(header["intent_code"]) in CIFTI:
        return Header("CIFTI")
    count = int(header["dim"][0])
    sizes = [int(size) for size in header["dim"][1 : count + 1]]
    if not 1 <= count <= 7 or min(sizes) < 1:
        return Header("NIfTI", complaints=("has impossible image sizes in its header",))
    single = content.head[5:6] == b"+" if second else content.head[345:346] == b"+"
    if content.complete and single and _needs(header, sizes) > content.stream.size:
        return Header("NIfTI", complaints=("is truncated: its header promises more data than it has",))
    depth = sizes[2] if count > 2 else 1
    return Header("NIfTI", depth=depth, moments=sizes[3] if count > 3 else 1)


def _needs(header: Any, sizes: list[int]) -> float:
    """Return the size of the whole file in bytes, by its header."""
    offset, bits = float(header["vox_offset"]), int(header["bitpix"])
    return prod(sizes) * max(bits, 1) / 8 + max(offset, 0) if isfinite(offset) else float("inf")
