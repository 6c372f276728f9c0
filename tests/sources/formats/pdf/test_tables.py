"""Tables of PDF files in every style of lines, and lines that make no table: frames, underlines, charts, drawings."""

from __future__ import annotations

import io
import random
from collections.abc import Callable

import pytest
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DecodedStreamObject, NameObject
from reportlab.lib import colors
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Paragraph, SimpleDocTemplate, Table, TableStyle
from sources.formats.pdf.drawn import changed, draw, read, rows_of, tables_of

WORDS = "dose patient blood renal mean total score lung Rome Paris alpha beta a|b mg/ml none cohort early late".split()
PROSE = "The table below has the figures of the study, and they are discussed in the text that follows it. " * 4
STYLE = getSampleStyleSheet()["BodyText"]
LINE = (0.5, colors.black)
WHOLE = ((0, 0), (-1, -1))
COLOURED_HEADER = ("BACKGROUND", (0, 0), (-1, 0), colors.lightblue)
BOOK = [("LINEABOVE", (0, 0), (-1, 0), *LINE), ("LINEBELOW", (0, 0), (-1, 0), *LINE)]
STYLES = {
    "grid": [("GRID", *WHOLE, *LINE)],
    "only lines inside": [("INNERGRID", *WHOLE, *LINE)],
    "a box, and lines below rows": [("BOX", *WHOLE, *LINE), ("LINEBELOW", (0, 0), (-1, -2), *LINE)],
    "only lines below rows": [("LINEBELOW", *WHOLE, *LINE)],
    "top, middle and bottom": [*BOOK, ("LINEBELOW", (0, -1), (-1, -1), *LINE)],
    "a coloured header over white lines": [COLOURED_HEADER, ("GRID", *WHOLE, 0.5, colors.white)],
    "a coloured header over lines below rows": [COLOURED_HEADER, ("LINEBELOW", *WHOLE, *LINE)],
    "coloured rows in a grid": [("ROWBACKGROUNDS", *WHOLE, [colors.whitesmoke, None]), ("GRID", *WHOLE, *LINE)],
    "no lines": [],
}


def made_texts(seed: int) -> list[list[str]]:
    """Return a table with a header, names in its first column, and words and numbers in the others."""
    chance = random.Random(seed)
    columns = chance.randint(2, 5)
    rows = [[" ".join(chance.sample(WORDS, chance.randint(1, 2))).title() for _ in range(columns)]]
    for number in range(chance.randint(3, 9)):
        texts = [f"{chance.choice(WORDS)} {number}"]
        for column in range(1, columns):
            is_number = (column + seed) % 2 == 0
            texts.append(f"{chance.uniform(1, 99):.1f}" if is_number else " ".join(chance.sample(WORDS, 2)))
        rows.append(texts)
    return rows


def printed(*parts: object) -> bytes:
    """Return the PDF with prose before, between and after the given tables."""
    story: list[object] = [Paragraph(PROSE, STYLE)]
    for part in parts:
        story += [part, Paragraph(PROSE, STYLE)]
    content = io.BytesIO()
    SimpleDocTemplate(content).build(story)
    return content.getvalue()


@pytest.mark.parametrize("style", STYLES)
def test_rows_are_right_in_every_style_of_lines(style: str) -> None:
    truth = [made_texts(seed) for seed in range(12)]
    tables = tables_of(read(printed(*(Table(texts, style=TableStyle(STYLES[style])) for texts in truth))))
    rows = [row for table in tables for row in table]
    expected = [row for table in truth for row in table]
    assert sum(row in rows for row in expected) >= (0.98 if STYLES[style] else 0.95) * len(expected)
    assert len(rows) <= len(expected)


def test_cells_with_several_lines_stay_one_cell_in_a_grid() -> None:
    long = "share of the relevant documents that were retrieved by the first stage of the pipeline"
    truth = [["Term", "Meaning", "Remark"], ["Recall", long, "the higher the better it is for all of us"]]
    truth += [["Precision", long, "none"], ["Latency of the query", "time", "the lower the better it is, mostly"]]
    cells = [[Paragraph(text, STYLE) for text in row] for row in truth]
    assert rows_of(read(printed(Table(cells, colWidths=[70, 150, 100], style=TableStyle(STYLES["grid"]))))) == truth


def test_a_cell_that_spans_others_has_its_text_in_the_first_place() -> None:
    data = [["All results of the study", "", ""], ["Group", "x", "y"], ["alpha", "1", "2"], ["", "3", "4"]]
    spans = [("SPAN", (0, 0), (2, 0)), ("SPAN", (0, 2), (0, 3)), ("GRID", *WHOLE, *LINE)]
    assert rows_of(read(printed(Table(data, style=TableStyle(spans))))) == data


