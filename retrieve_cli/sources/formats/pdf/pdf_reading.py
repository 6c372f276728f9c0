"""PDF: bytes -> text in reading order with blocks, pages, their printed labels, and the place of every word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import DocumentPage, Dropped, Layout
from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.pdf.headings import PageLines, body_style, headings_of, outline_of
from retrieve_cli.sources.formats.pdf.metadata import metadata_of, printed_title
from retrieve_cli.sources.formats.pdf.page import PageText, empty_page, read_page
from retrieve_cli.sources.formats.pdf.paragraphs import Draft, drafts_of
from retrieve_cli.sources.formats.pdf.running import remove_running
from retrieve_cli.sources.formats.pdf.writing import PdfTextWriter

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

    from retrieve_cli.sources.formats.formats import ParsingLimits
    from retrieve_cli.sources.formats.pdf.words import PageWords

_OCR = "run `ocrmypdf IN.pdf OUT.pdf`, which adds a text layer"
_LONGEST_LABEL, _LONGEST_DROPPED = 40, 80
_FEW_WORDS, _FREE = 150, 0.2  # words of a slide or form, and the share of its area that they take, at most
_MOST_NAMED = 20  # ranges of pages that a notice names


def parse(
    content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None], sidecar: bytes | None = None
) -> Parsed:
    """Return the text of a PDF file.

    `sidecar` is the text of its pages with form feeds between them, as `ocrmypdf --sidecar` writes it: it replaces the
    text layer of pages that have none. `on_page` is called before each page.

    Raises:
        BadDocument: it is damaged or encrypted, has too many pages or no text.
    """
    document = _open(content)
    try:
        if len(document) > limits.max_pages:
            raise BadDocument(f"it has {len(document)} pages, more than {limits.max_pages}")
        texts = (sidecar or b"").decode("utf-8-sig", "replace").split("\f")
        supplied = {index: text for index, text in enumerate(texts, start=1) if text.strip()}
        return _parsed(document, name, on_page, supplied)
    finally:
        document.close()


def _open(content: bytes) -> PdfDocument:
    from pypdfium2 import PdfDocument, PdfiumError
    from pypdfium2.raw import FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY

    try:
        return PdfDocument(content)
    except PdfiumError as error:
        if error.err_code in {FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY}:
            raise BadDocument("it is encrypted", hint="remove the password with `qpdf --decrypt`") from error
        raise BadDocument("it is damaged: PDFium cannot open it", hint="`qpdf --check` lists the errors") from error


def _parsed(document: PdfDocument, name: str, on_page: Callable[[int], None], sidecar: Mapping[int, str]) -> Parsed:
    pages, broken = _read_pages(document, on_page)
    pictures = {page.index for page in pages if page.drawn and not page.words.texts}
    if not sidecar and not any(page.words.texts for page in pages):
        raise BadDocument("it has no text layer" if pictures else "it has no text", hint=_OCR)
    own = [_label(document, index) for index in range(len(pages))]
    removed, printed = remove_running(pages)
    flow = [PageLines(page, page.lines()) for page in pages]
    alone = _are_slides([page.words for page in pages if page.words.texts])
    body = body_style(flow)
    headings = headings_of(flow, body, outline_of(document))
    writer = _written(flow, drafts_of(flow, headings, body, alone=alone), sidecar)
    placed: list[DocumentPage] = []
    end = 0
    for page, label in zip(pages, own if any(own) else printed, strict=True):
        start, end = writer.extents.get(page.index, (end, end))
        size, image_only = (page.words.width, page.words.height), page.index in pictures
        placed.append(DocumentPage(page.index, label[:_LONGEST_LABEL], *size, start, end, image_only, alone))
    return Parsed(
        writer.text,
        Layout(writer.blocks, placed, writer.words),
        metadata_of(document, name),
        title=printed_title(flow, body),
        notices=tuple(_notices([index for index in sorted(pictures) if index not in sidecar], broken)),
        dropped=tuple(Dropped("running head", text[:_LONGEST_DROPPED], index) for index, text in removed),
    )


def _written(flow: Sequence[PageLines], pages: Iterable[Sequence[Draft]], sidecar: Mapping[int, str]) -> PdfTextWriter:
    """Return the writer after all blocks, with the sidecar's text for pages without words in their places."""
    writer = PdfTextWriter([item.page for item in flow])
    supplied = sorted(item.page.index for item in flow if item.page.index in sidecar and not item.page.words.texts)
    for drafts in pages:
        for draft in drafts:
            while supplied and supplied[0] < draft.lines[0][0].page.index:
                writer.write_plain(supplied[0], _paragraphs(sidecar[supplied.pop(0)]))
            writer.write(draft)
    for index in supplied:
        writer.write_plain(index, _paragraphs(sidecar[index]))
    return writer


def _are_slides(pages: Sequence[PageWords]) -> bool:
    """Return True if the pages of a document are slides or forms, each to be read alone: half of them have few words,
    and either lie on their side or leave most of their area free.
    """
    if len(pages) < 2 or median(len(page.texts) for page in pages) > _FEW_WORDS:
        return False
    areas = [np.prod(page.boxes[:, 2:] - page.boxes[:, :2], axis=1).sum() for page in pages]
    free = median(area - _FREE * page.width * page.height for area, page in zip(areas, pages, strict=True)) <= 0
    return bool(free or median(page.width - page.height for page in pages) > 0)


def _read_pages(document: PdfDocument, on_page: Callable[[int], None]) -> tuple[list[PageText], dict[int, str]]:
    """Return the pages, and the reasons of those that cannot be read."""
    from pypdfium2 import PdfiumError

    pages: list[PageText] = []
    broken: dict[int, str] = {}
    for index in range(1, len(document) + 1):
        on_page(index)
        try:
            pages.append(read_page(document, index))
        except PdfiumError as error:
            broken[index] = str(error)
            pages.append(empty_page(index))
    return pages, broken


def _label(document: PdfDocument, index: int) -> str:
    try:
        label: str = document.get_page_label(index)
    except (UnicodeDecodeError, ValueError):
        return ""
    return " ".join(label.encode("utf-8", "replace").decode().split())


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a plain text: lines between blank ones."""
    for filled, lines in groupby((" ".join(line.split()) for line in text.splitlines()), key=bool):
        if filled:
            yield "\n".join(lines)


def _notices(missing: Sequence[int], broken: Mapping[int, str]) -> Iterator[str]:
    if missing:
        verb = "has" if len(missing) == 1 else "have"
        yield f"page{'s' * (len(missing) != 1)} {_ranges(missing)} {verb} no text layer; {_OCR}"
    if broken:
        yield f"page{'s' * (len(broken) != 1)} {_ranges(sorted(broken))} cannot be read: {next(iter(broken.values()))}"


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as `7-9, 12`."""
    groups = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    ranges = [[number for _, number in group] for _, group in groups]
    named = ", ".join(f"{own[0]}-{own[-1]}" if len(own) > 1 else f"{own[0]}" for own in ranges[:_MOST_NAMED])
    return named + (f" and {len(ranges) - _MOST_NAMED} more" if len(ranges) > _MOST_NAMED else "")
