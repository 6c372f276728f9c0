"""Pictures of pages as PNG, with boxes drawn on them.

Their size is bounded for any size of page, and the same input gives the same bytes. A file from
outside can crash PDFium, which is not safe for threads either: pictures are drawn in the processes of `Reader.draw`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from math import sqrt
from typing import TYPE_CHECKING

from retrieve_cli.contracts.layout import Mark, Style
from retrieve_cli.errors import BadDocument

if TYPE_CHECKING:
    import pypdfium2
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

    Corners = tuple[float, float, float, float]

SCALE = 2.0  # pixels per point: 144 dots per inch
MOST_PAGES = 4  # pages of one picture, side by side
_LONGEST, _MOST_PIXELS = 4096, 4_000_000  # pixels of one side, and of all, of a page's picture
_GAP, _GROUND = 12, "#808080"  # space between pages, and its colour
_COLOURS: dict[Style, str] = {
    "heading": "#d55e00",
    "paragraph": "#0072b2",
    "list": "#009e73",
    "table": "#a33b7d",
    "code": "#4d4d4d",
    "caption": "#8a6d00",
    "cell": "#cc79a7",
    "passage": "#b35900",
}
"""Colours that people with any colour vision can tell apart (Okabe and Ito, 2008), darkened for white labels."""
_HIGHLIGHT = "#fff176"  # background of a passage; its text stays dark
_LETTERS, _LONGEST_LABEL = 13.0, 40  # pixels of the letters, and their number


def render(
    content: bytes,
    pages: Sequence[int],
    *,
    marks: Sequence[Mark] = (),
    scale: float = SCALE,
    on_page: Callable[[int], None] | None = None,
) -> bytes:
    """Return a PNG of pages, numbered from 1, side by side, with the marks of each; beyond the fourth, none is drawn.

    Raises:
        BadDocument: it is not a readable PDF, or a page does not exist.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        raise BadDocument(f"it cannot be drawn: {error}") from error
    drawn = []
    try:
        for number in pages[:MOST_PAGES]:
            if on_page is not None:
                on_page(number)
            drawn.append(_page(document, number, marks, scale))
    finally:
        document.close()
    target = BytesIO()
    _beside(drawn).save(target, "PNG", compress_level=6)  # without a time
    return target.getvalue()


def _page(document: pypdfium2.PdfDocument, number: int, marks: Sequence[Mark], scale: float) -> Image:
    import pypdfium2

    if not 1 <= number <= len(document):
        raise BadDocument(f"it has no page {number}; it has {len(document)}")
    try:
        page = document[number - 1]
        width, height = page.get_size()
        if not (width > 0 and height > 0):
            raise BadDocument("its page has no size")
        fitting = min(scale, _LONGEST / max(width, height), sqrt(_MOST_PIXELS / (width * height)))
        bitmap = page.render(scale=fitting, fill_color=(255, 255, 255, 255), prefer_bgrx=False)
        image: Image = bitmap.to_pil().convert("RGB")
    except (pypdfium2.PdfiumError, ValueError, MemoryError) as error:
        raise BadDocument(f"its page {number} cannot be drawn: {error}") from error
    return _marked(image, [mark for mark in marks if mark.box.page == number], fitting)


def _marked(image: Image, marks: Sequence[Mark], scale: float) -> Image:
    from PIL import Image as Images, ImageChops, ImageDraw

    ground = Images.new("RGB", image.size, "#ffffff")
    painter = ImageDraw.Draw(ground)
    for mark in marks:
        if mark.style == "passage":
            painter.rectangle(_corners(mark, scale, image), fill=_HIGHLIGHT)
    image = ImageChops.multiply(image, ground)
    draw = ImageDraw.Draw(image)
    for mark in marks:
        width = 1 if mark.style in ("cell", "passage") else 2
        draw.rectangle(_corners(mark, scale, image), outline=_COLOURS[mark.style], width=width)
    for mark in marks:
        if mark.label:
            _label(draw, mark, _corners(mark, scale, image))
    return image


def _corners(mark: Mark, scale: float, image: Image) -> Corners:
    """Return the box of a mark in pixels within the picture, wider by a point to each side."""
    box, (width, height) = mark.box, image.size
    left, right = sorted((_within((box.x0 - 1) * scale, width), _within((box.x1 + 1) * scale, width)))
    top, bottom = sorted((_within((box.y0 - 1) * scale, height), _within((box.y1 + 1) * scale, height)))
    return left, top, right, bottom


def _within(value: float, size: int) -> float:
    return min(max(value, 0.0), size - 1.0)


def _label(draw: ImageDraw, mark: Mark, corners: Corners) -> None:
    """Write the label to the left of the box, or at the edge of the page."""
    from PIL import ImageFont

    font = ImageFont.load_default(_LETTERS)
    text = mark.label[:_LONGEST_LABEL]
    x0, y0, x1, y1 = draw.textbbox((0, 0), text, font=font)
    left, top = max(corners[0] - (x1 - x0) - 7, 0), corners[1]
    draw.rectangle((left, top, left + x1 - x0 + 6, top + y1 - y0 + 5), fill=_COLOURS[mark.style])
    draw.text((left + 3 - x0, top + 2 - y0), text, font=font, fill="#ffffff")


def _beside(images: Sequence[Image]) -> Image:
    """Return pictures as one, from left to right."""
    from PIL import Image as Images

    if len(images) == 1:
        return images[0]
    width = sum(image.width for image in images) + _GAP * (len(images) - 1)
    joined = Images.new("RGB", (width, max(image.height for image in images)), _GROUND)
    left = 0
    for image in images:
        joined.paste(image, (left, 0))
        left += image.width + _GAP
    return joined
