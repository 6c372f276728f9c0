"""Metadata of a file: title, author, subject, date, keywords, language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

from retrieve_cli.sources.formats.pdf.headings import FontStyle, PageLines

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

    from retrieve_cli.contracts import Json

_LONGEST, _MOST_KEYWORDS = 500, 50
_DATE = re.compile(r"(?:D:)?(\d{4})(\d{2})?(\d{2})?")
_FILE_NAME = re.compile(r"\.[a-z]{1,5}\d?$", re.IGNORECASE)
_PROGRAM = re.compile(
    r"(?:microsoft (?:word|powerpoint|excel)|powerpoint presentation|slide \d+|untitled|unnamed|document\d*"
    r"|no title|title|print|unknown|anonymous|unspecified|\(?none\)?|layout \d+)\b",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,3}")
_TITLE_SIZE, _TITLE_LINES = 1.25, 4  # size of a title relative to the body, at least, and its lines at most


def metadata_of(document: PdfDocument, name: str) -> dict[str, Json]:
    """Return the metadata that the file itself has; `name` is its file name."""
    values = {key: _value(document, key) for key in ("Title", "Author", "Subject", "Keywords", "CreationDate")}
    words = re.split(r"[;,]", values["Keywords"])
    metadata: dict[str, Json] = {
        "title": values["Title"] if _is_title(values["Title"], name) else "",
        "author": "" if _PROGRAM.fullmatch(values["Author"]) else values["Author"],
        "description": values["Subject"],
        "created": _iso_date(values["CreationDate"]),
        "keywords": list(dict.fromkeys(word.strip() for word in words if word.strip()))[:_MOST_KEYWORDS],
        "language": _language(document),
    }
    return {"pages": len(document), **{key: value for key, value in metadata.items() if value}}


def printed_title(flow: Sequence[PageLines], body: FontStyle) -> str:
    """Return the largest text of the first page if it is clearly a title, else an empty string."""
    first = next((item for item in flow if item.lines), None)
    if first is None or first.page.index > 1:
        return ""
    lines = [line for line in first.lines if line.table < 0 and line.turn == first.page.turn]
    largest = max((line.size for line in lines), default=0.0)
    chosen = [number for number, line in enumerate(lines) if line.size >= 0.97 * largest]
    run = chosen and chosen == list(range(chosen[0], chosen[-1] + 1))
    if not run or largest < _TITLE_SIZE * body.size or len(chosen) > _TITLE_LINES:
        return ""
    text = " ".join(first.text(lines[number]) for number in chosen)
    return text if 3 < len(text) <= _LONGEST and sum(map(str.isalpha, text)) > len(text) / 2 else ""


def _value(document: PdfDocument, key: str) -> str:
    try:
        text = document.get_metadata_value(key)
    except (UnicodeDecodeError, ValueError):
        return ""
    text = "".join(char if char.isprintable() else " " for char in text[: 4 * _LONGEST])
    return " ".join(text.encode("utf-8", "replace").decode().split())[:_LONGEST]


def _is_title(text: str, name: str) -> bool:
    """Return True unless a program wrote the text: a file name, or a word for `no title`."""
    stem = name.rpartition("/")[2].rpartition(".")[0]
    plain = sum(map(str.isalpha, text)) >= 2
    return plain and not _PROGRAM.match(text) and not _FILE_NAME.search(text) and text.casefold() != stem.casefold()


def _iso_date(text: str) -> str:
    match = _DATE.match(text)
    try:
        return date(int(match[1]), int(match[2] or 1), int(match[3] or 1)).isoformat() if match else ""
    except ValueError:
        return ""


def _language(document: PdfDocument) -> str:
    """Return the language of the catalog, such as `en-US`."""
    from ctypes import c_ushort

    import pypdfium2.raw as pdfium

    buffer = (c_ushort * 100)()
    size = pdfium.FPDFCatalog_GetLanguage(document, buffer, 200)
    text = bytes(buffer)[: max(size - 2, 0)].decode("utf-16-le", "replace")
    return text if _LANGUAGE.fullmatch(text) else ""
