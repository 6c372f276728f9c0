"""Headers of pictures (PNG, JPEG, GIF, BMP), read by Pillow up to the pixels."""

from __future__ import annotations

from typing import BinaryIO, cast

from retrieve_cli.queries.formats.content import Content
from retrieve_cli.queries.formats.header import Header


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
