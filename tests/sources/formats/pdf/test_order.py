"""Text of PDF pages in the order in which it is read."""

from __future__ import annotations

import io
from functools import partial

import pdfplumber
import pytest
from pypdf import PdfWriter
from reportlab.pdfgen.canvas import Canvas
from sources.formats.layouts import blocks, layout_of
from sources.formats.pdf.drawn import changed, column, draw, prose, read, text, wide_font


def two_columns(canvas: Canvas, *, shift: float = 0.0) -> None:
    text(canvas, 120, 800, "A heading over both columns of the page", font="Times-Bold", size=16)
    column(canvas, 56, 760, ["left", *prose(1, 150)])
    column(canvas, 306, 760 - shift, ["right", *prose(2, 150)])


COLUMNS = ["left", *prose(1, 150), "right", *prose(2, 150)]


@pytest.mark.parametrize("shift", [0.0, 6.0])
def test_columns_are_read_one_after_the_other_below_a_heading_over_both(shift: float) -> None:
    parsed = read(draw(partial(two_columns, shift=shift)))
    assert parsed.text.split() == ["A", "heading", "over", "both", "columns", "of", "the", "page", *COLUMNS]


def test_a_stamp_at_the_margin_does_not_tear_lines() -> None:
    def page(canvas: Canvas) -> None:
        column(canvas, 56, 780, prose(1, 200), width=480)
        canvas.saveState()
        canvas.translate(30, 300)
        canvas.rotate(90)
        text(canvas, 0, 0, "stamped on 12 May", size=20)
        canvas.restoreState()

    body, stamp = [content.split() for _, content in blocks(read(draw(page)))]
    assert (body, stamp) == (prose(1, 200), ["stamped", "on", "12", "May"])


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_a_turned_page_is_read_as_before_with_boxes_as_displayed(turn: int) -> None:
    turned = changed(draw(two_columns), lambda writer: writer.pages[0].rotate(turn))
    assert read(turned).text.split()[8:] == COLUMNS
    check_boxes(turned)


def test_boxes_count_from_the_corner_of_the_crop_box() -> None:
    def crop(writer: PdfWriter) -> None:
        page = writer.pages[0]
        page.mediabox.lower_left = (-100, -50)
        page.cropbox.lower_left, page.cropbox.upper_right = (50, 10), (580, 830)

    cropped = changed(draw(two_columns), crop)
    parsed = read(cropped)
    assert (layout_of(parsed).pages[0].width, layout_of(parsed).pages[0].height) == (530, 820)
    check_boxes(cropped)


def check_boxes(content: bytes) -> None:
    """Check that pdfminer's characters in the box of each word are those of the word."""
    parsed = read(content)
    with pdfplumber.open(io.BytesIO(content)) as file:
        left, top = file.pages[0].cropbox[:2]
        chars = [
            (char["text"], (char["x0"] + char["x1"]) / 2 - left, (char["top"] + char["bottom"]) / 2 - top)
            for char in file.pages[0].chars
            if char["text"] != " "
        ]
    for start, end, box in layout_of(parsed).words:
        inside = [char for char, x, y in chars if box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1]
        assert sorted(inside) == sorted(parsed.text[start:end]), (parsed.text[start:end], box)


def test_hebrew_lines_are_read_from_right_to_left_with_numbers_in_place() -> None:
    pytest.importorskip("matplotlib")
    font = wide_font()
    logical = ["שלום עולם זה מבחן ארוך", "יש כאן 123 מילים", "סוף הדף"]

    def page(canvas: Canvas) -> None:
        for number, line in enumerate(logical):
            canvas.setFont(font, 12)
            canvas.drawRightString(540, 700 - 16 * number, line[::-1].replace("321", "123"))

    assert read(draw(page)).text.split() == " ".join(logical).split()


def test_hebrew_columns_are_read_from_the_right() -> None:
    pytest.importorskip("matplotlib")
    font = wide_font()
    words = ["שלום", "עולם", "מבחן", "ארוך", "מילים", "כאן"]
    lines = [[words[(line * 5 + place * (line + 1)) % 6] for place in range(6)] for line in range(20)]

    def page(canvas: Canvas) -> None:
        canvas.setFont(font, 10)
        for number, line in enumerate(lines):
            x, row = (540, number) if number < 10 else (280, number - 10)
            canvas.drawRightString(x, 700 - 14 * row, " ".join(line)[::-1])

    assert read(draw(page)).text.split() == [word for line in lines for word in line]


def test_letters_that_are_drawn_one_by_one_are_one_word() -> None:
    def page(canvas: Canvas) -> None:
        text(canvas, 100, 700, "We use T")
        width = canvas.stringWidth("We use T", "Times-Roman", 10)
        text(canvas, 100 + width + 6, 700, "X daily")
        text(canvas, 100 + width - 0.5, 698, "E")

    assert read(draw(page)).text == "We use TEX daily"


def test_a_page_number_drawn_before_its_head_is_a_word_of_its_own() -> None:
    def page(canvas: Canvas) -> None:
        text(canvas, 500, 800, "17")
        text(canvas, 56, 800, "Preamble")
        column(canvas, 56, 760, prose(1, 60), width=480)

    assert read(draw(page)).text.split() == ["Preamble", "17", *prose(1, 60)]
