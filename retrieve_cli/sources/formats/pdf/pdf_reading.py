"""PDF: bytes -> text in reading order with blocks, pages, their printed labels, and the place of every word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import DocumentPage, Layout
from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.pdf import raw
from retrieve_cli.sources.formats.pdf.headings import PageLines, body_style, headings_of, outline_of
from retrieve_cli.sources.formats.pdf.lines import Segment, segments_of
from retrieve_cli.sources.formats.pdf.metadata import metadata_of, printed_title
from retrieve_cli.sources.formats.pdf.page_text import PageText
from retrieve_cli.sources.formats.pdf.page_words import Frame, PageWords, empty_words, read_words
from retrieve_cli.sources.formats.pdf.paragraphs import drafts_of
from retrieve_cli.sources.formats.pdf.raw import reading_boxes
from retrieve_cli.sources.formats.pdf.running import remove_running
from retrieve_cli.sources.formats.pdf.tables import PdfTable, find_tables
from retrieve_cli.sources.formats.pdf.writing import PdfTextWriter

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

    from retrieve_cli.sources.formats.formats import ParsingLimits

_OCR = "run `ocrmypdf IN.pdf OUT.pdf`, which adds a text layer"
_MOST_NAMED = 20
"""Ranges of pages that a notice names."""


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
    writer = PdfTextWriter(pages)
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
    placed: list[DocumentPage] = []
    end = 0
    for page, label in zip(pages, labels_of(pages, own), strict=True):
        start, end = writer.extents.get(page.index, (end, end))
        size = page.words.width, page.words.height
        placed.append(DocumentPage(page.index, label, *size, start, end, page.index in pictures))
    layout = Layout(writer.blocks, placed, writer.words)
    title = printed_title(flow, body)
    return Parsed(writer.text, layout, metadata, title=title, notices=tuple(_notices(missing, broken)))


def _read_pages(
    document: PdfDocument, on_page: Callable[[int], None]
) -> tuple[list[PageText], set[int], dict[int, str]]:
    """Return the pages, the numbers of those with content but no text, and the reasons of those that cannot be read."""
    from pypdfium2 import PdfiumError

    pages: list[PageText] = []
    pictures: set[int] = set()
    broken: dict[int, str] = {}
    for index in range(1, len(document) + 1):
        on_page(index)
        try:
            text, drawn = read_page(document, index)
        except PdfiumError as error:
            broken[index] = str(error)
            text, drawn = PageText(index, empty_words(Frame(0.0, 0.0, 0.0, 0.0, 0)), {}), False
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
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    named = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges[:_MOST_NAMED])
    return named + (f" and {len(ranges) - _MOST_NAMED} more" if len(ranges) > _MOST_NAMED else "")


_LONGEST = 40
_NUMBER = re.compile(r"(?<![\w.])\d{1,5}(?![\w.])")
_ROMAN = re.compile(r"(?=.)(?:c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
_DIGITS = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_FEWEST = 2
"""Pages whose numbers agree, at least."""

Numeral = tuple[str, int]
"""Kind (`1`, `i` or `I`) and value of a number."""


def labels_of(pages: Sequence[PageText], own: Sequence[str]) -> list[str]:
    """Return the label of each page: from the file (`own`), else by its printed number; empty without either."""
    if any(own):
        return [label[:_LONGEST] for label in own]
    numerals = {page.index: _numerals(page.numbers) for page in pages}
    offsets: Counter[tuple[str, int]] = Counter()
    for index, known in numerals.items():
        offsets.update({(kind, value - index) for kind, value in known})
    labels = [""] * len(pages)
    for (kind, offset), count in sorted(offsets.items(), key=lambda item: (-item[1], item[0])):
        if count < _FEWEST:
            break
        having = {index for index, known in numerals.items() if (kind, index + offset) in known}
        first, last = min(having), max(having)
        if 2 * count <= last - first:
            continue  # by chance: a sequence has a number on at least every second page
        for index in range(first, last + 1):
            # A page without a number between two with numbers counts; one with another number does not.
            if not labels[index - 1] and (index in having or not numerals[index]):
                labels[index - 1] = _written(kind, index + offset)
    return labels


def _numerals(texts: Sequence[str]) -> set[Numeral]:
    numerals: set[Numeral] = set()
    for text in texts:
        if _ROMAN.fullmatch(text.lower()):
            numerals.add(("i" if text.islower() else "I", _value(text.lower())))
        numerals |= {("1", int(number)) for number in _NUMBER.findall(text)}
    return numerals


def _value(roman: str) -> int:
    digits = [_DIGITS[char] for char in roman]
    return sum(-digit if digit < max(digits[place:]) else digit for place, digit in enumerate(digits))


def _written(kind: str, value: int) -> str:
    if kind == "1":
        return str(value)
    roman = ""
    for size, mark in zip((100, 90, 50, 40, 10, 9, 5, 4, 1), "c xc l xl x ix v iv i".split(), strict=True):
        roman += mark * (value // size)
        value %= size
    return roman if kind == "i" else roman.upper()


_TABLE_CHARS = 40
"""Characters that a table counts as where columns are distinguished from cells: the length of a line."""


def read_page(document: PdfDocument, index: int) -> tuple[PageText, bool]:
    """Return the text of a page, by its number from 1, and True if anything is drawn on it.

    Raises:
        pypdfium2.PdfiumError: it cannot be read.
    """
    page = document[index - 1]
    try:
        handle = raw.address(page.raw)
        words = read_words(handle)
        tables: Sequence[PdfTable] = ()
        kinds = (raw.object_kind(raw.page_object(handle, number)) for number in range(raw.count_objects(handle)))
        # A path can rule a table, and so can a form, which has objects itself.
        if words.texts and any(kind in {raw.PATH, raw.FORM} for kind in kinds):
            tables = find_tables(handle, list(words), (words.width, words.height))
        return _page_text(index, words, tables), raw.count_objects(handle) > 0
    finally:
        page.close()


def _page_text(index: int, words: PageWords, tables: Sequence[PdfTable]) -> PageText:
    if not tables:
        return PageText(index, words, segments_of(words))
    taken = np.zeros(len(words.texts), dtype=bool)
    segments: dict[int, list[Segment]] = {}
    for number, table in enumerate(tables):
        members = [word for row in table.rows for cell in row for word in cell]
        taken[members] = True
        turns, counts = np.unique(words.turns[members], return_counts=True)
        turn = turns[np.argmax(counts)] if members else np.int16(0)
        # A table is in the flow like a separate line, as high as its box.
        x0, y0, x1, y1 = reading_boxes(np.array([table.box], dtype=np.float32), np.array([turn]))[0].tolist()
        stand_in = Segment(x0, y0, x1, y1, 0, 0, size=10.0, bold=False, fixed=False, chars=_TABLE_CHARS, table=number)
        segments.setdefault(int(turn), []).append(stand_in)
    for turn, of_turn in segments_of(words, taken).items():
        segments.setdefault(turn, []).extend(of_turn)
    return PageText(index, words, segments, tables)
