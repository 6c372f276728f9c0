"""Tables with ruled lines: the cells are those of the source."""

from __future__ import annotations

import io
import random
from collections.abc import Callable

import pytest
from fpdf import FPDF
from reportlab.lib import colors
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Paragraph, SimpleDocTemplate, Table, TableStyle
from sources.formats.pdf.drawn import draw

from tests.sources.formats.tables.conftest import Texts, right_cells, tables_of

WORDS = "dose patient blood renal mean total score lung Rome Paris alpha beta a|b mg/ml none cohort early late".split()
PROSE = "The table below has the figures of the study, and they are discussed in the text that follows it. " * 4
LINE = (0.5, colors.black)
WHOLE = ((0, 0), (-1, -1))
COLOURED_HEADER = ("BACKGROUND", (0, 0), (-1, 0), colors.lightblue)
STYLES = {
    "grid": [("GRID", *WHOLE, *LINE)],
    "only lines inside": [("INNERGRID", *WHOLE, *LINE)],
    "a box, and lines below rows": [("BOX", *WHOLE, *LINE), ("LINEBELOW", (0, 0), (-1, -2), *LINE)],
    "only lines below rows": [("LINEBELOW", *WHOLE, *LINE)],
    "top, middle and bottom": [
        ("LINEABOVE", (0, 0), (-1, 0), *LINE),
        ("LINEBELOW", (0, 0), (-1, 0), *LINE),
        ("LINEBELOW", (0, -1), (-1, -1), *LINE),
    ],
    "a coloured header over white lines": [COLOURED_HEADER, ("GRID", *WHOLE, 0.5, colors.white)],
    "a coloured header over lines below rows": [COLOURED_HEADER, ("LINEBELOW", *WHOLE, *LINE)],
    "coloured rows in a grid": [("ROWBACKGROUNDS", *WHOLE, [colors.whitesmoke, None]), ("GRID", *WHOLE, *LINE)],
}


def made_texts(seed: int) -> Texts:
    """Return a table with a header, names in its first column, and words and numbers in the others."""
    chance = random.Random(seed)
    columns = chance.randint(2, 5)
    header = [" ".join(chance.sample(WORDS, chance.randint(1, 2))).title() for _ in range(columns)]
    rows = [header]
    for number in range(chance.randint(2, 9)):
        texts = [f"{chance.choice(WORDS)} {number}"]
        for column in range(1, columns):
            is_number = (column + seed) % 2 == 0
            texts.append(f"{chance.uniform(1, 99):.1f}" if is_number else " ".join(chance.sample(WORDS, 2)))
        rows.append(texts)
    return rows


def printed(*parts: object) -> bytes:
    """Return the PDF with prose before, between and after the given tables."""
    prose = getSampleStyleSheet()["BodyText"]
    story: list[object] = [Paragraph(PROSE, prose)]
    for part in parts:
        story += [part, Paragraph(PROSE, prose)]
    content = io.BytesIO()
    SimpleDocTemplate(content).build(story)
    return content.getvalue()


@pytest.mark.parametrize("style", STYLES)
def test_98_of_100_cells_are_right_in_every_style_of_lines(style: str) -> None:
    right = total = 0
    for seed in range(6):
        truth = [made_texts(10 * seed), made_texts(10 * seed + 1)]
        content = printed(*(Table(texts, style=TableStyle(STYLES[style])) for texts in truth))
        one, all_of = right_cells(tables_of(content), truth)
        right, total = right + one, total + all_of
    assert right >= 0.98 * total, f"{right} of {total}"


def test_cells_with_several_lines_stay_one_cell_in_a_grid() -> None:
    prose = getSampleStyleSheet()["BodyText"]
    long = "share of the relevant documents that were retrieved by the first stage of the pipeline"
    truth = [["Term", "Meaning", "Remark"], ["Recall", long, "the higher the better it is for all of us"]]
    truth += [["Precision", long, "none"], ["Latency of the query", "time", "the lower the better it is, mostly"]]
    cells = [[Paragraph(text, prose) for text in row] for row in truth]
    content = printed(Table(cells, colWidths=[70, 150, 100], style=TableStyle(STYLES["grid"])))
    assert tables_of(content) == [truth]


def test_a_cell_that_spans_others_has_its_text_in_the_first_place() -> None:
    data = [["All results of the study", "", ""], ["Group", "x", "y"], ["alpha", "1", "2"], ["", "3", "4"]]
    spans = [("SPAN", (0, 0), (2, 0)), ("SPAN", (0, 2), (0, 3)), ("GRID", *WHOLE, *LINE)]
    assert tables_of(printed(Table(data, style=TableStyle(spans)))) == [data]


def test_a_table_that_the_end_of_the_page_cuts_is_a_table_on_both_pages() -> None:
    data = [["Name", "Dose", "Unit"], *([f"drug {number}", str(number), "mg"] for number in range(60))]
    for style in ("grid", "only lines below rows", "top, middle and bottom"):
        first, second = tables_of(printed(Table(data, style=TableStyle(STYLES[style]))))
        assert first + second == data


