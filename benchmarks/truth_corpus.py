"""Documents whose words, order, headings and rows are known: one tree of blocks, written in every format.

A document is made from its number alone, so that two checkouts read the same files. Numbers in it have three digits or
more: shorter ones are marks of lists, of references and of pages, which no measure counts.
"""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import NamedTuple

VOWELS, CONSONANTS = "aeiou", "bdfgklmnprstvz"
BODY, NOTES = 6, 14
"""Paragraphs before the notes, which stand beside them on a page of two columns, and notes."""


class Node(NamedTuple):
    """A block: heading, paragraph, note (in small print), list, numbers (a numbered list), table or code."""

    kind: str
    text: str = ""
    level: int = 0
    items: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    ruled: bool = False


class Made(NamedTuple):
    """A document; its number decides its layout."""

    number: int
    nodes: Sequence[Node]

    @property
    def title(self) -> str:
        """Text of its first heading."""
        return self.nodes[0].text


class Truth(NamedTuple):
    """Contents of a document in the order of reading."""

    text: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def truth_of(nodes: Sequence[Node]) -> Truth:
    """Return the contents that a reader should find."""
    rows = [row for node in nodes for row in node.rows]
    texts = [" ".join((node.text, *node.items, *(cell for row in node.rows for cell in row))) for node in nodes]
    return Truth("\n".join(texts), [node.text for node in nodes if node.kind == "heading"], rows)


# ------------------------------------------------------------------------------------------------ the generator


