"""Headings, paragraphs, lists, code and captions of PDF pages."""

from __future__ import annotations

from functools import partial

from reportlab.pdfgen.canvas import Canvas
from sources.formats.layouts import blocks, headings, layout_of
from sources.formats.pdf.drawn import column, draw, prose, read, text


def test_the_outline_gives_headings_and_their_levels_whatever_their_font() -> None:
    def sections(canvas: Canvas) -> None:
        y = 790.0
        for number, (level, title) in enumerate([(0, "Introduction"), (1, "Methods"), (1, "Results")]):
            text(canvas, 56, y, f"{number + 1} {title}")
            canvas.bookmarkPage(str(number), fit="XYZ", top=y)
            canvas.addOutlineEntry(title, str(number), level)
            y = column(canvas, 56, y - 30, prose(number, 90), width=480) - 40

    assert headings(read(draw(sections))) == [(1, "1 Introduction"), (2, "2 Methods"), (2, "3 Results")]


def test_headings_without_an_outline_are_known_by_their_size_and_numbers() -> None:
    titles = [("1 Growth of the oak", 16), ("1.1 Roots", 12), ("1.2 Leaves", 12), ("2 Decay", 16)]

    def page(canvas: Canvas) -> None:
        y = 790.0
        for number, (title, size) in enumerate(titles):
            text(canvas, 56, y, title, font="Times-Bold", size=size)
            y = column(canvas, 56, y - 24, prose(number, 90), width=480) - 20

    assert headings(read(draw(page))) == [(2 if "." in title else 1, title) for title, _ in titles]


def test_paragraphs_end_at_a_gap_or_before_an_indented_line() -> None:
    def page(canvas: Canvas) -> None:
        y = column(canvas, 56, 790, prose(1, 60), width=480)
        y = column(canvas, 56, y - 10, prose(2, 60), width=480)
        text(canvas, 76, y, "Indented " + " ".join(prose(3, 16)))
        column(canvas, 56, y - 12.5, prose(4, 60), width=480)

    assert [content.split() for _, content in blocks(read(draw(page)))] == [
        prose(1, 60),
        prose(2, 60),
        ["Indented", *prose(3, 16), *prose(4, 60)],
    ]


def test_a_paragraph_runs_on_to_the_next_page() -> None:
    def page(canvas: Canvas, number: int) -> None:
        for line in range(10):
            text(canvas, 56, (200, 790)[number] - 12 * line, "oak and elm and birch and fir and " * 3)

    parsed = read(draw(*[partial(page, number=number) for number in range(2)]))
    assert len(blocks(parsed)) == 1
    place = layout_of(parsed).place(0, len(parsed.text))
    assert (place.page, place.page_end) == (1, 2)


def test_items_of_a_list_are_on_lines_of_their_own() -> None:
    def page(canvas: Canvas) -> None:
        y = column(canvas, 56, 790, prose(1, 60), width=480)
        for item in range(3):
            text(canvas, 70, y - 8, "\u2022")
            y = column(canvas, 82, y - 8, [f"item{item}", *prose(item, 30)], width=400)
        for item in range(2):
            text(canvas, 70, y - 8, f"{item + 1}. numbered item")
            y -= 14

    (_, first), (kind, items), *_ = blocks(read(draw(page)))
    assert first.split() == prose(1, 60)
    assert kind == "list"
    starts = [" ".join(line.split()[:2]) for line in items.split("\n")]
    assert starts == ["- item0", "- item1", "- item2", "1. numbered", "2. numbered"]


def test_monospaced_lines_are_code_with_their_indentation() -> None:
    program = ["def grow(tree):", "    for twig in tree:", "        twig.length += 1", "    return tree"]

    def page(canvas: Canvas) -> None:
        y = column(canvas, 56, 790, prose(1, 90), width=480)
        for line in program:
            text(canvas, 70, y - 8, line, font="Courier", size=9)
            y -= 11
        column(canvas, 56, y - 20, prose(2, 90), width=480)

    assert blocks(read(draw(page)))[1] == ("code", "\n".join(program))


def test_captions_are_told_from_sentences_about_a_figure() -> None:
    def page(canvas: Canvas) -> None:
        y = column(canvas, 56, 790, ["Figure", "3", "shows", *prose(1, 60)], width=480)
        canvas.rect(56, y - 150, 200, 120)
        text(canvas, 56, y - 165, "Figure 3. Growth of the oak", size=9)
        column(canvas, 56, y - 190, prose(2, 60), width=480)

    before, caption, after = [(kind, content[:12]) for kind, content in blocks(read(draw(page)))]
    assert (before, caption) == (("paragraph", "Figure 3 sho"), ("caption", "Figure 3. Gr"))
    assert after == ("paragraph", " ".join(prose(2, 60))[:12])


def test_an_entry_of_the_outline_is_the_heading_and_not_the_running_head_with_its_words() -> None:
    def page(canvas: Canvas) -> None:
        text(canvas, 56, 815, "INTRODUCTION", size=8)
        canvas.bookmarkPage("one")
        canvas.addOutlineEntry("Introduction", "one", 0)
        text(canvas, 56, 780, "1 Introduction", font="Times-Bold", size=14)
        column(canvas, 56, 750, prose(1, 90), width=480)

    assert headings(read(draw(page))) == [(1, "1 Introduction")]
