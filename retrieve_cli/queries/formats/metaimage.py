"""Sizes and modality from a MetaImage header (.mha, .mhd), lines of `key = value`."""

from __future__ import annotations

from math import prod

from retrieve_cli.queries.formats.content import PACKED, Content
from retrieve_cli.queries.formats.header import Header, Unreadable

MODALITIES = {"MET_MOD_CT": "CT", "MET_MOD_MR": "MRI", "MET_MOD_NM": "nuclear-medicine", "MET_MOD_US": "US"}


def read_metaimage(content: Content, _: str) -> Header:
    """Read the lines up to the one that says where the pixels are.

    Raises:
        Unreadable: they do not say how many dimensions there are.
    """
    values = _values(content)
    count, sizes = values.get("NDims", ""), values.get("DimSize", "").split()
    if "ElementDataFile" not in values or not count.isdecimal():
        raise Unreadable("starts as MHA, but its header is incomplete")
    modality = MODALITIES.get(values.get("Modality", ""))
    if len(count) > 2 or len(sizes) != int(count) or not all(size.isdecimal() and int(size[:18]) for size in sizes):
        return Header("MHA", modality, complaints=("has impossible image sizes in its header",))
    numbers = [int(size[:18]) for size in sizes]
    raw = values["ElementDataFile"] == "LOCAL" and values.get("CompressedData", "False") != "True"
    if content.complete and raw and prod(numbers) > content.stream.size:
        return Header("MHA", modality, complaints=("is truncated: its header promises more data than it has",))
    return Header("MHA", modality, depth=prod(numbers[2:3]), moments=prod(numbers[3:]))


def _values(content: Content) -> dict[str, str]:
    content.stream.seek(0)
    values: dict[str, str] = {}
    for line in content.stream.read(min(PACKED, content.stream.size)).split(b"\n"):
        key, equals, value = line.decode("ascii", "replace").partition("=")
        if not equals or "ElementDataFile" in values:
            break
        values[key.strip()] = value.strip()
    return values
