"""PowerPoint files: slides as pages, by python-pptx. Links are not followed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from html import escape
from itertools import groupby
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
_BULLETS = ("buChar", "buAutoNum", "buBlip")
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
    parts, dropped = list[Parsed](), list[Dropped]()
    for shape in _shapes(slide.shapes):
        place = shape.placeholder_format.type.name if shape.is_placeholder else ""
        if place in _REPEATED or shape.element.tag.endswith("}pic"):
            text = shape.text_frame.text if shape.has_text_frame else shape.name
            dropped.append(Dropped("footer" if place in _REPEATED else "picture", text, number))
        elif title is None or shape.shape_id != title.shape_id:
            parts += _parts(shape, in_list=level == 2 and place.endswith(("BODY", "OBJECT")))
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if notes is not None and notes.text.strip():
        parts.append(piece(f"Notes: {notes.text.strip()}"))
    heading = words or f"Slide {number}" * any(part.text for part in parts)
    made = joined([piece(heading, "heading", level=level), *parts])
    page = DocumentPage(number, "", *size, 0, len(made.text), image_only=not made.text, alone=True)
    layout = Layout(made.layout.blocks if made.layout else (), [page])
    return replace(made, title=words, layout=layout, dropped=(*dropped, *made.dropped))


def _shapes(shapes: Iterable[Any]) -> Iterator[Any]:
    """Yield shapes, and in place of groups their shapes."""
    for shape in shapes:
        inner = getattr(shape, "shapes", None)
        yield from [shape] if inner is None else _shapes(inner)


def _parts(shape: Any, *, in_list: bool) -> Iterator[Parsed]:
    """Yield the text of a shape: a table, titles and values of a chart, a diagram, or paragraphs."""
    from pptx.oxml import parse_xml

    if getattr(shape, "has_table", False):
        yield _table(shape.table)
    elif getattr(shape, "has_chart", False):
        yield from _paragraphs(shape.chart.element, in_list=False)
        for series in shape.chart.element.iter(f"{_CHART}ser"):
            yield piece(" ".join(value.text or "" for value in series.iter(f"{_CHART}v")))
    else:
        yield from _paragraphs(shape.element, in_list=in_list)
        for name in shape.element.xpath(".//@r:dm"):
            yield from _paragraphs(parse_xml(shape.part.related_part(name).blob), in_list=True)


def _table(table: Any) -> Parsed:
    """Return a table; the first row is the header, and merged cells have their text in each row and column."""
    html, texts = "<table>", ""
    for number, row in enumerate(table.rows):
        tag = "td" if number else "th"
        html += "<tr>"
        for cell in row.cells:
            if not cell.is_spanned:
                texts += cell.text
                html += f"<{tag} rowspan={cell.span_height} colspan={cell.span_width}>{escape(cell.text)}"
    return html_document(html, main_content=False) if texts.strip() else piece("")


def _paragraphs(text: Any, *, in_list: bool) -> Iterator[Parsed]:
    """Yield the paragraphs and lists of a text."""
    lines = [_line(paragraph, in_list=in_list) for paragraph in text.iter(f"{_TEXT}p")]
    for is_list, group in groupby((line for line in lines if line[1]), lambda line: line[0]):
        texts = [words for _, words in group]
        yield from [piece("\n".join(texts), "list")] if is_list else map(piece, texts)


def _line(paragraph: Any, *, in_list: bool) -> tuple[bool, str]:
    """Return whether a paragraph is an item of a list, and its words, raised and lowered ones marked."""
    style = paragraph.find(f"{_TEXT}pPr")
    marks = set() if style is None else {str(node.tag).removeprefix(_TEXT) for node in style}
    item = (in_list and "buNone" not in marks) or not marks.isdisjoint(_BULLETS)
    text = ""
    for node in paragraph.iter():
        if node.tag == f"{_TEXT}br":
            text += " " if item else "\n"
        elif str(node.tag).endswith("}t"):
            run = node.getparent().find(f"{_TEXT}rPr")
            rise = "" if run is None else run.get("baseline", "").strip("0%")
            text += ("_" if rise.startswith("-") else "^") * bool(rise) + (node.text or "")
    words = "\n".join(" ".join(line.split()) for line in text.strip().split("\n"))
    if not item or not words:
        return False, words
    level = int("0" if style is None else style.get("lvl", "0"))
    return True, "  " * level + "- " + words
