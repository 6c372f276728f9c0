"""What the header of a FreeSurfer volume (.mgh, .mgz) says: five numbers."""

from __future__ import annotations

import struct

from retrieve_cli.queries.formats.content import Content
from retrieve_cli.queries.formats.header import Header, Unreadable


def read_mgh(content: Content, _: str) -> Header:
    """Version, three sizes and the number of frames, big-endian.

    Raises:
        Unreadable: they are not all there.
    """
    if len(content.head) < 20:
        raise Unreadable("is cut short: its MGZ header is not whole")
    _version, *sizes, frames = struct.unpack(">5i", content.head[:20])
    if min(*sizes, frames) < 1:
        return Header("MGZ", complaints=("has a header that gives sizes which no image has",))
    return Header("MGZ", depth=sizes[2], moments=frames)
