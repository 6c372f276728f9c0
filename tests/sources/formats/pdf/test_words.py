"""Words divided at line ends, ligatures, and the places of words in the text."""

from __future__ import annotations

import pytest
from reportlab.pdfgen.canvas import Canvas
from sources.formats.layouts import layout_of
from sources.formats.pdf.drawn import draw, prose, read, text
from sources.formats.truth.typesetting import wide_font


def lines(*content: str, font: str = "Times-Roman") -> bytes:
    def page(canvas: Canvas) -> None:
        for number, line in enumerate(content):
            text(canvas, 100, 700 - 12 * number, line, font=font)

    return draw(page)


def test_a_hyphen_at_a_line_end_goes_if_the_joined_word_occurs_elsewhere() -> None:
    content = lines("this is an example of text with an exam-", "ple that is divided at the end of its line")
    assert "with an example that" in read(content).text


def test_divided_words_are_joined_unless_both_halves_are_words() -> None:
    content = lines("this is an instance of text that is di-", "vided and well-", "known is well known here")
    assert read(content).text == "this is an instance of text that is divided and well-known is well known here"


def test_a_divided_word_has_a_place_on_both_lines() -> None:
    parsed = read(lines("this is an example of text with an exam-", "ple that is divided at the end of its line"))
    start = parsed.text.rindex("example")
    first, second = layout_of(parsed).place(start, start + 7).boxes
    assert first.y1 <= second.y0 + 1
    assert first.x0 > second.x0


def test_ligatures_are_spelled_out_and_words_behind_them_keep_their_places() -> None:
    pytest.importorskip("matplotlib")
    parsed = read(lines("an e\ufb03cient o\ufb03ce with \ufb02uid and \ufb01ne a\ufb00airs at last", font=wide_font()))
    assert parsed.text == "an efficient office with fluid and fine affairs at last"
    assert [parsed.text[start:end] for start, end, _ in layout_of(parsed).words] == parsed.text.split()


def test_every_word_of_the_text_has_a_place_in_order() -> None:
    parsed = read(lines(*[" ".join(prose(seed, 9)) for seed in range(20)]))
    spans = [(start, end) for start, end, _ in layout_of(parsed).words]
    assert spans == sorted(spans)
    assert [parsed.text[start:end] for start, end in spans] == parsed.text.split()
