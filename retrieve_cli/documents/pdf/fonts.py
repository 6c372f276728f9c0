"""Fonts of a page: bold, monospaced."""

from __future__ import annotations

import ctypes
import re
from typing import NamedTuple

from retrieve_cli.documents.pdf import raw

_FIXED, _FORCED_BOLD = 1, 1 << 18
"""Flags of a font descriptor (ISO 32000-1, table 123)."""
_HEAVY = 550
"""Weight from which a font is bold; pdfium derives it from the width of the stems if the file has no weight."""
_BOLD = re.compile(r"bold|black|heavy|demi|cmb|medi$", re.IGNORECASE)
_MONO = re.compile(r"mono|courier|consol|typewriter|cmtt|menlo|lettergothic", re.IGNORECASE)
_LONGEST = 128


class Font(NamedTuple):
    bold: bool
    fixed: bool


def font(handle: int) -> Font:
    """Return the style of a font; of no font, the plain one."""
    if not handle:
        return Font(bold=False, fixed=False)
    name = ctypes.create_string_buffer(_LONGEST)
    raw.font_name(handle, ctypes.addressof(name), _LONGEST)
    called = name.value.decode("latin-1").rpartition("+")[2]
    flags = max(0, raw.font_flags(handle))
    bold = raw.font_weight(handle) >= _HEAVY or bool(flags & _FORCED_BOLD) or bool(_BOLD.search(called))
    return Font(bold=bold, fixed=bool(flags & _FIXED) or bool(_MONO.search(called)))
