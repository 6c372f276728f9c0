"""Sizes from the header of a FreeSurfer volume (.mgh, .mgz)."""

from __future__ import annotations

import struct

from retrieve_cli.queries.formats.content import Content
from retrieve_cli.queries.formats.header import Header, Unreadable


def read_mgh(content: Content, _: str) -> Header:
    """Read version, three sizes and the number of frames, big-endian.

    Raises:
        Unreadable: some are missing.
    """
    if len(content.head) < 20:
        raise Unreadable("is truncated: its MGZ header is incomplete")
    _version, *sizes, frames = struct.unpack(">5i", content.head[:20])
    if min(*sizes, frames) < 1:
        return Header("MGZ", complaints=("has impossible image sizes in its header",))
    return Header("MGZ", depth=sizes[2], moments=frames)
