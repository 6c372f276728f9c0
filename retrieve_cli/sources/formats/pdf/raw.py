"""Functions of pdfium for a page's text and paths, with plain integers as arguments: a call takes half a microsecond.

A page has thousands of characters, so everything that is asked per word is asked by `map` over such a function, and
the answers are written side by side into one array.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pypdfium2.raw as pdfium

_INT, _POINTER, _FLOAT, _DOUBLE = ctypes.c_int, ctypes.c_void_p, ctypes.c_float, ctypes.c_double
PATH, FORM = pdfium.FPDF_PAGEOBJ_PATH, pdfium.FPDF_PAGEOBJ_FORM
LINE_TO, MOVE_TO = pdfium.FPDF_SEGMENT_LINETO, pdfium.FPDF_SEGMENT_MOVETO


def _function(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of pdfium with the given types instead of the declared ones."""
    address = ctypes.cast(getattr(pdfium, name), _POINTER).value
    return ctypes.PYFUNCTYPE(result, *arguments)(address or 0)


open_text = _function("FPDFText_LoadPage", _POINTER, _POINTER)
close_text = _function("FPDFText_ClosePage", None, _POINTER)
count_chars = _function("FPDFText_CountChars", _INT, _POINTER)
copy_text = _function("FPDFText_GetText", _INT, _POINTER, _INT, _INT, _POINTER)
char_code = _function("FPDFText_GetUnicode", ctypes.c_uint, _POINTER, _INT)
char_box = _function("FPDFText_GetLooseCharBox", _INT, _POINTER, _INT, _POINTER)
"""Writes left, top, right and bottom as 4 float32: as high as the font size, as wide as the advance."""
char_object = _function("FPDFText_GetTextObject", _POINTER, _POINTER, _INT)
char_matrix = _function("FPDFText_GetMatrix", _INT, _POINTER, _INT, _POINTER)  # writes a, b, c, d, e and f as 6 float32
char_size = _function("FPDFText_GetFontSize", _DOUBLE, _POINTER, _INT)
object_font = _function("FPDFTextObj_GetFont", _POINTER, _POINTER)
font_flags = _function("FPDFFont_GetFlags", _INT, _POINTER)
font_weight = _function("FPDFFont_GetWeight", _INT, _POINTER)
font_name = _function("FPDFFont_GetBaseFontName", ctypes.c_size_t, _POINTER, _POINTER, ctypes.c_size_t)
count_objects = _function("FPDFPage_CountObjects", _INT, _POINTER)
page_object = _function("FPDFPage_GetObject", _POINTER, _POINTER, _INT)
object_kind = _function("FPDFPageObj_GetType", _INT, _POINTER)
page_box = _function("FPDF_GetPageBoundingBox", _INT, _POINTER, _POINTER)
page_turn = _function("FPDFPage_GetRotation", _INT, _POINTER)
count_form_objects = _function("FPDFFormObj_CountObjects", _INT, _POINTER)
form_object = _function("FPDFFormObj_GetObject", _POINTER, _POINTER, ctypes.c_ulong)
object_box = _function("FPDFPageObj_GetBounds", _INT, *[_POINTER] * 5)
"""Writes left, bottom, right and top as 4 float32 to 4 addresses."""
object_matrix = _function("FPDFPageObj_GetMatrix", _INT, _POINTER, _POINTER)  # writes a, b, c, d, e and f as 6 float32
line_width = _function("FPDFPageObj_GetStrokeWidth", _INT, _POINTER, _POINTER)
count_segments = _function("FPDFPath_CountSegments", _INT, _POINTER)
draw_mode = _function("FPDFPath_GetDrawMode", _INT, _POINTER, _POINTER, _POINTER)
"""Writes how the path is filled (0: not) and if it is stroked as 2 int to 2 addresses."""
path_segment = _function("FPDFPath_GetPathSegment", _POINTER, _POINTER, _INT)
segment_kind = _function("FPDFPathSegment_GetType", _INT, _POINTER)
segment_point = _function("FPDFPathSegment_GetPoint", _INT, _POINTER, _POINTER, _POINTER)
segment_closes = _function("FPDFPathSegment_GetClose", _INT, _POINTER)


def address(handle: Any) -> int:
    """Return the address that a handle of pypdfium2 holds."""
    value = ctypes.cast(handle, _POINTER).value
    return value or 0
