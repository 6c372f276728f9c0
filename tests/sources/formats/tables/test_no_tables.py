"""Lines that make no table: frames, underlines, charts, forms, drawings; and pages that would cost too much."""

from __future__ import annotations

import io
from collections.abc import Callable
from unittest.mock import Mock

import pytest
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DecodedStreamObject, NameObject
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Paragraph, SimpleDocTemplate, Table, TableStyle
from sources.formats.pdf.drawn import changed, draw

from retrieve_cli.sources.formats.pdf import raw, rules
from tests.sources.formats.tables.conftest import tables_of

BLACK = (0, 0, 0)
PROSE = (
    "The quick brown fox jumps over the lazy dog while the rain in Spain stays mainly in the plain, and nobody knows "
    "the trouble that we have seen. "
)


def drawing(page: Callable[[Canvas], None]) -> bytes:
    return draw(page, size=(600, 800))


def test_a_frame_around_paragraphs_is_no_table() -> None:
    style = getSampleStyleSheet()["BodyText"]
    framed = Table(
        [[Paragraph("A remark", style)], [Paragraph(PROSE * 6, style)], [Paragraph(PROSE * 3, style)]],
        style=TableStyle([("BOX", (0, 0), (-1, -1), 1, BLACK), ("LINEBELOW", (0, 0), (-1, -2), 1, BLACK)]),
    )
    content = io.BytesIO()
    SimpleDocTemplate(content).build([Paragraph(PROSE * 3, style), framed, Paragraph(PROSE * 3, style)])
    assert tables_of(content.getvalue()) == []


def test_lines_at_head_and_foot_of_two_columns_of_text_are_no_table(typeset: Callable[[str], bytes]) -> None:
    rule = r"\par\hrule\vskip 3mm "
    content = typeset(
        rf"\twocolumn[\hrule\vskip 3mm {{\Large A title}}\vskip 3mm {rule} Abstract. {PROSE * 4} {rule}]"
        rf"\columnseprule=.4pt {PROSE * 60}"
    )
    assert tables_of(content) == []


def test_an_algorithm_between_rules_is_no_table(typeset: Callable[[str], bytes]) -> None:
    steps = r"1: \textbf{for} all rules do \\ 2: \quad join them \\ 3: \quad if they touch then \\ 4: \qquad stop \\"
    body = rf"\hline \textbf{{Algorithm 1}} Tables of a page \\ \hline {steps} \hline"
    content = typeset(rf"{PROSE} \begin{{tabular}}{{p{{11cm}}}}{body}\end{{tabular}} {PROSE}")
    assert tables_of(content) == []


def underlines(canvas: Canvas) -> None:
    canvas.drawString(50, 500, "This word is underlined and this one too")
    canvas.line(74, 498, 100, 498)
    canvas.line(170, 498, 195, 498)


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
        canvas.drawString(140 + 90 * bar, 405 + height / 2, str(bar))
        canvas.drawString(140 + 90 * bar, 385, f"Q{bar}")
    canvas.drawString(380, 670, "sales")
    canvas.drawString(380, 655, "costs")


def boxes_of_a_flow_chart(canvas: Canvas) -> None:
    for number, (x, y) in enumerate(((100, 600), (300, 600), (100, 400), (300, 400))):
        canvas.rect(x, y, 120, 40)
        canvas.drawString(x + 10, y + 15, f"Step number {number}")
    for line in ((220, 620, 300, 620), (160, 440, 160, 600), (220, 420, 300, 420), (360, 440, 360, 600)):
        canvas.line(*line)


def forms_within_forms(canvas: Canvas) -> None:
    canvas.beginForm("form0")
    canvas.line(0, 0, 100, 0)
    canvas.endForm()
    for depth in range(1, 30):
        canvas.beginForm(f"form{depth}")
        canvas.doForm(f"form{depth - 1}")
        canvas.endForm()
    canvas.doForm("form29")
    canvas.drawString(50, 500, "a b c d e f")


@pytest.mark.parametrize(
    "page",
    [underlines, empty_boxes_of_a_form, a_chart, boxes_of_a_flow_chart, forms_within_forms],
)
def test_a_drawing_is_no_table(page: Callable[[Canvas], None]) -> None:
    assert tables_of(drawing(page)) == []


def letters_with(stream: bytes) -> bytes:
    """Return a page of letters with a content stream after its own."""

    def append(writer: PdfWriter) -> None:
        added = DecodedStreamObject()
        added.set_data(stream)
        first = writer.pages[0]
        own = first[NameObject("/Contents")].get_object()
        streams = list(own) if isinstance(own, ArrayObject) else [first.raw_get("/Contents")]
        first[NameObject("/Contents")] = ArrayObject([*streams, writer._add_object(added)])

    page = drawing(lambda canvas: [canvas.drawString(50, 500 + 20 * row, "a b c d e f") for row in range(5)])
    return changed(page, append)


def test_a_page_of_prose_reads_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    style = getSampleStyleSheet()["BodyText"]
    content = io.BytesIO()
    SimpleDocTemplate(content).build([Paragraph(PROSE * 10, style)])
    calls: list[object] = []
    monkeypatch.setattr(raw, "count_segments", calls.append)
    assert tables_of(content.getvalue()) == []
    assert calls == []


def test_a_page_with_more_paths_than_are_read_has_no_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b"".join(b"%d %d m %d %d l S\n" % (x % 500, x % 700, x % 500 + 50, x % 700) for x in range(70_000))
    count = Mock(wraps=raw.count_segments)
    monkeypatch.setattr(raw, "count_segments", count)
    assert tables_of(letters_with(lines)) == []
    assert count.call_count <= rules.MOST_OBJECTS


def test_a_drawing_of_many_crossing_lines_has_no_tables() -> None:
    lines = b"".join(b"%d %d m %d %d l S %d %d m %d %d l S\n" % (5, y, 590, y, y, 5, y, 790) for y in range(5, 590, 4))
    assert tables_of(letters_with(lines)) == []
