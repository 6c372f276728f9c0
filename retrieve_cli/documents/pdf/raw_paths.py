"""Functions of pdfium for the objects of a page, with plain integers as arguments, as `raw` has them for text."""

from __future__ import annotations

import ctypes
from typing import Any

import pypdfium2.raw as pdfium

_INT, _POINTER = ctypes.c_int, ctypes.c_void_p

PATH, FORM = pdfium.FPDF_PAGEOBJ_PATH, pdfium.FPDF_PAGEOBJ_FORM
LINE_TO, MOVE_TO = pdfium.FPDF_SEGMENT_LINETO, pdfium.FPDF_SEGMENT_MOVETO


def function(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of pdfium with the given types instead of the declared ones."""
    address = ctypes.cast(getattr(pdfium, name), _POINTER).value
    return ctypes.PYFUNCTYPE(result, *arguments)(address or 0)


count_form_objects = function("FPDFFormObj_CountObjects", _INT, _POINTER)
form_object = function("FPDFFormObj_GetObject", _POINTER, _POINTER, ctypes.c_ulong)
object_box = function("FPDFPageObj_GetBounds", _INT, *[_POINTER] * 5)
"""Writes left, bottom, right and top as 4 float32 to 4 addresses."""
object_matrix = function("FPDFPageObj_GetMatrix", _INT, _POINTER, _POINTER)
"""Writes a, b, c, d, e and f as 6 float32."""
fill_color = function("FPDFPageObj_GetFillColor", _INT, *[_POINTER] * 5)
"""Writes red, green, blue and alpha as 4 unsigned int to 4 addresses."""
line_width = function("FPDFPageObj_GetStrokeWidth", _INT, _POINTER, _POINTER)
count_segments = function("FPDFPath_CountSegments", _INT, _POINTER)
draw_mode = function("FPDFPath_GetDrawMode", _INT, _POINTER, _POINTER, _POINTER)
"""Writes how the path is filled (0: not) and if it is stroked as 2 int to 2 addresses."""
path_segment = function("FPDFPath_GetPathSegment", _POINTER, _POINTER, _INT)
segment_kind = function("FPDFPathSegment_GetType", _INT, _POINTER)
segment_point = function("FPDFPathSegment_GetPoint", _INT, _POINTER, _POINTER, _POINTER)
segment_closes = function("FPDFPathSegment_GetClose", _INT, _POINTER)