@pytest.mark.parametrize("style", ["grid", "only lines below rows", "top, middle and bottom", "no lines"])
def test_a_table_that_the_end_of_the_page_cuts_is_a_table_on_both_pages(style: str) -> None:
    data = [["Name", "Dose", "Unit"], *([f"drug {number}", str(number), "mg"] for number in range(60))]
    first, second = tables_of(read(printed(Table(data, style=TableStyle(STYLES[style])))))
    assert first + second == data


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_a_turned_and_cropped_page_has_the_same_table(turn: int) -> None:
    def turned(writer: PdfWriter) -> None:
        writer.pages[0].rotate(turn)
        writer.pages[0].cropbox.lower_left, writer.pages[0].cropbox.upper_right = (20, 30), (580, 780)

    content = printed(Table(made_texts(5), style=TableStyle(STYLES["grid"])))
    assert rows_of(read(changed(content, turned))) == made_texts(5)


def put_grid(canvas: Canvas, texts: list[list[str]]) -> None:
    """Draw a table in the corner of the page."""
    drawn = Table(texts, style=TableStyle(STYLES["grid"]))
    drawn.wrapOn(canvas, 500, 400)
    drawn.drawOn(canvas, 0, 0)


def on_its_side(canvas: Canvas) -> None:
    canvas.translate(300, 100)
    canvas.rotate(90)
    put_grid(canvas, made_texts(7))


def in_a_scaled_form(canvas: Canvas) -> None:
    canvas.beginForm("table")
    put_grid(canvas, made_texts(7))
    canvas.endForm()
    canvas.translate(50, 300)
    canvas.scale(0.8, 0.8)
    canvas.doForm("table")


@pytest.mark.parametrize("page", [on_its_side, in_a_scaled_form])
def test_a_table_is_read_wherever_it_is_drawn(page: Callable[[Canvas], None]) -> None:
    assert rows_of(read(draw(page))) == made_texts(7)


def a_frame_around_paragraphs(canvas: Canvas) -> None:
    lines = [("BOX", *WHOLE, 1, colors.black), ("LINEBELOW", (0, 0), (-1, -2), 1, colors.black)]
    framed = Table([[Paragraph("A remark", STYLE)], [Paragraph(PROSE, STYLE)]], style=TableStyle(lines))
    framed.wrapOn(canvas, 400, 400)
    framed.drawOn(canvas, 50, 300)


def empty_boxes_of_a_form(canvas: Canvas) -> None:
    for row in range(4):
        canvas.drawString(50, 700 - 40 * row, f"Question {row}")
        for column in range(3):
            canvas.rect(200 + 100 * column, 692 - 40 * row, 90, 20)


def a_chart(canvas: Canvas) -> None:
    canvas.rect(100, 400, 400, 300)
    for step in range(1, 6):
        canvas.line(100, 400 + 50 * step, 500, 400 + 50 * step)
        canvas.drawString(75, 397 + 50 * step, str(step * 10))
    for bar, height in enumerate((120, 210, 90, 180)):
        canvas.rect(130 + 90 * bar, 400, 50, height, fill=0)
        canvas.rect(130 + 90 * bar, 400, 50, height / 2, fill=0)
        canvas.drawString(140 + 90 * bar, 410, str(height))
        canvas.drawString(140 + 90 * bar, 385, f"Q{bar}")


def boxes_of_a_flow_chart(canvas: Canvas) -> None:
    for number, (x, y) in enumerate(((100, 600), (300, 600), (100, 400), (300, 400))):
        canvas.rect(x, y, 120, 40)
        canvas.drawString(x + 10, y + 15, f"Step number {number}")
    for line in ((220, 620, 300, 620), (160, 440, 160, 600), (220, 420, 300, 420), (360, 440, 360, 600)):
        canvas.line(*line)


DRAWINGS = [a_frame_around_paragraphs, empty_boxes_of_a_form, a_chart, boxes_of_a_flow_chart]


@pytest.mark.parametrize("page", DRAWINGS)
def test_a_drawing_is_no_table(page: Callable[[Canvas], None]) -> None:
    assert tables_of(read(draw(page, size=(600, 800)))) == []


@pytest.mark.parametrize("lines", ["too many", "crossing"])
def test_a_drawing_of_many_lines_has_no_tables(lines: str) -> None:
    many = b"".join(b"%d %d m %d %d l S\n" % (x % 500, x % 700, x % 500 + 50, x % 700) for x in range(70_000))
    crossed = b"".join(
        b"%d %d m %d %d l S %d %d m %d %d l S\n" % (5, y, 590, y, y, 5, y, 790) for y in range(5, 590, 4)
    )

    def append(writer: PdfWriter) -> None:
        added = DecodedStreamObject()
        added.set_data(many if lines == "too many" else crossed)
        page = writer.pages[0]
        page[NameObject("/Contents")] = ArrayObject([page.raw_get("/Contents"), writer._add_object(added)])

    letters = draw(lambda canvas: [canvas.drawString(50, 500 + 20 * row, "a b c d e f") for row in range(5)])
    assert tables_of(read(changed(letters, append))) == []
