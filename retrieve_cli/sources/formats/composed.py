"""Documents that are composed of parts, and the properties that files of Office, OpenDocument and EPUB have."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree as ET

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.contracts.layout import Block, DocumentPage, Kind, Layout


def piece(text: str, kind: Kind = "paragraph", *, level: int = 0) -> Parsed:
    """Return a part that is one block."""
    return Parsed(text, Layout([Block(0, len(text), kind, level)] if text else []))


def joined(parts: Iterable[Parsed]) -> Parsed:
    """Return one document of parts that have layouts, with a blank line between two of them."""
    pieces: list[str] = []
    blocks: list[Block] = []
    pages: list[DocumentPage] = []
    length = 0
    parts = list(parts)
    for part in parts:
        pieces.append("\n\n" if length and part.text else "")
        start = length + len(pieces[-1])
        pieces.append(part.text)
        length = start + len(part.text)
        if part.layout is not None:
            blocks += [block._replace(start=block.start + start, end=block.end + start) for block in part.layout.blocks]
            pages += [page._replace(start=page.start + start, end=page.end + start) for page in part.layout.pages]
    notices = dict.fromkeys(notice for part in parts for notice in part.notices)
    dropped = tuple(text for part in parts for text in part.dropped)
    title = next((part.title for part in parts if part.title), "")
    return Parsed("".join(pieces), Layout(blocks, pages), title=title, notices=tuple(notices), dropped=dropped)


_LONGEST = 1000
_MOST_KEYWORDS = 50


def properties(content: bytes) -> dict[str, Json]:
    """Return the metadata in XML with the terms of Dublin Core. The XML has been checked, see `archive.check_xml`."""
    values: dict[str, list[str]] = {}
    for node in ET.fromstring(content).iter():  # noqa: S314
        if words := " ".join((node.text or "").split())[:_LONGEST]:
            values.setdefault(node.tag.rpartition("}")[2], []).append(words)
    texts = {name: ", ".join(words) for name, words in values.items()}
    keywords = f"{texts.get('keywords', '')},{texts.get('keyword', '')}".replace(";", ",").split(",")
    about = texts.get("subject") or texts.get("description", "")
    metadata: dict[str, Json] = {
        "title": texts.get("title", ""),
        "author": texts.get("initial-creator") or texts.get("creator", ""),
        "description": "" if about.startswith("generated ") else about,  # by python-docx and python-pptx
        "keywords": [word.strip() for word in keywords if word.strip()][:_MOST_KEYWORDS],
        "language": texts.get("language", ""),
        "created": texts.get("created") or texts.get("creation-date", ""),
    }
    return {name: value for name, value in metadata.items() if value}
