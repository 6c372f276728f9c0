"""EPUB books: the XHTML of their spine, page by page, with the chapters as headings."""

from __future__ import annotations

import re
from collections.abc import Callable
from posixpath import dirname, join, normpath
from typing import NamedTuple
from urllib.parse import unquote, urldefrag
from xml.etree import ElementTree as ET

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.contracts.layout import Dropped
from retrieve_cli.errors import BadDocument, NotADocument, shortened
from retrieve_cli.frozen import replace
from retrieve_cli.sources.formats.archive import Archive
from retrieve_cli.sources.formats.composed import joined, piece
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.html.html_reading import decode, html_document, parsed_page
from retrieve_cli.sources.formats.html.metadata import words_of
from retrieve_cli.sources.formats.html.text import flat

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_URI = re.compile(rb"URI=\"([^\"]{1,1000})\"")
_NAMES = {"title": "title", "creator": "author", "language": "language", "date": "created",
          "publisher": "publisher", "description": "description"}  # fmt: skip
_LONGEST = 1000


class _Book(NamedTuple):
    """Names of the pages in order, names of the files of contents, and metadata."""

    spine: list[str]
    navigation: set[str]
    metadata: dict[str, Json]


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return the text of a book; pages of navigation are not text.

    Raises:
        BadDocument: it is damaged, encrypted, of another kind, exceeds a limit, or has no text.
    """
    archive = Archive(content, limits, suffix=".epub")
    book = _book(archive)
    if len(book.spine) > limits.max_pages:
        raise BadDocument(f"it has {len(book.spine):,} pages; the limit is {limits.max_pages:,}")
    if _ENCRYPTION in archive.names:
        encrypted = {name.decode("utf-8", "replace") for name in _URI.findall(archive.read(_ENCRYPTION))}
        if not encrypted.isdisjoint(book.spine):
            raise BadDocument("its pages are encrypted")
    labels = _labels(archive, book.navigation)
    parts: list[Parsed] = []
    dropped: list[Dropped] = []
    for number, page in enumerate(book.spine, 1):
        on_page(number)
        html, notices = decode(archive.read(page))
        try:
            part = html_document(html, main_content=False, notices=notices, xhtml=True)
        except NotADocument:
            continue  # a picture
        if page in book.navigation:
            dropped.append(Dropped("navigation page", shortened(part.text)))
            continue
        blocks = part.layout.blocks if part.layout is not None else ()
        if page in labels and not any(block.kind == "heading" for block in blocks):
            parts.append(piece(labels[page], "heading", level=1))
        parts.append(part)
    if not parts:
        raise NotADocument("it has no text")
    made = joined(parts)
    return replace(made, metadata=book.metadata, dropped=(*dropped, *made.dropped))


def _book(archive: Archive) -> _Book:
    """Return the parts of a book by its container and package (EPUB 3.3, 4.2 and 5)."""
    if _CONTAINER not in archive.names:
        raise BadDocument("it is a ZIP file without a book")
    container = _elements(archive.xml(_CONTAINER), "rootfile")
    package = next((unquote(node.get("full-path", "")) for node in container), "")
    content = archive.xml(package)

    def path(node: ET.Element) -> str:
        return normpath(join(dirname(package), unquote(urldefrag(node.get("href", "")).url)))

    items = {node.get("id", ""): node for node in _elements(content, "item")}
    spine = [items[node.get("idref", "")] for node in _elements(content, "itemref") if node.get("idref") in items]
    contents = [node for node in items.values() if "nav" in node.get("properties", "").split()]
    contents += [node for node in items.values() if node.get("media-type") == "application/x-dtbncx+xml"]
    contents += [node for node in _elements(content, "reference") if node.get("type") == "toc"]
    texts = {key: [_words(node) for node in _elements(content, key)] for key in (*_NAMES, "subject")}
    metadata: dict[str, Json] = {name: ", ".join(filter(None, texts[key])) for key, name in _NAMES.items()}
    metadata["keywords"] = words_of(texts["subject"])
    metadata = {name: value for name, value in metadata.items() if value}
    return _Book(list(map(path, spine)), set(map(path, contents)), metadata)


def _elements(content: bytes, name: str) -> list[ET.Element]:
    """Return the elements with a local name."""
    root = ET.fromstring(content)  # noqa: S314  it is checked
    return [node for node in root.iter() if node.tag.rpartition("}")[2] == name]


def _words(node: ET.Element) -> str:
    return " ".join("".join(node.itertext()).split())[:_LONGEST]


def _labels(archive: Archive, navigation: set[str]) -> dict[str, str]:
    """Return the titles of chapters by their pages, of a page of contents in HTML or in NCX."""
    labels: dict[str, str] = {}
    for name in sorted(navigation & set(archive.names)):
        page = parsed_page(decode(archive.read(name))[0], xhtml=True)
        pairs = [(link, link) for link in page.css("nav a[href]")]
        for point in page.css("navpoint"):
            label, link = point.css_first("navlabel"), point.css_first("content")
            pairs += [(label, link)] if label is not None and link is not None else []
        for label, link in pairs:
            target = urldefrag(link.attributes.get("href") or link.attributes.get("src") or "").url
            if words := flat(label):
                labels.setdefault(normpath(join(dirname(name), unquote(target))), words)
    return labels
