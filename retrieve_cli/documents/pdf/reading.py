"""PDF: bytes -> text in reading order with blocks, pages and the place of every word."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Parsed
from retrieve_cli.errors import BadDocument
from retrieve_cli.layout.layout import Layout, Page

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

    from retrieve_cli.documents.limits import Limits
    from retrieve_cli.documents.pdf.page_text import PageText
    from retrieve_cli.documents.pdf.writing import Writer

_OCR = "run `ocrmypdf IN.pdf OUT.pdf`, which adds a text layer"
_MOST_NAMED = 20
"""Ranges of pages that a notice names."""


def parse(
    content: bytes, *, name: str, limits: Limits, on_page: Callable[[int], None], sidecar: bytes | None = None
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
            raise BadDocument(f"it has {len(document)} pages, more than {limits.max_pages} (parsing.max_pages)")
        return _parsed(document, name, on_page, _sidecar_pages(sidecar))
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
        raise BadDocument("it is damaged: PDFium cannot open it", hint="`qpdf --check` lists what is wrong") from error


def _parsed(document: PdfDocument, name: str, on_page: Callable[[int], None], sidecar: Mapping[int, str]) -> Parsed:
    from retrieve_cli.documents.pdf.drafts import drafts_of
    from retrieve_cli.documents.pdf.headings import headings_of
    from retrieve_cli.documents.pdf.joining import Joiner
    from retrieve_cli.documents.pdf.labels import labels_of
    from retrieve_cli.documents.pdf.metadata import metadata_of, printed_title
    from retrieve_cli.documents.pdf.outline import outline_of
    from retrieve_cli.documents.pdf.running import remove_running
    from retrieve_cli.documents.pdf.styles import PageLines, body_style
    from retrieve_cli.documents.pdf.writing import Writer

    pages, pictures, broken = _read_pages(document, on_page)
    missing = [index for index in sorted(pictures) if index not in sidecar]
    if not sidecar and not any(page.words.texts for page in pages):
        reason = "it has no text layer" if pictures else "it has no text"
        raise BadDocument(reason, hint=_OCR)
    own = [_label(document, index) for index in range(len(pages))]
    outline = outline_of(document)
    remove_running(pages)
    flow = [PageLines(page, page.lines()) for page in pages]
    body = body_style(flow)
    writer = Writer(Joiner(pages))
    later = iter(sorted(sidecar.keys() & {page.index for page in pages if not page.words.texts}))
    supplied = next(later, None)
    for drafts in drafts_of(flow, headings_of(flow, body, outline), body):
        for draft in drafts:
            while supplied is not None and supplied < draft.lines[0][0].page.index:
                writer.write_plain(supplied, _paragraphs(sidecar[supplied]))
                supplied = next(later, None)
            writer.write(draft)
    while supplied is not None:
        writer.write_plain(supplied, _paragraphs(sidecar[supplied]))
        supplied = next(later, None)
    metadata = metadata_of(document, name)
    layout = Layout(writer.blocks, _pages(pages, labels_of(pages, own), writer, pictures), writer.words)
    title = printed_title(flow, body)
    return Parsed(writer.text, layout, metadata, title=title, notices=tuple(_notices(missing, broken)))


def _read_pages(
    document: PdfDocument, on_page: Callable[[int], None]
) -> tuple[list[PageText], set[int], dict[int, str]]:
    """Return the pages, the numbers of those with content but no text, and the reasons of those that cannot be read."""
    from pypdfium2 import PdfiumError

    from retrieve_cli.documents.pdf.pages import empty_page, read_page

    pages: list[PageText] = []
    pictures: set[int] = set()
    broken: dict[int, str] = {}
    for index in range(1, len(document) + 1):
        on_page(index)
        try:
            text, drawn = read_page(document, index)
        except PdfiumError as error:
            broken[index] = str(error)
            text, drawn = empty_page(index), False
        pages.append(text)
        if drawn and not text.words.texts:
            pictures.add(index)
    return pages, pictures, broken


def _label(document: PdfDocument, index: int) -> str:
    try:
        label: str = document.get_page_label(index)
    except (UnicodeDecodeError, ValueError):
        return ""
    return " ".join(label.encode("utf-8", "replace").decode().split())


def _sidecar_pages(sidecar: bytes | None) -> dict[int, str]:
    """Return the texts of a sidecar by the numbers of their pages."""
    if not sidecar:
        return {}
    texts = sidecar.decode("utf-8-sig", "replace").split("\f")
    return {index: text for index, text in enumerate(texts, start=1) if text.strip()}


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a plain text: lines between blank ones."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.strip():
            lines.append(" ".join(line.split()))
        elif lines:
            yield "\n".join(lines)
            lines = []


def _pages(pages: Sequence[PageText], labels: Sequence[str], writer: Writer, pictures: set[int]) -> list[Page]:
    placed: list[Page] = []
    end = 0
    for page, label in zip(pages, labels, strict=True):
        start, end = writer.extents.get(page.index, (end, end))
        placed.append(Page(page.index, label, page.width, page.height, start, end, page.index in pictures))
    return placed


def _notices(missing: Sequence[int], broken: Mapping[int, str]) -> Iterator[str]:
    if missing:
        verb = "has" if len(missing) == 1 else "have"
        yield f"page{'s' * (len(missing) != 1)} {_ranges(missing)} {verb} no text layer; {_OCR}"
    if broken:
        yield f"page{'s' * (len(broken) != 1)} {_ranges(sorted(broken))} cannot be read: {next(iter(broken.values()))}"


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as `7-9, 12`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    named = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges[:_MOST_NAMED])
    return named + (f" and {len(ranges) - _MOST_NAMED} more" if len(ranges) > _MOST_NAMED else "")
