"""Records, documents' text and chunks: the data that is indexed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from retrieve_cli.contracts.values import Json
from retrieve_cli.frozen import Described, Frozen

if TYPE_CHECKING:
    from retrieve_cli.contracts.layout import Layout, Place


class Field(Frozen):
    """One weighted piece of a record's text; `weight` multiplies its term frequencies (BM25F)."""

    name: str
    text: str
    weight: float = 1.0


class Record(Described):
    """One record of a catalog or one document of a folder, as a source read it.

    `text` is chunked and embedded, and the character spans of chunks refer to it. For a file it is the complete text,
    front matter included; `body_start` is the first character of the body. For a catalog record it is composed from the
    weighted fields.
    """

    apart: ClassVar = ("layout", "unread")
    id: str
    name: str
    text: str
    kind: str
    """`catalog`, or the format of a document: `markdown`, `text`, `pdf`, `html` …"""
    source: str
    """File of the record, relative to the folder or catalog given."""
    line: int = 1
    """Line of `source` where the record starts, from 1."""
    body_start: int = 0
    description: str = ""
    url: str | None = None
    license: str | None = None
    keywords: tuple[str, ...] = ()
    group: str | None = None
    fields: tuple[Field, ...] = ()
    supporting_data: Mapping[str, Json] = {}
    """`modalities`, `dimensions`, `formats` (lists of strings) and `demo_url`, if the record has them."""
    metadata: Mapping[str, Json] = {}
    layout: Layout | None = None
    """Structure and pages of the text, if its own marks do not show them."""
    unread: tuple[str, ...] = ()
    """Keys of a catalog's object with text that is in no field."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)[:80]!r}" for name in ("id", "name", "kind", "source", "text"))
        return f"Record({shown})"


class Refused(Frozen):
    """A piece of the source that was rejected, with the reason: one line of the quarantine file."""

    source: str
    line: int
    reason: str
    excerpt: str = ""


class Notice(Frozen):
    """A message about an unexpected treatment of a source, such as skipped files."""

    source: str
    message: str


class Chunk(Frozen):
    """A stretch of a record's text: `record.text[start:end] == text`.

    `header` is context that is embedded and indexed in front of the text without being part of it: the record's name,
    the section path, a repeated table header. `table_header`, the end of it, is displayed as well, because rows of a
    table are unreadable without it.
    """

    doc_id: str
    index: int
    text: str
    start: int
    end: int
    start_line: int
    """Line of `start` within the record's source file (files) or the record's own line (catalogs), from 1."""
    end_line: int
    section: str | None = None
    """Headings from the outermost to the innermost, joined by " > "; for several sections `A > B, C`."""
    header: str = ""
    tokens: int = 0
    """Tokens of the encoder's input: prefix, header, text and special tokens. Never above its `max_tokens`."""
    table_header: str = ""
    """Header of the table of the first rows of the text, if the table was cut above them."""
    sections: tuple[str, ...] = ()
    """Path of each section, in the form of `section`, if several sections share the chunk."""
    place: Place | None = None
    """Pages, anchor and kind, if the record has a layout."""
    facets: Mapping[str, str] = {}
    """Summary of the text, or other short statements on it by name, if they are configured and could be made."""

    @property
    def id(self) -> str:
        return f"{self.doc_id}#{self.index}"

    @property
    def embedded(self) -> str:
        """Input of the encoder, before its passage prefix."""
        return self.header + self.text