class _Writer:
    """Words, sentences and blocks from a seed; most words occur once."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(f"truth {seed}")

    def word(self, syllables: int = 0) -> str:
        """Return an invented word."""
        count = syllables or self._dice.choice((2, 3, 3, 4))
        return "".join(self._dice.choice(CONSONANTS) + self._dice.choice(VOWELS) for _ in range(count))

    def words(self, count: int) -> str:
        return " ".join(self.word() for _ in range(count)).capitalize()

    def text(self, sentences: int) -> str:
        return " ".join(f"{self.words(self._dice.randint(6, 14))}." for _ in range(sentences))

    def table(self, rows: int, *, ruled: bool) -> Node:
        """Return a table with a column of names and columns of numbers."""
        columns = self._dice.choice((2, 3, 3))
        head = [self.word(3).capitalize() for _ in range(columns + 1)]
        body = [[self.word(2), *(str(self._dice.randint(100, 9999)) for _ in range(columns))] for _ in range(rows)]
        return Node("table", rows=[head, *body], ruled=ruled)

    def code(self) -> str:
        lines = [f"def {self.word()}({self.word(2)}):"]
        lines += [f"    {self.word(2)} = {self.word(3)} + {self._dice.randint(100, 999)}" for _ in range(4)]
        return "\n".join(lines)

    def section(self, level: int) -> list[Node]:
        """Return a heading, paragraphs and blocks between them."""
        nodes = [Node("heading", self.words(self._dice.randint(2, 5)), level)]
        for _ in range(self._dice.randint(1, 3)):
            nodes.append(Node("paragraph", self.text(self._dice.randint(2, 5))))
            items = [self.words(self._dice.randint(3, 12)) for _ in range(self._dice.randint(2, 5))]
            ruled, rows = self._dice.random() < 0.5, self._dice.randint(3, 9)
            block = self._dice.choice(("list", "numbers", "table", "table", "code", ""))
            if block == "table":
                nodes.append(self.table(rows, ruled=ruled))
            elif block == "code":
                nodes.append(Node("code", self.code()))
            elif block:
                nodes.append(Node(block, items=items))
        return nodes


def document(number: int) -> Made:
    """Return a document of two or three pages, the same on every run."""
    writer = _Writer(number)
    nodes = [Node("heading", writer.words(5), 1), Node("paragraph", writer.text(4))]
    for part in range(7):
        nodes += writer.section(2 if part % 3 == 0 else 3)
    nodes.append(writer.table(30, ruled=number % 2 == 0))
    for blocks in (BODY, 0):
        nodes.append(Node("heading", writer.words(1), 2))
        nodes += [Node("paragraph", writer.text(3)) for _ in range(blocks)]
    nodes += [Node("note", f"[{place}] {writer.text(2)}") for place in range(1, NOTES + 1)]
    return Made(number, nodes)


# -------------------------------------------------------------------------------------------------- the writers


def _typst(made: Made, *, columns: int) -> bytes:
    """Return a PDF by typst: odd ones have a running head and are justified; in the others, notes begin a column."""
    import typst

    quoted = partial(json.dumps, ensure_ascii=False)
    odd, body = made.number % 2, []
    for node in made.nodes:
        listed = ", ".join(map(quoted, node.items))
        cells = ", ".join(quoted(cell) for row in node.rows for cell in row)
        form = f"columns: {len(node.rows[0]) if node.rows else 1}, stroke: {'0.5pt' if node.ruled else 'none'}"
        body.append({
            "heading": f"#heading(level: {node.level}, {quoted(node.text)})",
            "note": f"#block(text(size: 8pt, {quoted(node.text)}))",
            "list": f"#list({listed})",
            "numbers": f"#enum({listed})",
            "table": f"#table({form}, {cells})",
            "code": f"#raw(block: true, {quoted(node.text)})",
        }.get(node.kind, f"#par({quoted(node.text)})"))  # fmt: skip
    if columns == 2 and not odd:
        body.insert(-NOTES - 1, "#colbreak(weak: true)")
        body.insert(-NOTES - BODY - 3, "#pagebreak(weak: true)")
    head = f'header: "Annals of the made papers", numbering: "1", columns: {columns}' if odd else f"columns: {columns}"
    rules = [f'#set page(paper: "a4", {head})', f"#set par(justify: {str(bool(odd)).lower()})", "#set text(size: 10pt)"]
    return typst.compile("\n\n".join((*rules, *body)).encode(), ignore_system_fonts=True)


def _fpdf(made: Made) -> bytes:
    """Return a PDF by fpdf2 in one column."""
    from fpdf import FPDF

    pdf = FPDF(format="A4")
    pdf.set_creation_date(datetime(2026, 1, 1, tzinfo=UTC))
    pdf.add_page()
    for node in made.nodes:
        size = {"heading": 20 - 3 * node.level, "note": 8}.get(node.kind, 10)
        family = "Courier" if node.kind == "code" else "Times"
        pdf.set_font(family, style="B" if node.kind == "heading" else "", size=size)
        if node.rows:
            with pdf.table(borders_layout="ALL" if node.ruled else "NONE", width=120) as table:
                for row in node.rows:
                    table.row(row)
        marks = [f"{place}." if node.kind == "numbers" else "-" for place in range(1, len(node.items) + 1)]
        for line in (node.text, *map(" ".join, zip(marks, node.items, strict=True))):
            if line:
                pdf.multi_cell(0, text=line, new_x="LMARGIN", new_y="NEXT")
        pdf.ln(3)
    return bytes(pdf.output())


def _docx(made: Made) -> bytes:
    from docx import Document

    word, target = Document(), io.BytesIO()
    for node in made.nodes:
        if node.kind == "heading":
            word.add_heading(node.text, node.level)
        elif node.rows:
            table = word.add_table(0, len(node.rows[0]))
            for row in node.rows:
                for cell, text in zip(table.add_row().cells, row, strict=True):
                    cell.text = text
        elif node.items:
            for item in node.items:
                word.add_paragraph(item, style="List Number" if node.kind == "numbers" else "List Bullet")
        else:
            word.add_paragraph(node.text)
    word.save(target)
    return target.getvalue()


def _pptx(made: Made) -> bytes:
    """Return slides, one for each heading."""
    from pptx import Presentation
    from pptx.util import Cm

    shown, target, top = Presentation(), io.BytesIO(), 5.0
    for node in made.nodes:
        if node.kind == "heading":
            slide, top = shown.slides.add_slide(shown.slide_layouts[5]), 5.0
            slide.shapes.title.text = node.text
            continue
        size = Cm(1), Cm(top), Cm(20), Cm(1)
        if node.rows:
            table = slide.shapes.add_table(len(node.rows), len(node.rows[0]), *size).table
            for place, row in enumerate(node.rows):
                for column, text in enumerate(row):
                    table.cell(place, column).text = text
        else:
            slide.shapes.add_textbox(*size).text_frame.text = "\n".join((node.text, *node.items)).strip("\n")
        top += 2.0
    shown.save(target)
    return target.getvalue()


def _body(nodes: Sequence[Node]) -> str:
    """Return the blocks as HTML."""
    parts: list[str] = []
    for node in nodes:
        items = "".join(f"<li>{item}</li>" for item in node.items)
        rows = ["".join(f"<td>{cell}</td>" for cell in row) for row in node.rows]
        rows[:1] = [row.replace("td>", "th>") for row in rows[:1]]
        parts.append({
            "heading": f'<h{node.level} id="part-{len(parts)}">{node.text}</h{node.level}>',
            "list": f"<ul>{items}</ul>",
            "numbers": f"<ol>{items}</ol>",
            "table": f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>",
            "code": f"<pre><code>{node.text}</code></pre>",
        }.get(node.kind, f"<p>{node.text}</p>"))  # fmt: skip
    return "\n".join(parts)


def _html(made: Made) -> bytes:
    """Return a page with navigation; every other one names its main part."""
    main = "main" if made.number % 2 else "div"
    site = "<nav><ul><li><a href='/'>Home</a></li><li><a href='/all'>All pages</a></li></ul></nav>"
    page = f"<title>{made.title}</title></head><body>{site}<{main}>\n{_body(made.nodes)}\n</{main}></body></html>"
    return f"<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>{page}".encode()


def _markdown(made: Made) -> bytes:
    return "\n\n".join(map(_block, made.nodes)).encode() + b"\n"


def _block(node: Node) -> str:
    """Return a block as Markdown."""
    if node.rows:
        head, *rows = (f"| {' | '.join(row)} |" for row in node.rows)
        return "\n".join((head, "|---" * len(node.rows[0]) + "|", *rows))
    if node.items:
        marks = [f"{place}." if node.kind == "numbers" else "-" for place in range(1, len(node.items) + 1)]
        return "\n".join(map(" ".join, zip(marks, node.items, strict=True)))
    text = node.text.replace("[", "\\[")
    return {"heading": f"{'#' * node.level} {text}", "code": f"```python\n{node.text}\n```"}.get(node.kind, text)


def _rst(made: Made) -> bytes:
    parts = []
    for node in made.nodes:
        if node.kind == "heading":
            parts.append(f"{node.text}\n{'=-~'[node.level - 1] * len(node.text)}")
        elif node.rows:
            widths = [max(map(len, column)) for column in zip(*node.rows, strict=True)]
            head, *rows = ("  ".join(map(str.ljust, row, widths)) for row in node.rows)
            rule = "  ".join("=" * width for width in widths)
            parts.append("\n".join((rule, head, rule, *rows, rule)))
        elif node.kind == "code":
            parts.append(".. code-block:: python\n\n   " + node.text.replace("\n", "\n   "))
        else:
            parts.append(_block(node).replace("\\[", "\\["))
    return "\n\n".join(parts).encode() + b"\n"


def _odt(made: Made) -> bytes:
    """Return what docutils writes of reStructuredText."""
    from docutils.core import publish_string
    from docutils.writers import odf_odt

    styles = str(Path(odf_odt.__file__).resolve().with_name("styles.odt"))
    options = {"report_level": 5, "syntax_highlight": "none", "stylesheet": styles}
    written = publish_string(_rst(made).decode(), writer="odt", settings_overrides=options)
    return bytes(written)


def _epub(made: Made) -> bytes:
    """Return a book, one file for each section; the files are stored in another order than they are read."""
    starts = [place for place, node in enumerate(made.nodes) if node.level in (1, 2)]
    ends = [*starts[1:], len(made.nodes)]
    chapters = {f"c{start:03}": _body(made.nodes[start:end]) for start, end in zip(starts, ends, strict=True)}
    items = "".join(f'<item id="{n}" href="{n}.xhtml" media-type="application/xhtml+xml"/>' for n in chapters)
    spine = "".join(f'<itemref idref="{name}"/>' for name in chapters)
    about = f"<metadata xmlns:dc='http://purl.org/dc/elements/1.1/'><dc:title>{made.title}</dc:title></metadata>"
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as book:
        book.writestr("mimetype", "application/epub+zip")
        for name in reversed(chapters):
            head = f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>{made.title}</title></head>'
            book.writestr(f"OPS/{name}.xhtml", f"{head}<body>{chapters[name]}</body></html>")
        package = f"{about}<manifest>{items}</manifest><spine>{spine}</spine></package>"
        book.writestr("OPS/b.opf", f'<package xmlns="http://www.idpf.org/2007/opf" version="3.0">{package}')
        root = '<rootfiles><rootfile full-path="OPS/b.opf" media-type="application/oebps-package+xml"/></rootfiles>'
        names = 'xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"'
        book.writestr("META-INF/container.xml", f"<container {names}>{root}</container>")
    return target.getvalue()


def _eml(made: Made) -> bytes:
    """Return a mail whose text is HTML, with a file attached."""
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = made.title, "ada@example.org", "bob@example.org"
    mail["Date"] = "Mon, 01 Jun 2026 10:00:00 +0000"
    mail.set_content(_html(made).decode(), subtype="html")
    mail.add_attachment(b"\0\1", maintype="application", subtype="octet-stream", filename="data.bin")
    return mail.as_bytes()


def _notebook(made: Made) -> bytes:
    cells: list[dict[str, object]] = []
    for node in made.nodes:
        if node.kind == "code":
            empty: dict[str, object] = {"execution_count": None, "metadata": {}, "outputs": []}
            cells.append({"cell_type": "code", "source": node.text, **empty})
        else:
            cells.append({"cell_type": "markdown", "source": _block(node), "metadata": {}})
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


WRITERS: Mapping[str, tuple[str, Callable[[Made], bytes]]] = {
    "pdf-1": (".pdf", partial(_typst, columns=1)),
    "pdf-2": (".pdf", partial(_typst, columns=2)),
    "pdf-fpdf": (".pdf", _fpdf),
    "docx": (".docx", _docx),
    "pptx": (".pptx", _pptx),
    "html": (".html", _html),
    "epub": (".epub", _epub),
    "eml": (".eml", _eml),
    "markdown": (".md", _markdown),
    "notebook": (".ipynb", _notebook),
    "odt": (".odt", _odt),
    "rst": (".rst", _rst),
}
"""For each kind of file, its suffix and what writes it: PDF of one and of two columns, and others."""


def write_corpus(folder: Path, count: int, kinds: Sequence[str] = tuple(WRITERS)) -> dict[Path, Truth]:
    """Write documents of each kind; return the files with what they hold."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus = {}
    for kind in kinds:
        suffix, write = WRITERS[kind]
        for number in range(count):
            made, path = document(number), folder / f"{kind}_{number:02}{suffix}"
            path.write_bytes(write(made))
            corpus[path] = truth_of(made.nodes)
    return corpus
