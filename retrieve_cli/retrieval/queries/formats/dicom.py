"""Modality, frames and body part of a DICOM file (PS3.5 and PS3.10, read by pydicom up to the pixels).

Pages of a TIFF (also BigTIFF, OME-TIFF, ImageJ TIFF and whole slides), read by tifffile.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, BinaryIO, cast

from retrieve_cli.contracts.terms.modalities import DICOM_CODES
from retrieve_cli.retrieval.queries.formats.content import (
    Bounded,
    Content,
    Exhausted,
    Header,
    UnreadableHeader,
    content_of,
    inflated,
)

SLICED = frozenset({"CT", "MRI", "PET", "nuclear-medicine", "OCT"})
"""Modalities of which a series of pictures is a volume."""
VOLUMETRIC = frozenset({"CT", "MRI", "PET"})
"""Modalities of which a single picture is a slice of a volume, unless its header marks it as a projection. Of the
other sliced ones a single picture is often all there is: a scintigram, a photograph of the retina's layers."""
PROJECTIONS = ("LOCALIZER", "SCOUT", "TOPOGRAM", "PROJECTION", "MIP", "MINIP", "SCREEN", "DOSE")
"""Beginnings of values of Image Type (PS3.3, C.7.6.1.1.2) of pictures that are not slices: an overview, a
projection through a volume (`PROJECTION IMAGE`), a screenshot or a table of doses."""
CAPTURE = "1.2.840.10008.5.1.4.1.1.7"
"""Secondary Capture, which is of any modality: a screenshot or a scan of paper."""
BODY_PARTS = frozenset(
    """
    ABDOMEN ABDOMENPELVIS ACJOINT ADRENAL ANKLE ANUS AORTA ARM AXILLA BACK BILEDUCT BLADDER BRAIN BREAST BRONCHUS
    BUTTOCK CALCANEUS CALF CAROTID CEREBELLUM CERVIX CHEEK CHEST CHESTABDOMEN CHESTABDPELVIS CIRCLEOFWILLIS CLAVICLE
    COCCYX COLON CORNEA CORONARYARTERY CSPINE CTSPINE DUODENUM EAR ELBOW ESOPHAGUS EXTREMITY EYE EYELID FACE FEMUR
    FINGER FOOT GALLBLADDER HAND HEAD HEADNECK HEART HIP HUMERUS IAC ILEUM ILIUM JAW JEJUNUM KIDNEY KNEE LARYNX LEG
    LIVER LSPINE LSSPINE LUNG MAXILLA MEDIASTINUM MOUTH NECK NECKCHEST NECKCHESTABDOMEN NECKCHESTABDPELV NOSE ORBIT
    OVARY PANCREAS PAROTID PATELLA PELVIS PENIS PHARYNX PROSTATE RECTUM RETINA RIB SCALP SCAPULA SCLERA SCROTUM
    SHOULDER SKULL SPINE SPLEEN SSPINE STERNUM STOMACH SUBMANDIBULAR TESTIS THIGH THUMB THYMUS THYROID TLSPINE TMJOINT
    TOE TONGUE TRACHEA TSPINE URETER URETHRA UTERUS VAGINA VULVA WHOLEBODY WRIST ZYGOMA
    """.split()
)
"""PS3.16, annex L."""
STORED_CLASS, SYNTAX = 0x00020002, 0x00020010
IMAGE_TYPE, CLASS, MODALITY, BODY_PART, SERIES = 0x00080008, 0x00080016, 0x00080060, 0x00180015, 0x0020000E
POSITIONS, FRAMES, INCREMENT, ROWS = 0x00200105, 0x00280008, 0x00280009, 0x00280010
WANTED = (STORED_CLASS, SYNTAX, IMAGE_TYPE, CLASS, MODALITY, BODY_PART, SERIES, POSITIONS, FRAMES, INCREMENT, ROWS)
"""The only elements that are read: none identifies the patient or the date."""
FRAME_GROUPS, PIXELS = 0x52009229, 0x7FE00000
FRAME_TIMES = (0x00181063, 0x00181065)
UNDEFINED = 0xFFFFFFFF
IMPLICIT, DEFLATED, BIG_ENDIAN = "1.2.840.10008.1.2", "1.2.840.10008.1.2.1.99", "1.2.840.10008.1.2.2"

Pixels = tuple[int, int]
"""Their offset, and their length in bytes by the header."""


@dataclass(slots=True)
class _Values:
    """The wanted elements, as bytes, and the state of reading."""

    elements: dict[int, bytes] = field(default_factory=dict)
    little: bool = True
    broken: bool = False

    def text(self, tag: int) -> str:
        return self.elements.get(tag, b"").decode("ascii", "replace").strip(" \0")

    def number(self, tag: int) -> int:
        """Return the first value of an integer string; 1 if it is missing."""
        digits = self.text(tag).partition("\\")[0].strip()
        return max(int(digits), 1) if digits.isascii() and digits.isdigit() and len(digits) <= 12 else 1

    def tags(self, tag: int) -> list[int]:
        value, order = self.elements.get(tag, b""), "little" if self.little else "big"
        halves = [int.from_bytes(value[at : at + 2], order) for at in range(0, len(value) - 1, 2)]  # type: ignore[arg-type]
        return [high << 16 | low for high, low in zip(halves[::2], halves[1::2], strict=False)]


