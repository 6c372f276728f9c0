"""Words divided at line ends, ligatures, and the places of words in the text."""

from __future__ import annotations

from reportlab.pdfgen.canvas import Canvas
from sources.formats.layouts import layout_of
from sources.formats.pdf.drawn import draw, read, text


def lines(*content: str, font: str = "Times-Roman") -> bytes:
    def page(canvas: Canvas) -> None:
        for number, line in enumerate(content):
            text(canvas, 100, 700 - 12 * number, line, font=font)

    return draw(page)


def test_divided_words_are_joined_unless_both_halves_are_words() -> None:
    content = lines("this is an instance of text that is di-", "vided and well-", "known is well known here")
    assert read(content).text == "this is an instance of text that is divided and well-known is well known here"


def test_a_divided_word_has_a_place_on_both_lines() -> None:
    parsed = read(lines("this is an example of text with an exam-", "ple that is divided at the end of its line"))
    start = parsed.text.rindex("example")
    first, second = layout_of(parsed).place(start, start + 7).boxes
    assert first.y1 <= second.y0 + 1
    assert first.x0 > second.x0
