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


def test_a_line_that_is_repeated_below_other_text_stays() -> None:
    def repeated(canvas: Canvas, number: int) -> None:
        text(canvas, 56, 810, "abcdefghij"[number] * 5)
        text(canvas, 56, 790, "Name and value of each")
        column(canvas, 56, 740, prose(number, 60), width=480)

    content = read(draw(*[partial(repeated, number=number) for number in range(4)])).text
    assert content.count("Name and value of each") == 4


def labelled(ranges: list[tuple[int, dict[str, object]]], *, foot: Callable[[int], str] = lambda _: "") -> list[str]:
    def first(canvas: Canvas, number: int) -> None:
        for start, options in ranges if number == 0 else ():
            canvas.addPageLabel(start, **options)
        page(canvas, number, foot=foot(number))

    return labels(read(draw(*[partial(first, number=number) for number in range(5)])))


def test_labels_of_the_file_are_roman_prefixed_and_offset() -> None:
    ranges = [
        (0, {"style": "ROMAN_LOWER", "start": 3}),
        (2, {"style": "ARABIC", "start": 7}),
        (4, {"style": "ARABIC", "start": 1, "prefix": "A-"}),
    ]
    assert labelled(ranges) == ["iii", "iv", "7", "8", "A-1"]


def test_printed_numbers_are_the_labels_of_a_file_without() -> None:
    assert labels(read(document(5, lambda _: "", lambda number: str(number + 11)))) == ["11", "12", "13", "14", "15"]


def test_numbers_that_do_not_count_are_no_labels() -> None:
    assert labels(read(document(5, lambda _: "Volume 12", lambda _: ""))) == [""] * 5
