"""A page of a document as its parser sees it: blocks in reading order, with kinds and boxes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.assemble import documents
from retrieve_cli.assemble.documents import shared_reader
from retrieve_cli.contracts import HEAD, DocumentFile, Json, Parsed
from retrieve_cli.contracts.layout import DocumentPage, Layout, Mark, Words, cell_boxes, surrounding
from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import BadDocument, Unavailable, UsageError, quoted, shortened
from retrieve_cli.operations.text import aligned
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts.layout import Box

SCHEMA_VERSION = 1
_WORDS = 60
"""Characters of a block that are shown."""
_NAMED = 8
"""Labels that an error names."""


class PageView(NamedTuple):
    """A page of a file, and the values that are printed."""

    values: dict[str, Json]
    marks: Sequence[Mark]
    file: DocumentFile

    def picture(self, settings: Settings) -> bytes:
        """Return a PNG of the page with its blocks.

        Raises:
            UsageError: the file is not a PDF.
            Unavailable: a package is missing.
        """
        if self.values["kind"] != documents.DRAWN:
            raise UsageError(f"pages of {self.values['kind']} files cannot be drawn", hint="--picture takes a PDF")
        try:
            return documents.draw(self.file, [self.values["page"]], settings=settings, marks=self.marks)
        except BadDocument as error:
            raise UsageError(f"{self.values['file']}: {error.message}", hint=error.hint) from error


def page_view(path: Path, name: str, settings: Settings, *, label: bool) -> PageView:
    """Return a page of a file by its number or its printed label; with `label`, by its label alone.

    Raises:
        UsageError: the file cannot be read, has no pages, or does not have that page.
        Unavailable: a package is missing.
    """
    file, kind, parsed = _parsed(path, settings)
    layout = parsed.layout
    if layout is None:
        raise UsageError(f"{path} has no structure to show", hint="inspect page takes a document")
    pages = layout.pages or (DocumentPage(1, "", 0.0, 0.0, 0, len(parsed.text)),)
    page = _page(pages, name, path, label=label)
    blocks = list(_blocks(parsed.text, layout, page))
    values: dict[str, Json] = {
        "schema_version": SCHEMA_VERSION,
        "file": str(path),
        "kind": kind,
        "page": page.index,
        "label": page.label or None,
        "pages": len(pages),
        "width": round(page.width, 1),
        "height": round(page.height, 1),
        "image_only": page.image_only,
        "blocks": [values for values, _ in blocks],
        "dropped": [
            {"reason": part.reason, "text": part.text} for part in parsed.dropped if part.page in (0, page.index)
        ],
    }
    return PageView(values, [mark for _, marks in blocks for mark in marks], file)


def page_lines(view: Mapping[str, Json]) -> Iterator[str]:
    """Yield the page, and its blocks as a table."""
    label = "" if view["label"] is None else f", printed {shortened(view['label'])}"
    size = f", {view['width']:g} × {view['height']:g} points" if view["width"] else ""
    blocks = figures.count(len(view["blocks"]), "block")
    yield f"{shortened(view['file'])}: page {view['page']} of {view['pages']:,}{label}{size}, {blocks}"
    if view["image_only"]:
        yield "the page has no text layer"
    if view["blocks"]:
        rows = [_row(block) for block in view["blocks"]]
        yield from aligned(("#", "kind", "box", "text"), rows, right=(0,))
    for part in view["dropped"]:
        yield f"skipped {part['reason']}: {shortened(part['text'], _WORDS)}"


def _row(block: Mapping[str, Json]) -> tuple[str, str, str, str]:
    kind = f"{block['kind']} {block['level']}" if block["level"] else block["kind"]
    box = block["box"]
    cells = block.get("cells")
    extent = f" {len(cells)}×{max(map(len, cells))}" if cells else ""
    place = "" if box is None else f"{box[0]:g},{box[1]:g} – {box[2]:g},{box[3]:g}"
    return str(block["number"]), f"{kind}{extent}", place, block["text"]


def _parsed(path: Path, settings: Settings) -> tuple[DocumentFile, str, Parsed]:
    reader = shared_reader(settings)
    try:
        with files.open_regular(path) as file:
            kind = reader.format_of(path.name, file.read(HEAD))
        if kind is None:
            raise UsageError(
                f"{path} is not a document of a known format", hint=f"formats: {', '.join(reader.formats)}"
            )
        sha1 = files.sha1_of(path, limit=reader.max_bytes(kind))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="check the path and its permissions") from error
    if reason := reader.lacks(kind):
        raise Unavailable(reason, hint="pip install 'retrieve-cli[documents]'")
    document = DocumentFile(path, sha1)
    try:
        return document, kind, reader.begin(document, kind, name=path.name).result()
    except BadDocument as error:
        raise UsageError(f"{path}: {error.message}", hint=error.hint) from error


def _page(pages: Sequence[DocumentPage], name: str, path: Path, *, label: bool) -> DocumentPage:
    """Return the page of a number, or of a printed label; a number that is both counts as a page number."""
    if not label and name.isascii() and name.isdigit() and len(name) < 9 and 1 <= int(name) <= len(pages):
        return pages[int(name) - 1]
    for page in pages:
        if page.label and page.label.casefold() == name.casefold():
            return page
    labels = [page.label for page in pages if page.label]
    printed = (
        f"; printed labels: {shortened(', '.join(labels[:_NAMED]))}{' …' * (len(labels) > _NAMED)}" if labels else ""
    )
    raise UsageError(f"{path} has no page {quoted(name)}", hint=f"its pages are 1 to {len(pages):,}{printed}")


def _blocks(text: str, layout: Layout, page: DocumentPage) -> Iterator[tuple[dict[str, Json], list[Mark]]]:
    """Yield the blocks of a page in reading order: their values, and their marks on the picture."""
    words = layout.words or Words()
    number = 0
    for block in layout.blocks:
        start, end = max(block.start, page.start), min(block.end, page.end)
        if start >= end:
            continue
        number += 1
        box = surrounding(words.boxes(start, end), page.index)
        cells = cell_boxes(text, block, words=words, page=page.index) if block.kind == "table" else []
        marks = [Mark(cell, "cell") for row in cells for cell in row if cell is not None]
        if box is not None:
            level = f" {block.level}" if block.level else ""
            marks.append(Mark(box, block.kind, f"{number} {block.kind}{level}"))
        values: dict[str, Json] = {
            "number": number,
            "kind": block.kind,
            "level": block.level,
            "start": block.start,
            "end": block.end,
            "box": _corners(box),
            "text": shortened(text[start:end], _WORDS),
        }
        if cells:
            values["cells"] = [[_corners(cell) for cell in row] for row in cells]
        yield values, marks


def _corners(box: Box | None) -> list[float] | None:
    return None if box is None else [round(value, 1) for value in box[1:]]
