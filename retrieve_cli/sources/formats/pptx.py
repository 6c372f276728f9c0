"""PowerPoint files: slides as pages, by python-pptx and the reader of HTML. Links are not followed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from html import escape
from typing import Any

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import DocumentPage, Dropped, Layout
from retrieve_cli.errors import BadDocument, shortened
from retrieve_cli.frozen import replace
from retrieve_cli.sources.formats.archive import Archive
from retrieve_cli.sources.formats.composed import joined, piece, properties
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.html.html_reading import html_document

_POINT = 12_700
_TEXT = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_CHOICE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent"
_DIAGRAM = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}dm"
_REPEATED = ("FOOTER", "SLIDE_NUMBER", "DATE")
"""Kinds of placeholders with the same words on every slide."""


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return the slides in order. The title of a slide is a heading: of level 1 if its layout is for titles or for
    sections, else of level 2.

    Raises:
        BadDocument: it is damaged, encrypted, of another kind, or exceeds a limit.
    """
    from pptx import Presentation

    archive = Archive(content, limits, suffix=".pptx")
    package = archive.repacked(name for name in archive.names if name.endswith((".xml", ".rels")))
    parts = []
    try:
        deck = Presentation(package)
        slides = list(deck.slides)
        size = (deck.slide_width or 0) / _POINT, (deck.slide_height or 0) / _POINT
        for number, slide in enumerate(slides[: limits.max_pages], 1):
            on_page(number)
            parts.append(_page(slide, number, size))
        hidden = sum(slide.element.get("show") == "0" for slide in slides)
    except Exception as error:
        raise BadDocument(f"it is not a complete presentation: {shortened(str(error))}") from error
    if len(slides) > limits.max_pages:
        raise BadDocument(f"it has {len(slides):,} slides; the limit is {limits.max_pages:,}")
    metadata = properties(archive, "docProps/core.xml")
    if "powerpoint" in str(metadata.get("title")).casefold():  # the title of the program's template
        del metadata["title"]
    notice = f"{hidden} of {len(slides)} slides {'is' if hidden == 1 else 'are'} hidden: indexed as well"
    return replace(joined(parts), metadata=metadata, notices=(notice,) if hidden else ())


def _page(slide: Any, number: int, size: tuple[float, float]) -> Parsed:
    """Return a slide: its title, the texts of its shapes in their order in the file, and its notes."""
    for node in list(slide.element.iter(_CHOICE)):
        for child in [child for choice in node[:1] for child in choice]:
            node.addprevious(child)
    level = 1 if slide.slide_layout.element.get("type") in ("title", "secHead") else 2
    title = slide.shapes.title
    words = "" if title is None else " ".join(title.text_frame.text.split())
    pieces, dropped = [], []
    for shape in _shapes(slide.shapes):
        place = shape.placeholder_format.type.name if shape.is_placeholder else ""
        if place in _REPEATED or shape.element.tag.endswith("}pic"):
            text = shape.text_frame.text if shape.has_text_frame else shape.name
            dropped.append(Dropped("footer" if place in _REPEATED else "picture", text, number))
        elif title is None or shape.shape_id != title.shape_id:
            pieces.append(_html(shape, in_list=level == 2 and place.endswith(("BODY", "OBJECT"))))
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if notes is not None and notes.text.strip():
        pieces.append(f"<p>Notes: {_lines(notes.text.strip())}</p>")
    html = f"<h{level}>{escape(words or f'Slide {number}')}</h{level}>{''.join(pieces)}"
    made = html_document(html, main_content=False, title=words) if words or any(pieces) else piece("")
    page = DocumentPage(number, "", *size, 0, len(made.text), image_only=not made.text, alone=True)
    layout = Layout(made.layout.blocks if made.layout else (), [page])
    return replace(made, layout=layout, dropped=(*dropped, *made.dropped))


def _shapes(shapes: Iterable[Any]) -> Iterator[Any]:
    """Yield shapes, and in place of groups their shapes."""
    for shape in shapes:
        inner = getattr(shape, "shapes", None)
        yield from [shape] if inner is None else _shapes(inner)


