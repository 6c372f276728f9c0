"""Running heads and feet, and the printed labels of pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from reportlab.pdfgen.canvas import Canvas
from sources.formats.pdf.drawn import column, draw, labels, prose, read, text


def page(canvas: Canvas, number: int, *, head: str = "", foot: str = "", left: float = 56, foot_x: float = 290) -> None:
    text(canvas, left, 810, head, size=9)
    text(canvas, foot_x, 30, foot, size=9)
    column(canvas, 56, 760, [f"page{'abcdefghij'[number]}", *prose(number, 60 + 9 * number)], width=480)


def document(count: int, head: Callable[[int], str], foot: Callable[[int], str]) -> bytes:
    return draw(*[partial(page, number=number, head=head(number), foot=foot(number)) for number in range(count)])


def test_a_title_in_large_type_stays_on_each_page() -> None:
    def titled(canvas: Canvas, number: int) -> None:
        text(canvas, 56, 800, f"Chapter {number + 1}", size=16)
        page(canvas, number)

    content = read(draw(*[partial(titled, number=number) for number in range(4)])).text
    assert [f"Chapter {number}" in content for number in range(1, 5)] == [True] * 4


def test_labels_of_the_file_are_roman_prefixed_and_offset() -> None:
    def first(canvas: Canvas, number: int) -> None:
        if number == 0:
            canvas.addPageLabel(0, style="ROMAN_LOWER", start=3)
            canvas.addPageLabel(2, style="ARABIC", start=7)
            canvas.addPageLabel(4, style="ARABIC", start=1, prefix="A-")
        page(canvas, number)

    assert labels(read(draw(*[partial(first, number=number) for number in range(5)]))) == ["iii", "iv", "7", "8", "A-1"]


def test_printed_numbers_are_the_labels_of_a_file_without() -> None:
    assert labels(read(document(5, lambda _: "", lambda number: str(number + 11)))) == ["11", "12", "13", "14", "15"]
