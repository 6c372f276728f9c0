"""Records, documents' text and chunks: the data that is indexed.

Promises of sources of records and of readers of documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, runtime_checkable

from retrieve_cli.contracts.values import Card, Freshness, Json, SourceKind
from retrieve_cli.frozen import Described, Frozen

if TYPE_CHECKING:
    from pathlib import Path

    from retrieve_cli.contracts.layout import Dropped, Layout, Mark, Place


class Field(Frozen):
    """One weighted piece of a record's text; `weight` multiplies its term frequencies (BM25F)."""

    name: str
    text: str
    weight: float = 1.0


class Record(Described):
    """One record of a catalog or one document of a folder, as a source read it.

    `text` is chunked and embedded, and the character spans of chunks refer to it. For a document it is the text
    that its reader made of it, below the prose of its metadata. For a catalog record it is composed from the weighted
    fields.
    """

    apart: ClassVar = ("layout", "unread", "dropped")
    id: str
    name: str
    text: str
    kind: str
    """`catalog`, or the format of a document: `markdown`, `text`, `pdf`, `html` …"""
    source: str
    """File of the record, relative to the folder or catalog given."""
    line: int = 1
    """Line of `source` where the record starts, from 1."""
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
    dropped: Mapping[str, int] = {}
    """Numbers of texts that the reader of a document skipped, by their kind."""

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
    facets: Mapping[str, str] | None = None
    """Summary of the text, or other short statements on it by name; None if they are not configured or could not be
    made."""

    @property
    def id(self) -> str:
        return f"{self.doc_id}#{self.index}"

    @property
    def embedded(self) -> str:
        """Input of the encoder, before its passage prefix."""
        return self.header + self.text


class Item(Frozen):
    """One line of a catalog or one file of a folder, before it is parsed into a record, or several."""

    digest: bytes
    """SHA-1, 20 bytes, of everything that shapes its record, except its line number and the card of its source."""
    source: str
    """File of the item, as in records and rejections."""
    line: int
    read: Callable[[], Iterable[Record | Refused | Notice]]
    begin: Callable[[], None] | None = None
    """Begins to read it in the background, if that is possible; `read` then waits for the result."""


class Parsed(Frozen):
    """A document as its parser read it."""

    text: str
    layout: Layout | None = None
    """None if the text is Markdown or plain, so that its own marks show its structure."""
    metadata: Mapping[str, Json] = {}
    """`title`, `description`, `url`, `license`, `keywords` or `tags`, and `group` become fields of the record."""
    title: str = ""
    """Title found in the text, for documents whose metadata has none."""
    notices: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    """Text that is not part of the document, such as running heads: counted when it is read, and shown on demand."""


class DocumentFile(NamedTuple):
    """A file to be parsed, with its state when it was found."""

    path: Path
    sha1: bytes
    """SHA-1 of its bytes; another content is not parsed."""
    sidecar: Path | None = None
    """File with the text of its pages, for pages without a text layer."""
    held: object = None
    """Keeps a temporary file as long as this value."""


class Reading(Protocol):
    """A document that is being read, perhaps by another process."""

    def result(self) -> Parsed:
        """Wait for the document.

        Raises:
            BadDocument: it cannot be read.
        """


class DocumentReader(Protocol):
    """Reader of documents in all formats."""

    @property
    def suffixes(self) -> Sequence[str]:
        """Suffixes of the names of documents, such as `.pdf`, sorted."""

    @property
    def formats(self) -> Sequence[str]:
        """Names of the formats."""

    def format_of(self, name: str, head: bytes) -> str | None:
        """Return the format of a file by its first bytes and, for texts, its name; None if it is not a document."""

    def card(self, kind: str) -> Card:
        """Return the parser of a format with its version, and as `sidecar` the ending of the name of a text that
        supplies missing text; empty for unknown formats."""

    def lacks(self, kind: str) -> str:
        """Return a sentence on packages that reading a format requires and that are missing; empty if none are."""

    def max_bytes(self, kind: str) -> int:
        """Return the size of the largest file of a format that is read."""

    def begin(self, file: DocumentFile, kind: str, *, name: str) -> Reading:
        """Begin to read a file; `name` is its path within its folder."""

    def draw(self, file: DocumentFile, kind: str, *, pages: Sequence[int], marks: Sequence[Mark] = ()) -> bytes:
        """Return a PNG of pages of a file, numbered from 1, side by side, with marks.

        Raises:
            BadDocument: it cannot be drawn, lacks a page, or its content has changed.
            Unavailable: a package is missing, or pages of this format cannot be drawn.
        """


