"""Laws of reading PDF files, over generated documents: no line is lost, columns and rows are in order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from fpdf import FPDF
from reportlab.pdfgen.canvas import Canvas
from sources.formats.layouts import layout_of
from sources.formats.pdf.drawn import Speech, draw, read, rows_of, text

from retrieve_cli.contracts import Parsed

HEADS = ("the same", "a page number", "numbers that jump", "two in turn", "chapters", "a date")


def head(kind: str, page: int, source: random.Random) -> str:
    """Return the line of a kind at the edge of a page, from 0."""
    return {
        "the same": "Journal of Trees",
        "a page number": f"Journal of Trees {page + 7} of 2024",
        "numbers that jump": f"Order {source.randint(100, 999)} of 2024",
        "two in turn": ("Left side", "Right side")[page % 2],
        "chapters": f"Chapter {'ABCDEF'[page // 3]}",
        "a date": f"On 2024-{source.randint(1, 12):02}-{source.randint(1, 28):02}",
    }[kind]


def may_go(lines: Sequence[str], page: int) -> bool:
    """Return True if the law lets the line of a page go: more than half of the pages have the same, but for a page
    number that counts them.
    """

    def same(other: int) -> bool:
        own, its = lines[page].split(), lines[other].split()
        changed = [pair for pair in zip(own, its, strict=False) if pair[0] != pair[1]]
        numbers = [int(b) - int(a) for a, b in changed if a.isdigit() and b.isdigit()]
        return len(own) == len(its) and (not changed or (len(changed) == 1 and numbers == [other - page]))

    return 2 * sum(map(same, range(len(lines)))) > len(lines)


@pytest.mark.parametrize("seed", range(12))
def test_no_line_is_lost_but_those_that_the_law_lets_go(seed: int) -> None:
    source = random.Random(seed)
    speech = Speech(seed)
    count = source.randint(2, 9)
    kinds = {y: source.choice(HEADS) for y in (815, 800, 40, 25)}
    edges = {y: [head(kind, page, source) for page in range(count)] for y, kind in kinds.items()}
    bodies = [[" ".join(speech.words(9)) for _ in range(source.randint(1, 20))] for _ in range(count)]

    def page(canvas: Canvas, number: int) -> None:
        for y, lines in edges.items():
            text(canvas, 56, y, lines[number])
        for row, line in enumerate(bodies[number]):
            text(canvas, 56, 760 - 14 * row, line)

    parsed = read(draw(*[lambda canvas, number=number: page(canvas, number) for number in range(count)]))
    for number, place in enumerate(layout_of(parsed).pages):
        words = " ".join(parsed.text[place.start : place.end].split())
        kept = [lines[number] for lines in edges.values() if not may_go(lines, number)]
        assert [line for line in (*kept, *bodies[number]) if line not in words] == []
        gone = Counter(word for one in parsed.dropped if one.page == number + 1 for word in one.text.split())
        drawn = Counter(" ".join([*bodies[number], *(lines[number] for lines in edges.values())]).split())
        assert Counter(words.split()) + gone == drawn, "every word is in the text, or counted"
    ends = [0, *(block.end for block in layout_of(parsed).blocks)]
    starts = [*(block.start for block in layout_of(parsed).blocks), len(parsed.text)]
    assert [parsed.text[end:start].strip() for end, start in zip(ends, starts, strict=True)] == [""] * len(ends)


@pytest.mark.parametrize("count", [3, 12])
def test_forms_that_differ_in_digits_keep_them_and_are_read_page_by_page(count: int) -> None:
    def page(canvas: Canvas, lines: Sequence[str]) -> None:
        for row, line in enumerate(lines):
            text(canvas, 56, 780 - 40 * row, line)

    own = [
        (f"Invoice {2000 + 37 * n}", f"Date 2024-{n + 1:02}-17", f"Amount due {31 * n}.50 EUR") for n in range(count)
    ]
    forms = [["ACME Ltd.", *lines, "Thank you"] for lines in own]
    parsed = read(draw(*[lambda canvas, lines=lines: page(canvas, lines) for lines in forms]))
    places = layout_of(parsed).pages
    for lines, place in zip(forms, places, strict=True):
        assert [line for line in lines[1:4] if line not in parsed.text[place.start : place.end]] == []
    assert {place.alone for place in places} == {True}


def test_a_table_without_lines_over_five_pages_keeps_all_rows() -> None:
    rows = [[f"item {n}", f"2024-{n % 12 + 1:02}-{n % 28 + 1:02}", f"{17 * n}.50"] for n in range(99)]
    file = FPDF()
    file.set_font("helvetica", size=10)
    for number, row in enumerate(rows):
        if number % 20 == 0:
            file.add_page()
        for cell in row:
            file.cell(60, 12, cell)
        file.ln()
    parsed = read(bytes(file.output()))
    assert rows_of(parsed) == rows
    assert parsed.dropped == ()


def in_order(words: Sequence[str], parsed: Parsed) -> float:
    """Return the share of neighbouring words that follow one another in what was read."""
    found = parsed.text.replace("|", " ").split()
    pairs = set(pairwise(found))
    return sum(pair in pairs for pair in pairwise(words)) / (len(words) - 1)


@pytest.mark.parametrize("seed", range(8))
def test_columns_of_different_spacing_are_read_one_after_the_other(seed: int) -> None:
    source = random.Random(seed)
    names = iter(f"w{number}" for number in range(5000))
    columns: list[list[str]] = [[], []]

    def page(canvas: Canvas) -> None:
        for column, x in zip(columns, (50, 310), strict=True):
            size, leading, gap = source.choice([(10, 12.5, 8), (8, 9.5, 3), (7, 10, 10), (9, 15, 0), (10, 12, 0)])
            y = 800.0 - source.randint(0, 9)
            for _ in range(source.randint(3, 7)):
                for _ in range(source.randint(2, 9)):
                    words = [next(names) for _ in range(6)]
                    text(canvas, x, y, " ".join(words), size=size)
                    column.extend(words)
                    y -= leading
                y -= gap

    parsed = read(draw(page))
    assert in_order([*columns[0], *columns[1]], parsed) == 1


def test_slides_are_read_page_by_page_and_prose_is_not() -> None:
    def slides(canvas: Canvas, number: int) -> None:
        text(canvas, 60, 480, f"Slide about {number}", size=28)
        for row in range(4):
            text(canvas, 60, 400 - 40 * row, f"point {row} of slide {number}", size=18)

    content = draw(*[lambda canvas, n=n: slides(canvas, n) for n in range(4)], size=(720, 540))
    assert [page.alone for page in layout_of(read(content)).pages] == [True] * 4
    speech = Speech(3)

    def prose(canvas: Canvas) -> None:
        for row in range(50):
            text(canvas, 56, 780 - 14 * row, " ".join(speech.words(11)))

    assert {page.alone for page in layout_of(read(draw(prose, prose))).pages} == {False}