def _html(shape: Any, *, in_list: bool) -> str:
    """Return the text of a shape: a table, a chart with its values, a diagram, or paragraphs."""
    if getattr(shape, "has_table", False):
        rows = ([cell for cell in row.cells if not cell.is_spanned] for row in shape.table.rows)
        return _table([(cell.text, cell.span_height, cell.span_width) for cell in row] for row in rows)
    if getattr(shape, "has_chart", False):
        return _chart(shape.chart.element)
    diagram = next((node.get(_DIAGRAM) for node in shape.element.iter() if node.get(_DIAGRAM)), None)
    if diagram is None:
        return _paragraphs(shape.element, in_list=in_list)
    from pptx.oxml import parse_xml

    return _paragraphs(parse_xml(shape.part.related_part(diagram).blob), in_list=True)


def _chart(chart: Any) -> str:
    """Return the titles of a chart of any type and its axes, and the values of its series by category."""
    columns: list[dict[int, str]] = []
    for series in chart.iter(f"{_CHART}ser"):
        names = [value.text for part in series.iter(f"{_CHART}tx") for value in part.iter(f"{_CHART}v")]
        columns += [{-1: ""} | _points(series, "cat", "xVal")] * (not columns)
        columns.append({-1: "".join(names[:1])} | _points(series, "val", "yVal"))
    numbers = sorted({number for column in columns for number in column})
    titles = "".join(_paragraphs(title, in_list=False) for title in chart.iter(f"{_CHART}title"))
    return titles + _table([(column.get(number, ""), 1, 1) for column in columns] for number in numbers)


def _points(series: Any, *names: str) -> dict[int, str]:
    """Return the values of a series, or of its categories, by their numbers."""
    points = (point for name in names for part in series.iter(_CHART + name) for point in part.iter(f"{_CHART}pt"))
    return {int(point.get("idx")): "".join(point.itertext()).strip() for point in points}


def _table(rows: Iterable[Iterable[tuple[str, int, int]]]) -> str:
    """Return a table of cells with the rows and columns that each spans; the first row is the header."""
    pieces = ["<table>"]
    for number, row in enumerate(rows):
        tag = "td" if number else "th"
        pieces += ["<tr>", *(f"<{tag} rowspan={height} colspan={width}>{_lines(text)}" for text, height, width in row)]
    return "".join([*pieces, "</table>"])


def _paragraphs(text: Any, *, in_list: bool) -> str:
    """Return the paragraphs and nested lists of a text."""
    pieces, tags = [], list[str]()
    for paragraph in text.iter(f"{_TEXT}p"):
        style = paragraph.find(f"{_TEXT}pPr")
        marks = set() if style is None else {str(node.tag).removeprefix(_TEXT) for node in style}
        item = (in_list and "buNone" not in marks) or not marks.isdisjoint(("buChar", "buAutoNum", "buBlip"))
        depth = 1 + int("0" if style is None else style.get("lvl", "0")) if item else 0
        if words := _words(paragraph).strip():
            pieces += [f"</{tag}>" for tag in reversed(tags[depth:])]
            added = ["ol" if "buAutoNum" in marks else "ul"] * (depth - len(tags))
            tags = [*tags[:depth], *added]
            pieces += [*(f"<{tag}>" for tag in added), f"<li>{words}" if item else f"<p>{words}</p>"]
    return "".join([*pieces, *(f"</{tag}>" for tag in reversed(tags))])


def _words(paragraph: Any) -> str:
    """Return the words of a paragraph, also of its equations, with raised and lowered ones marked."""
    pieces = []
    for node in paragraph.iter():
        if node.tag == f"{_TEXT}br":
            pieces.append("<br>")
        elif str(node.tag).endswith("}t"):
            run = node.getparent()
            style = None if run is None else run.find(f"{_TEXT}rPr")
            rise = "" if style is None else style.get("baseline", "").strip("0%")
            mark = "sub" if rise.startswith("-") else "sup"
            pieces.append(f"<{mark}>{escape(node.text or '')}</{mark}>" if rise else escape(node.text or ""))
    return "".join(pieces)


def _lines(text: str) -> str:
    return escape(text).replace("\v", "<br>").replace("\n", "<br>")