class Fetched(NamedTuple):
    """Sentences on the parts of a source that a fetch could not read, whose last state stays, and that it skipped."""

    failures: Sequence[str]
    notes: Sequence[str]


class Source(Protocol):
    """Source of records, read one item at a time; it never holds more than one of them in memory."""

    kind: SourceKind
    """Kind that decides chunking and counting of its records."""
    name: str
    """Name in the manifest."""

    @property
    def card(self) -> Mapping[str, Json]:
        """Parameters that shape the records, except the files themselves (field weights); part of the recipe."""

    @property
    def origin(self) -> Mapping[str, Json]:
        """Entry for `sources:` in the configuration that finds it again; with absolute paths, without secrets."""

    def fetch(self) -> Fetched | None:
        """Fetch a remote source into a local file; a local source has nothing to do.

        Raises:
            SourceFailed: the server does not answer, or not with records.
        """

    def stamp(self) -> list[int] | None:
        """Return marks of its file that change with it, for a cheap check; None for many files."""

    def scan(self) -> Iterator[Item | Refused | Notice]:
        """Yield every item in order, and a `Refused` for each one that cannot even be opened.

        Raises:
            UsageError: the source cannot be read at all.
        """


@runtime_checkable
class Foldered(Protocol):
    """A source of many files in folders."""

    def folders(self) -> Mapping[str, Json]:
        """Return marks of its folders, which later reveal added and removed files; called before a scan."""


@runtime_checkable
class Mapped(Protocol):
    """A source whose records may have their fields under other keys."""

    def mapping(self) -> Mapping[str, Json]:
        """Return for the manifest `fields`, pairs of a key and the name that the last scan read it under, and
        `inferred`, true if no configuration maps them; empty without such keys."""


@runtime_checkable
class Mixed(Protocol):
    """A source that may hold whole documents beside records of a catalog."""

    @property
    def kinds(self) -> Sequence[SourceKind]:
        """Kinds of its records: its own, and `docs` if it holds documents now."""


@runtime_checkable
class SingleFile(Protocol):
    """A source that is one file: if the file has the same bytes, the items are the same."""

    def content_sha1(self) -> str:
        """Return the SHA-1 of the file, 40 hex digits.

        Raises:
            UsageError: it cannot be read.
        """


@runtime_checkable
class Countable(Protocol):
    """A source that can count its items at little cost."""

    def count(self) -> int | None:
        """Return the number of items, or an estimate; None if it is unknown.

        Raises:
            OSError: it cannot be read.
        """


class Watched(Protocol):
    """A source at build time, compared with its current state."""

    def stale(self) -> str:
        """Return obvious changes of the source, before any hit is compared; empty without changes."""

    def grown(self) -> str:
        """Return changes that no hit can show, such as a new file; empty without changes."""

    def freshness(self, record: Mapping[str, Json], digest: bytes) -> Freshness:
        """Return the freshness of a stored record; `digest` is the digest of its item."""


@runtime_checkable
class Filed(Protocol):
    """A source of which each record is a file on this machine."""

    def file_of(self, record: Mapping[str, Json]) -> str:
        """Return the absolute path of the record's file."""


@runtime_checkable
class Holding(Protocol):
    """A source that can return the file of a record as of the build."""

    def original(self, record: Mapping[str, Json], digest: bytes) -> DocumentFile | None:
        """Return the file of a record; None if its content has changed since the build. `digest` is the digest of its
        item.

        Raises:
            OSError: the file is gone, or cannot be read.
        """