def read_dicom(content: Content, _: str) -> Header:
    """Return the header of one file. Raises: UnreadableHeader: there is no data set after the first bytes."""
    stream = content.stream
    values = _Values()
    if content.head.startswith(b"DICM", 128):
        stream.seek(132)
        _collect(stream, values, explicit=True, until=lambda tag: tag >> 16 != 2)
        complete, dataset = _after_meta(stream, values)
    else:  # a data set alone, as many older writers leave it
        stream.seek(0)
        explicit = content.head[4:6].isalpha() and content.head[4:6].isupper()
        complete, dataset = True, (stream, explicit)
    pixels = _collect(dataset[0], values, explicit=dataset[1], until=lambda tag: tag >= FRAME_GROUPS)
    if not values.elements.keys() & {STORED_CLASS, CLASS, MODALITY}:
        raise UnreadableHeader("starts as DICOM but has no data set, or a truncated one")
    cut = values.broken or (content.complete and complete and (stream.overran or _pixels_cut(stream, pixels)))
    return _header(values, ("is truncated or damaged: its header promises more data than it has",) if cut else ())


def _after_meta(stream: Bounded, values: _Values) -> tuple[bool, tuple[Bounded, bool]]:
    """Return whether the data set is complete, the data set, and whether its elements name their type."""
    syntax = values.text(SYNTAX)
    values.little = syntax != BIG_ENDIAN
    if syntax != DEFLATED:
        return True, (stream, syntax != IMPLICIT)
    packed = stream.read(min(65_536, max(stream.size - stream.tell(), 0)))
    text = inflated(packed, -15)
    return False, (content_of(io.BytesIO(text), len(text), 2 * len(text) + 4096, complete=False).stream, True)


def _collect(stream: Bounded, values: _Values, *, explicit: bool, until: Callable[[int], bool]) -> Pixels | None:
    """Read the wanted elements up to a tag; return the place of the pixels if it was reached."""
    from pydicom.filereader import data_element_generator

    pixels: list[Pixels] = []

    def stop(tag: int, _: str | None, size: int) -> bool:
        if tag >= PIXELS:
            pixels.append((stream.tell(), size))
        return until(tag)

    source = cast("BinaryIO", stream)
    elements = data_element_generator(source, not explicit, values.little, stop, specific_tags=list(WANTED))
    try:
        for element in elements:
            value = getattr(element, "value", None)
            if int(element.tag) in WANTED and isinstance(value, bytes):
                values.broken |= len(value) < getattr(element, "length", 0)
                values.elements.setdefault(int(element.tag), value)
    except Exhausted:  # the wanted elements come first
        pass
    except Exception:  # noqa: BLE001  elements before an error are kept
        values.broken = True
    return pixels[0] if pixels else None


def _pixels_cut(stream: Bounded, pixels: Pixels | None) -> bool:
    """Return True if the pixels end beyond the file, or their last delimiter is missing."""
    if pixels is None:
        return False
    start, length = pixels
    if length != UNDEFINED:
        return start + length > stream.size
    stream.seek(max(stream.size - 4096, 0))
    ending = stream.read(min(4096, stream.size))
    return b"\xfe\xff\xdd\xe0" not in ending and b"\xff\xfe\xe0\xdd" not in ending


def _header(values: _Values, complaints: tuple[str, ...]) -> Header:
    modality = DICOM_CODES.get(values.text(MODALITY).upper())
    part = values.text(BODY_PART).upper().replace(" ", "").replace("_", "")
    moments = values.number(POSITIONS)
    depth = _depth(values, modality, moments)
    kinds = (kind.strip().upper() for kind in values.text(IMAGE_TYPE).split("\\"))
    known = values.text(CLASS) or values.text(STORED_CLASS)
    captured = known == CAPTURE or known.startswith(f"{CAPTURE}.")
    slice_alone = depth == 1 and modality in VOLUMETRIC and values.number(FRAMES) == 1
    return Header(
        "DICOM",
        modality=modality,
        depth=depth,
        moments=moments,
        lone_slice=slice_alone and not captured and not any(kind.startswith(PROJECTIONS) for kind in kinds),
        anatomy=part if part in BODY_PARTS else None,
        series=values.text(SERIES) or None,
        complaints=complaints,
    )


def _depth(values: _Values, modality: str | None, moments: int) -> int | None:
    """Return the planes of the volume; frames that are tiles or moments do not count."""
    if ROWS not in values.elements:
        return None
    if modality == "histopathology" or set(values.tags(INCREMENT)) & set(FRAME_TIMES):
        return 1
    return max(values.number(FRAMES) // moments, 1)


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
        kinds = {"OME-TIFF": page.is_ome, "SVS": page.is_svs, "NDPI": tiff.is_ndpi, "LSM": tiff.is_lsm}
        kind = next((name for name, is_one in kinds.items() if is_one), "TIFF")
        wrong: tuple[str, ...] = () if named in ("TIFF", kind) else (f"is named as {named} but contains {kind}",)
        if content.complete and _is_cut(page, content.stream.size):
            wrong += ("is truncated: its header promises more data than it has",)
        depth, moments = (1, 1) if kind in SLIDES else _extent(tiff, page, kind)
        contrast = re.search(r'ContrastMethod="(\w+)"', page.description) if kind == "OME-TIFF" else None
        modality = CONTRASTS.get(contrast[1]) if contrast else None
        return Header(kind, modality=modality, depth=depth, moments=moments, complaints=wrong)


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