def test_tables_of_fpdf_are_read() -> None:
    truth = [made_texts(3), made_texts(4)]
    file = FPDF()
    file.add_page()
    file.set_font("helvetica", size=10)
    for texts in truth:
        with file.table(texts, line_height=6):
            pass
        file.ln(8)
    right, total = right_cells(tables_of(bytes(file.output())), truth)
    assert right >= 0.98 * total


def test_a_turned_and_cropped_page_has_the_same_table() -> None:
    truth = [made_texts(5)]
    content = printed(Table(truth[0], style=TableStyle(STYLES["grid"])))
    for turn in (0, 90, 180, 270):
        assert tables_of(content, turn=turn, crop=(20, 30, 580, 780)) == truth


TABULAR = {
    "bars and lines": r"""\begin{tabular}{|l|c|r|} \hline Method & Year & Score \\ \hline\hline BM25 & 1994 & 0.42 \\
        \hline ColBERT & 2020 & 0.51 \\ \hline A longer name & 2021 & 0.7 \\ \hline\end{tabular}""",
    "rules of books": r"""\begin{tabular}{lrr} \toprule Method & Recall & Score \\ \midrule BM25 & 91.2 & 0.42 \\
        ColBERT & 94.0 & 0.51 \\ \multicolumn{3}{l}{\emph{trained on more data than all others}} \\
        E5 & 99.9 & 0.70 \\ \bottomrule\end{tabular}""",
    "wrapped cells": r"""\hyphenpenalty10000 \begin{tabular}{lp{4cm}l} \toprule Term & Meaning & Unit \\ \midrule
        Recall & share of the relevant documents that were found & none \\
        Precision & share of the results that are relevant & ratio \\ \bottomrule\end{tabular}""",
    "groups of columns": r"""\begin{tabular}{lccccc} \hline & \multicolumn{3}{c}{S} & \multicolumn{2}{c}{Second} \\
        \cline{2-4}\cline{5-6} Model & Precision & Recall & Fone & P & R \\ \hline A & 1 & 2 & 3 & 4 & 5 \\
        B & 6 & 7 & 8 & 9 & 10 \\ \hline\end{tabular}""",
    "groups of rows": r"""\begin{tabular}{|l|c|c|} \hline Group & x & y \\ \hline alpha & 12 & 13 \\ beta & 14 & 15 \\
        \hline gamma & 1 & 2 \\ delta & 3 & 4 \\ \hline \end{tabular}""",
    "a cross without sides": r"""\begin{tabular}{l|r} Name & Place \\ \hline Ann & Rome \\ Bob & Paris \\
        Cid & Athens \\ \end{tabular}""",
}
SET = {
    "bars and lines": "Method|Year|Score; BM25|1994|0.42; ColBERT|2020|0.51; A longer name|2021|0.7",
    "rules of books": "Method|Recall|Score; BM25|91.2|0.42; ColBERT|94.0|0.51; "
    "trained on more data than all others||; E5|99.9|0.70",
    "wrapped cells": "Term|Meaning|Unit; Recall|share of the relevant documents that were found|none; "
    "Precision|share of the results that are relevant|ratio",
    "groups of columns": "||S||Second|; Model|Precision|Recall|Fone|P|R; A|1|2|3|4|5; B|6|7|8|9|10",
    "groups of rows": "Group|x|y; alpha|12|13; beta|14|15; gamma|1|2; delta|3|4",
    "a cross without sides": "Name|Place; Ann|Rome; Bob|Paris; Cid|Athens",
}


@pytest.mark.parametrize("name", TABULAR)
def test_tables_of_latex_are_read(name: str, typeset: Callable[[str], bytes]) -> None:
    truth = [row.split("|") for row in SET[name].split("; ")]
    assert tables_of(typeset(f"{PROSE}\n\n\\bigskip {TABULAR[name]}\n\n\\bigskip {PROSE}")) == [truth]


def put_grid(canvas: Canvas, texts: Texts) -> None:
    """Draw a table in the corner of the page."""
    drawn = Table(texts, style=TableStyle(STYLES["grid"]))
    drawn.wrapOn(canvas, 500, 400)
    drawn.drawOn(canvas, 0, 0)


def test_a_table_that_lies_on_its_side_is_read_along_its_text() -> None:
    def page(canvas: Canvas) -> None:
        canvas.translate(300, 100)
        canvas.rotate(90)
        put_grid(canvas, made_texts(7))

    assert tables_of(draw(page)) == [made_texts(7)]


def test_a_table_inside_a_scaled_form_is_read() -> None:
    def page(canvas: Canvas) -> None:
        canvas.beginForm("table")
        put_grid(canvas, made_texts(8))
        canvas.endForm()
        canvas.translate(50, 300)
        canvas.scale(0.8, 0.8)
        canvas.doForm("table")

    assert tables_of(draw(page)) == [made_texts(8)]
