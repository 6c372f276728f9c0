"""Recognition of one file, and the reader of its header: modality, sizes and problems."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from math import isfinite, prod
from pathlib import Path
from typing import Any, BinaryIO, cast

from retrieve_cli.frozen import replace
from retrieve_cli.retrieval.queries.formats.content import (
    GZIP,
    LIMIT,
    PACKED,
    Content,
    Exhausted,
    Header,
    UnreadableHeader,
    content_of,
    decompressed,
    opened,
)
from retrieve_cli.retrieval.queries.formats.dicom import read_dicom, read_tiff
from retrieve_cli.retrieval.queries.formats.table import BY_EXTENSION, FORMATS, Format

PLACE = ("domain", "space")
MOMENT = ("time", "list")
"""Kinds of axis along which whole volumes follow each other: a list is what diffusion scans have."""


def read_nrrd(content: Content, _: str) -> Header:
    """Read the text before the first blank line.

    Raises:
        UnreadableHeader: it does not end within the bytes that are read.
    """
    import nrrd

    content.stream.seek(0)
    text = content.stream.read(min(PACKED, content.stream.size)).replace(b"\r\n", b"\n")
    if not (ended := text.find(b"\n\n") + 1) and (len(text) == PACKED or b"\ndata file:" not in text):
        raise UnreadableHeader("is truncated: its NRRD header has no end")
    header = nrrd.read_header(io.BytesIO(text[: ended or None] + b"\n"))
    sizes = [int(size) for size in header.get("sizes", ())]
    if not sizes or min(sizes) < 1 or len(sizes) != int(header.get("dimension", 0)) or len(sizes) > 16:
        return Header("NRRD", complaints=("has impossible image sizes in its header",))
    attached = "data file" not in header and "datafile" not in header
    if content.complete and attached and header.get("encoding") == "raw" and prod(sizes) > content.stream.size:
        return Header("NRRD", complaints=("is truncated: its header promises more data than it has",))
    kinds = [str(kind).lower() for kind in header.get("kinds", ())]
    if not any(kind in PLACE for kind in kinds):
        kinds = ["space"] * min(len(sizes), 3) + ["time"] * (len(sizes) - 3)
    places = [size for size, kind in zip(sizes, kinds, strict=False) if kind in PLACE]
    moments = [size for size, kind in zip(sizes, kinds, strict=False) if kind in MOMENT]
    return Header("NRRD", depth=places[2] if len(places) > 2 else 1, moments=prod([*moments, *places[3:]]))


CIFTI = range(3000, 3100)
"""Intent codes of files whose axes are not spatial."""


def read_nifti(content: Content, _: str) -> Header:
    """Return the header of one file, single or the first of a pair. Raises: UnreadableHeader: it is truncated."""
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header

    second = content.head[4:7] in (b"n+2", b"ni2")
    kind: Any
    kind, length = (Nifti2Header, 540) if second else (Nifti1Header, 348)
    if len(content.head) < length:
        raise UnreadableHeader("is truncated: its NIfTI header is incomplete")
    header: Any = kind(content.head[:length], check=False)
    if int(header["intent_code"]) in CIFTI:
        return Header("CIFTI")
    count = int(header["dim"][0])
    sizes = [int(size) for size in header["dim"][1 : count + 1]]
    if not 1 <= count <= 7 or min(sizes) < 1:
        return Header("NIfTI", complaints=("has impossible image sizes in its header",))
    single = content.head[5:6] == b"+" if second else content.head[345:346] == b"+"
    offset, bits = float(header["vox_offset"]), int(header["bitpix"])
    needed = prod(sizes) * max(bits, 1) / 8 + max(offset, 0) if isfinite(offset) else float("inf")
    if content.complete and single and needed > content.stream.size:
        return Header("NIfTI", complaints=("is truncated: its header promises more data than it has",))
    return Header("NIfTI", depth=sizes[2] if count > 2 else 1, moments=sizes[3] if count > 3 else 1)


MODALITIES = {"MET_MOD_CT": "CT", "MET_MOD_MR": "MRI", "MET_MOD_NM": "nuclear-medicine", "MET_MOD_US": "US"}


def read_metaimage(content: Content, _: str) -> Header:
    """Read the lines up to the line with the place of the pixels.

    Raises:
        UnreadableHeader: they do not give the number of dimensions.
    """
    content.stream.seek(0)
    values: dict[str, str] = {}
    for line in content.stream.read(min(PACKED, content.stream.size)).split(b"\n"):
        key, equals, value = line.decode("ascii", "replace").partition("=")
        if not equals or "ElementDataFile" in values:
            break
        values[key.strip()] = value.strip()
    count, sizes = values.get("NDims", ""), values.get("DimSize", "").split()
    if "ElementDataFile" not in values or not count.isdecimal():
        raise UnreadableHeader("starts as MHA, but its header is incomplete")
    modality = MODALITIES.get(values.get("Modality", ""))
    if len(count) > 2 or len(sizes) != int(count) or not all(size.isdecimal() and int(size[:18]) for size in sizes):
        return Header("MHA", modality, complaints=("has impossible image sizes in its header",))
    numbers = [int(size[:18]) for size in sizes]
    raw = values["ElementDataFile"] == "LOCAL" and values.get("CompressedData", "False") != "True"
    if content.complete and raw and prod(numbers) > content.stream.size:
        return Header("MHA", modality, complaints=("is truncated: its header promises more data than it has",))
    return Header("MHA", modality, depth=prod(numbers[2:3]), moments=prod(numbers[3:]))


def read_picture(content: Content, named: str) -> Header:
    """Return the header of one picture; a moving one is not a volume.

    Raises:
        OSError, SyntaxError, ValueError: it is not one.
    """
    from PIL import Image

    try:
        with Image.open(cast("BinaryIO", content.stream), formats=(named,)):
            return Header(named, depth=1)
    except Image.DecompressionBombError:  # it looked at the claimed size only, and nothing was decompressed
        return Header(named, complaints=("claims more pixels in its header than an image can have",))


def read_mgh(content: Content, _: str) -> Header:
    """Read version, three sizes and the number of frames, big-endian. Raises: UnreadableHeader: some are missing."""
    if len(content.head) < 20:
        raise UnreadableHeader("is truncated: its MGZ header is incomplete")
    _version, *sizes, frames = struct.unpack(">5i", content.head[:20])
    if min(*sizes, frames) < 1:
        return Header("MGZ", complaints=("has impossible image sizes in its header",))
    return Header("MGZ", depth=sizes[2], moments=frames)


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
    except UnreadableHeader as error:
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
            raise UnreadableHeader("is empty")
        return _look_into(content_of(io.BytesIO(data), len(data), LIMIT, complete=False), name)
    except UnreadableHeader as error:
        return Header(complaints=(str(error),))


def _look_into(content: Content, name: str) -> Header:
    """Read a file by its format. Raises: UnreadableHeader: the format is not known."""
    packed = content.head.startswith(GZIP)
    zipped = name.lower().endswith(".gz")
    if packed:
        content = decompressed(content)
    inner = name[:-3] if zipped else name
    try:
        kind, wrong = recognized(inner, content.head)
    except UnreadableHeader:
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
    except UnreadableHeader:
        raise
    except ImportError:
        return Header(kind, complaints=(f"is recognized by its first bytes only: {INSTALL}",))
    except Exhausted:
        return Header(kind, complaints=("has a header longer than the first megabyte",))
    except Exception as error:  # a malformed header may make a library raise anything
        raise UnreadableHeader(f"starts as {kind}, but its header cannot be read ({type(error).__name__})") from error


def recognized(name: str, head: bytes) -> tuple[Format, tuple[str, ...]]:
    """Return the format of a file, and a problem with its name; if the two disagree, the bytes decide.

    Raises:
        UnreadableHeader: neither decides, or only the name does and the bytes contradict it.
    """
    matching = (
        known for known in FORMATS for magic in known.magics if all(head.startswith(value, at) for at, value in magic)
    )
    given = next(matching, None)
    named = named_as(name)
    fitting = [candidate for candidate in named if _fits(candidate, given, head)]
    if fitting:
        return fitting[0], ()
    if given is None and not named:
        raise UnreadableHeader("has no known format, by its name or its first bytes")
    if given is None:
        raise UnreadableHeader(f"is named as {named[0].name} but is not")
    return given, (f"is named as {named[0].name} but contains {given.name}",) if named else ()


def named_as(name: str) -> tuple[Format, ...]:
    """Return the formats of the longest known extension."""
    parts = name.lower().split(".")
    endings = ("." + ".".join(parts[at:]) for at in range(max(len(parts) - 3, 1), len(parts)))
    return next((BY_EXTENSION[ending] for ending in endings if ending in BY_EXTENSION), ())


def _fits(named: Format, given: Format | None, head: bytes) -> bool:
    if given is not None:
        return given is named or given.name in named.inside
    if named.inside or (named.magics and not named.starts):
        return False
    if named.text and b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    return not named.starts or head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(named.starts)
