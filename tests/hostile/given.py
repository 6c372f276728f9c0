"""Attacks by files that a query names: images of every kind, archives, and what is no file."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tempfile
import warnings
import zipfile
import zlib
from functools import cache
from pathlib import Path
from random import Random

from hostile import odd
from hostile.texts import FORMATS
from hostile.tries import Content, Try

SPECIAL: tuple[Content, ...] = (("fifo",), ("link", "/dev/zero"), ("link", "/dev/tty"), ("folder",), ("sparse",
    3 << 30), ("link", "gone"),
                                ("link", "/proc/self/mem"), ("link", "/dev/stdin"), b"")  # fmt: skip
"""Things that may be in the place of a file."""


# -------------------------------------------------------------------------------------------------------- images


@cache
def _images() -> dict[str, bytes]:
    """Return a sound file of every kind."""
    from retrieval.queries import images

    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        images.write_dicom(place / "a.dcm")
        images.write_dicom(place / "b.dcm", syntax=images.DeflatedExplicitVRLittleEndian)
        images.write_dicom(place / "c.dcm", syntax=images.ExplicitVRBigEndian, frames=2)
        images.write_nifti(place / "a.nii", 4, 4, 4)
        images.write_nifti(place / "a.nii.gz", 4, 4, 4, 2)
        images.write_tiff(place / "a.tif", 8, 8)
        images.write_tiff(place / "b.ome.tif", 3, 8, 8, metadata={"axes": "ZYX"}, ome=True)
        images.write_tiff(place / "c.tif", 3, 8, 8, imagej=True, photometric=None)
        found = {path.name: path.read_bytes() for path in sorted(place.iterdir())}
    found["a.png"] = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in (
            (b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0)),
            (b"IDAT", zlib.compress(bytes(20))),
            (b"IEND", b""),
        )
    )
    found["a.nrrd"] = (
        b"NRRD0004\ntype: uchar\ndimension: 3\nsizes: 2 2 2\nencoding: raw\nspace: left-posterior-superior\n\n"
        + bytes(8)
    )
    found["a.mha"] = (
        b"ObjectType = Image\nNDims = 3\nDimSize = 2 2 2\nElementType = MET_UCHAR\nElementDataFile = LOCAL\n" + bytes(8)
    )
    found["a.mgh"] = struct.pack(">7i", 1, 2, 2, 2, 1, 0, 0) + bytes(300)
    found["a.jpg"] = b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xc0\0\x0b\x08\0\4\0\4\1\1\x11\0\xff\xd9"
    found["a.gif"] = b"GIF89a\4\0\4\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\4\0\4\0\0\2\2\4\1\0;"
    return found


_TOKENS = (b'SizeZ="9"', b"<Pixels SizeZ='", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\x80\0\0\0",
           b"<a:Pixels" * 3000, b"slices=9999999999999999999")  # fmt: skip


def images(dice: Random) -> Try:
    """Return a file to ask about whose header is damaged, or that only seems to be an image."""
    name, content = dice.choice(sorted(_images().items()))
    roll = dice.random()
    files: dict[str, Content] = {}
    path = name
    if roll < 0.5:
        files[path] = _damaged(dice, content)
    elif roll < 0.6:
        path = dice.choice(("x.nii.gz", "x.tif.gz", "x.gz", "x.nrrd.gz"))
        packed = dice.choice((bytes(30_000_000), _damaged(dice, content), gzip.compress(content)))
        files[path] = gzip.compress(packed, 1)
    elif roll < 0.72:
        path, files = _zarr(dice)
    elif roll < 0.82:
        path = dice.choice(("x.zip", "x.zarr.zip", "x.ome.zarr.zip"))
        files[path] = _zip(dice)
    elif roll < 0.9:
        path = dice.choice(("\x1b[31mx.dcm", "x\u202e.png", "a\nb.tif", "-x.nii", "x" * 200 + ".dcm"))
        files[path] = content
    else:
        files[path] = dice.choice(SPECIAL)
    asked = ("query", "segment this", f"--file={path}", "--format", dice.choice(FORMATS))
    more = dice.choice(((), ("-v",), ("--explain",)))
    return Try("images", ((*asked, *more),), files, index="tools")


def _damaged(dice: Random, content: bytes) -> bytes:
    for _ in range(dice.choice((1, 1, 3, 10))):
        place = dice.randrange(min(len(content), 600) or 1)
        piece = dice.choice((dice.randbytes(dice.choice((1, 2, 4, 8))), dice.choice(_TOKENS), odd.piece(dice)))
        content = content[:place] + piece + content[place + (len(piece) if dice.random() < 0.7 else 0) :]
    return content[: dice.randint(0, len(content))] if dice.random() < 0.2 else content


def _zarr(dice: Random) -> tuple[str, dict[str, Content]]:
    def written(value: object) -> bytes:
        return json.dumps(with_odd(dice, value)).encode("utf-8", "replace")

    scales = [{"axes": [{"name": "z", "type": "space"}, {"name": "c"}], "datasets": [{"path": "0"}]}]
    attributes = {"multiscales": scales, "omero": {"channels": []}}
    group = written(attributes)
    array = written({"shape": [2, 2, 2], "chunks": [2, 2, 2], "dtype": "<u1", "zarr_format": 2, "order": "C"})
    v3 = written({"zarr_format": 3, "node_type": "group", "attributes": {"ome": attributes}})
    version = b'{"zarr_format": 2}'
    files: dict[str, Content] = {"x.zarr/.zattrs": group, "x.zarr/.zgroup": version, "x.zarr/0/.zarray": array}
    if dice.random() < 0.4:
        files = {"x.zarr/zarr.json": v3}
    name = dice.choice(sorted(files))
    roll = dice.random()
    if roll < 0.3:
        files[name] = odd.mutated(dice, group)
    elif roll < 0.45:
        files[name] = dice.choice(SPECIAL)
    elif roll < 0.55:
        files[name] = odd.nested(dice).encode()
    return "x.zarr", files


def with_odd(dice: Random, item: object) -> object:
    """Return the value with an odd one somewhere in it."""
    if dice.random() < 0.25 or not isinstance(item, (dict, list)) or not item:
        return odd.value(dice)
    if isinstance(item, list):
        place = dice.randrange(len(item))
        return [with_odd(dice, part) if number == place else part for number, part in enumerate(item)]
    chosen = dice.choice(sorted(item))
    return {key: with_odd(dice, part) if key == chosen else part for key, part in item.items()}


def _zip(dice: Random) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for _ in range(dice.choice((0, 1, 5, 2000))):
            archive.writestr(dice.choice((".zattrs", "../x", "a/" * 50 + "b", odd.short(dice).replace("\0", "") or "x",
                "zarr.json")).encode("utf-8", "replace").decode(),
                             dice.choice((b"{}", bytes(1000), b"x")))  # fmt: skip
    content = stream.getvalue()
    return odd.mutated(dice, content) if dice.random() < 0.5 else content
