"""Nouns and promises of the program: the data that flows through it, and the interfaces of its parts. Read this first.

The nouns are frozen and hold plain values; the promises are protocols. This file imports only the standard library and
`frozen`, and names the types of `layout`.

    in :  Source -> Record -> Chunker -> Chunk -> Encoder -> vectors -> Index -> store
    out:  Query -> Stage ... Stage -> Ranking of Hits, each with its Evidence
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from retrieve_cli.frozen import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
    Rows = NDArray[np.int64]
    Terms = NDArray[np.int32]
    Mask = NDArray[np.bool_]

    from retrieve_cli.layout.layout import Layout, Place
    from retrieve_cli.layout.marks import Mark

Json = Any
"""A value that JSON can hold."""

Freshness = Literal["fresh", "changed", "deleted"]
"""Freshness of a hit, compared with the current state of its source."""

SourceKind = Literal["catalog", "docs"]

Unit = Literal["record", "chunk"]
"""Unit of a row in an index, or of a hit in a ranking."""

Card = Mapping[str, Json]
"""Parameters of one part that change its answers; hashed into the recipe as canonical JSON."""

Kind = Literal["retrieve", "fuse", "merge", "rerank", "expand", "boost", "cut"]
"""The task of a stage in a pipeline."""

LONGEST_FACET = 300
"""Characters of a facet; longer ones are cut."""

HEAD = 4096
"""First bytes of a file by which a reader of documents recognises its format."""

HIGHEST_BOOST = 10.0
"""The largest factor by which a request or the configuration may boost hits."""

Q_contra = TypeVar("Q_contra", contravariant=True)
"""Form of the query that an index takes: a text, a vector, term weights."""


# ------------------------------------------------------------------------------------------------- indexing


@dataclass(frozen=True, slots=True)
class Field:
    """One weighted piece of a record's text; `weight` multiplies its term frequencies (BM25F)."""

    name: str
    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a catalog or one document of a folder, as a source read it.

    `text` is chunked and embedded, and the character spans of chunks refer to it. For a file it is the complete text,
    front matter included; `body_start` is the first character of the body. For a catalog record it is composed from the
    weighted fields.
    """

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
    supporting_data: Mapping[str, Json] = field(default_factory=dict)
    """`modalities`, `dimensions`, `formats` (lists of strings) and `demo_url`, if the record has them."""
    metadata: Mapping[str, Json] = field(default_factory=dict)
    layout: Layout | None = field(default=None, compare=False, repr=False)
    """Structure and pages of the text, if its own marks do not show them."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A piece of the source that was rejected, with the reason: one line of the quarantine file."""

    source: str
    line: int
    reason: str
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """A message about an unexpected treatment of a source, such as skipped files."""

    source: str
    message: str


@dataclass(frozen=True, slots=True)
class Chunk:
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
    facets: Mapping[str, str] = field(default_factory=dict)
    """Summary of the text, or other short statements on it by name, if they are configured and could be made."""

    @property
    def id(self) -> str:
        return f"{self.doc_id}#{self.index}"

    @property
    def embedded(self) -> str:
        """Input of the encoder, before its passage prefix."""
        return self.header + self.text


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a catalog or one file of a folder, before it is parsed into a record."""

    digest: bytes
    """SHA-1, 20 bytes, of everything that shapes its record besides its line number and the card of its source."""
    source: str
    """File of the item, as in records and rejections."""
    line: int
    read: Callable[[], Iterable[Record | Refused | Notice]]
    begin: Callable[[], None] | None = None
    """Begins to read it in the background, if that is possible; `read` then waits for the result."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document as its parser read it."""

    text: str
    layout: Layout | None = None
    """None if the text is Markdown or plain, so that its own marks show its structure."""
    metadata: Mapping[str, Json] = field(default_factory=dict)
    """`title`, `description`, `url`, `license`, `keywords` or `tags`, and `group` become those of the record."""
    title: str = ""
    """Title found in the text, for documents whose metadata has none."""
    body_start: int = 0
    notices: tuple[str, ...] = ()


class DocumentFile(NamedTuple):
    """A file to be parsed, as it was when it was found."""

    path: Path
    sha1: bytes
    """SHA-1 of its bytes; another content is not parsed."""
    sidecar: Path | None = None
    """File with the text of its pages, for pages without a text layer."""


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
        supplies missing text; empty for Markdown, text and unknown formats."""

    def lacks(self, kind: str) -> str:
        """Return a sentence on packages that reading a format requires and that are missing; empty if none are."""

    def max_bytes(self, kind: str) -> int:
        """Return the size of the largest file of a format that is read."""

    def begin(self, file: DocumentFile, kind: str, *, name: str) -> Reading:
        """Begin to read a file; `name` is its path within its folder."""

    def draw(self, file: DocumentFile, kind: str, *, pages: Sequence[int], marks: Sequence[Mark] = ()) -> bytes:
        """Return a PNG of pages of a file, numbered from 1, side by side, with marks.

        Raises:
            BadDocument: it cannot be drawn, has no such page, or has another content by now.
            Unavailable: a package is missing, or pages of this format cannot be drawn.
        """

    def parse(self, content: bytes, kind: str, *, name: str) -> Parsed:
        """Return a document whose bytes are at hand, in this process: only formats that need no process of their own.

        Raises:
            BadDocument: it cannot be read.
        """


class Source(Protocol):
    """Source of records, read one item at a time; it never holds more than one of them in memory."""

    kind: SourceKind
    """Kind that decides chunking and counting of its records."""
    name: str
    """Name in the manifest."""

    @property
    def card(self) -> Mapping[str, Json]:
        """Parameters that shape the records besides the files themselves (field weights); part of the recipe."""

    @property
    def origin(self) -> Mapping[str, Json]:
        """Entry for `sources:` in the configuration that finds it again; with absolute paths, without secrets."""

    def fetch(self) -> None:
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
class Mixed(Protocol):
    """A source that may hold whole documents beside records of a catalog."""

    @property
    def kinds(self) -> Sequence[SourceKind]:
        """Kinds of its records: its own, and `docs` if it holds documents now."""


@runtime_checkable
class Countable(Protocol):
    """A source that can say at little cost how many items it has."""

    def count(self) -> int | None:
        """Return their number, or an estimate; None if there is none.

        Raises:
            OSError: it cannot be read.
        """


class Watched(Protocol):
    """A source at build time, compared with its current state."""

    def stale(self) -> str:
        """Return obvious changes of the source, before any hit is compared; empty if there are none."""

    def grown(self) -> str:
        """Return changes that no hit can show, such as a new file; empty if there are none."""

    def freshness(self, record: Mapping[str, Json], digest: bytes) -> Freshness:
        """Return the freshness of a stored record; `digest` is the digest of its item."""

    def remember(self) -> None:
        """Store data that makes later checks cheap, if the source is unchanged since the build.

        Raises:
            OSError: the source cannot be read, or the data cannot be written.
        """


@runtime_checkable
class Filed(Protocol):
    """A source of which each record is a file on this machine."""

    def file_of(self, record: Mapping[str, Json]) -> str:
        """Return the absolute path of the record's file."""


@runtime_checkable
class Holding(Protocol):
    """A source that can give the file of a record as it was at build time."""

    def original(self, record: Mapping[str, Json], digest: bytes) -> DocumentFile | None:
        """Return the file of a record; None if its content is not that of the build. `digest` is that of its item.

        Raises:
            OSError: the file is gone, or cannot be read.
        """


class Tokenizer(Protocol):
    """Tokenizer of the encoder, for counting tokens and for finding places to cut."""

    @property
    def special_tokens(self) -> int:
        """Number of tokens that are added around a single text ([CLS] and [SEP]: 2)."""

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        """Return the character span of each token of the whole text, without special tokens and truncation."""

    def count(self, text: str) -> int:
        """Return the number of tokens of the whole text, without special tokens."""


class Analyzer(Protocol):
    """Conversion of text to the terms that lexical retrievers compare."""

    def terms(self, text: str) -> list[str]:
        """Return the terms of a text in order, repeats included."""

    def spans(self, text: str) -> Iterable[tuple[int, int, Sequence[str]]]:
        """Yield start, end and terms of each word of a text."""


class FacetAnswer(NamedTuple):
    """Facets of one chunk, or the reason why it has none."""

    place: int
    """Place of the chunk among those that were asked for."""
    facets: Mapping[str, str] | None
    """None if they could not be made."""
    tokens: int = 0
    """Tokens that the model read and wrote."""
    reason: str = ""
    """Kind of the failure: `unavailable`, `rejected`, `invalid_answer`, `cut_off`, `budget_spent`, `not_asked`."""
    detail: str = ""
    """The failure as a sentence."""


class FacetMaker(Protocol):
    """Maker of the facets of chunks: a model on a server, or a rule."""

    @property
    def card(self) -> Card:
        """Parameters that change the facets, with the `names` of all of them; part of the recipe, and of the key in the
        cache."""

    @property
    def address(self) -> str:
        """Address of the server to which texts are sent, for display; empty if they stay on this machine."""

    def make(self, chunks: Sequence[Chunk]) -> Generator[FacetAnswer, None, None]:
        """Yield one answer for each chunk, as they are done."""


class Chunker(Protocol):
    """Division of a record into chunks that cover its body in order; none exceeds the encoder's `max_tokens`."""

    @property
    def card(self) -> Mapping[str, Json]:
        """Parameters that change the chunks; part of the recipe."""

    def chunk(self, record: Record) -> Iterator[Chunk]: ...


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Everything that decides the vector of a text. Hashed into the recipe; device and batch size are excluded."""

    family: str
    """`hashed`, `transformer`, `remote`, or the name of a plug-in."""
    name: str
    revision: str
    """SHA-1 of the weights, or of the parameters if there are no weights."""
    dim: int
    max_tokens: int
    """Maximum length of the input in tokens, special tokens included."""
    query_prefix: str = ""
    passage_prefix: str = ""
    pooling: Literal["mean", "cls", "max", "lasttoken", "none"] = "mean"
    normalize: bool = True
    precision: Literal["float32", "float16", "bfloat16"] = "float32"
    """Precision of the encoded passages. Queries may have another precision in the same space."""


class Encoder(Protocol):
    """Conversion of texts to vectors. The constructor is cheap; weights load at the first text."""

    @property
    def card(self) -> ModelCard: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def device(self) -> str:
        """Device and the reason for it, in words: "cpu (no GPU found)"."""

    @property
    def truncated(self) -> int:
        """Number of texts so far that were longer than the card's `max_tokens` and were truncated."""

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Return (n, dim) float32, rows of L2 norm 1 if the card normalises."""

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """Return (n, dim) float32. On a CPU a text's vector is the same to the bit in any batch."""


@runtime_checkable
class SharingPasses(Protocol):
    """An encoder that knows if requests may share a pass."""

    @property
    def shares_passes(self) -> bool:
        """True if texts of several requests may be encoded in one pass: a text has the same vector, to the bit, in any
        batch, or has none of its own, as on a GPU, whose arithmetic depends on the batch in any case."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenVectors:
    """The tokens of a text, each with its vector before pooling."""

    ids: Terms
    """Token ids, (t,) int32; special tokens are omitted, unless there are no others."""
    vectors: Vectors
    """Token vectors, (t, dim) float32, of any length."""


@runtime_checkable
class TokenEncoder(Protocol):
    """Additional methods of an encoder with token vectors, for late interaction."""

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the tokens of queries, each truncated to the model's limit."""

    def encode_passages_into(self, texts: Sequence[str], take: Callable[[int, TokenVectors], None]) -> Vectors:
        """Return the same as `encode_passages`; `take` receives the tokens of each text by its place, in any thread."""


@runtime_checkable
class GradualEncoder(Protocol):
    """An encoder that passes results on while a long call is under way, so that they can be counted and kept."""

    def encode_passages_gradually(
        self,
        texts: Sequence[str],
        done: Callable[[Sequence[int], Sequence[Vectors]], None],
        take: Callable[[int, TokenVectors], None] | None = None,
    ) -> Vectors:
        """Return what `encode_passages` does, (n, dim) float32.

        `done` gets places of texts and their final vectors, (dim,) each, in any order and from any thread; `take` gets
        the tokens of each text before that, if the model has tokens. A later call with the texts that were not done
        gives them the vectors that they would have had in this one.
        """


@dataclass(frozen=True, slots=True, eq=False)
class TermWeights:
    """A text as a sparse vector over a model's vocabulary."""

    terms: Terms
    """Ids of vocabulary entries, (m,) int32, ascending."""
    weights: Vectors
    """Weights of the entries, (m,) float32, all above 0."""


@runtime_checkable
class GradualSparseEncoder(Protocol):
    """A sparse encoder that passes results on while a long call is under way."""

    def encode_passages_gradually(
        self, texts: Sequence[str], done: Callable[[Sequence[int], Sequence[TermWeights]], None]
    ) -> list[TermWeights]:
        """Return what `encode_passages` does; `done` gets places of texts and their weights as they come, if these
        would be the same in another batch."""


class SparseEncoder(Protocol):
    """Conversion of texts to weighted vocabulary entries (SPLADE). Weights load on first use, not at construction."""

    @property
    def card(self) -> Mapping[str, Json]:
        """Everything that changes the weights; part of the recipe."""

    @property
    def device(self) -> str:
        """Device and the reason for it, in words."""

    def encode_queries(self, texts: Sequence[str]) -> list[TermWeights]: ...

    def encode_passages(self, texts: Sequence[str]) -> list[TermWeights]: ...


# ------------------------------------------------------------------------------------------------ searching


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file of a query, with the facts found in it."""

    path: str
    tokens: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    text: str = ""
    """Title and abstract of a document, which are searched along with the query."""


class FileHead(NamedTuple):
    """The beginning of a file of a query that is not on this machine, or not to be opened."""

    name: str
    """Its name without folders; never opened."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Request:
    """A query as the user sent it, with all its conditions."""

    text: str
    id: str = "0"
    also: tuple[str, ...] = ()
    """Query variants: other wordings of the same query."""
    files: tuple[str, ...] = ()
    """Paths of files that the query is about."""
    known: tuple[KnownFile, ...] = ()
    """Files that were already read: they are not read again."""
    heads: tuple[FileHead, ...] = ()
    """Beginnings of files that came with the query."""
    filters: tuple[str, ...] = ()
    """Conditions on records; all must hold."""
    doc_ids: tuple[str, ...] = ()
    """Ids to which the results are restricted, if there are any."""
    tenant: str | None = None
    """Tenant whose records may be found."""
    confined: bool = False
    """True if the tenant is that of a credential: then a request to an index in which no record has a tenant finds
    nothing, as one of any tenant without records does; otherwise it is an error for the operator."""
    retrievers: tuple[str, ...] = ()
    """Retrievers to use, if the request names any."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query for the retrievers (`text`), with the id for reports."""

    text: str
    id: str = "0"
    also: tuple[Query, ...] = ()
    """Query variants: their rankings are fused with that of the query."""
    variant_of: Query | None = field(default=None, compare=False, repr=False)
    """The query whose texts are ranked one by one, if this is one of them."""
    records: Mask | None = field(default=None, compare=False)
    """Records that may be found, (records,) bool; None: all."""
    chunks: Mask | None = field(default=None, compare=False)
    """Chunks by which a record may be found, (chunks,) bool; None: all. Each of `records` has one, and `records` is set
    as well. Other chunks of these records are not found, but may be context of one that is."""
    visible: Mask | None = field(default=None, compare=False)
    """Records that the request may see, (records,) bool, `records` among them; None: all.

    Filters narrow `records`, but a record outside the filter may still be a dependency or lie on a path. An invisible
    record takes no part in an answer: not as a hit, a dependency, a step of a path, a suggestion or in a count.
    """


@dataclass(frozen=True, slots=True)
class Question:
    """A parsed request: the query for the retrievers, and the origin of each part of it."""

    request: Request
    query: Query
    clean: str
    """The text without its control tags."""
    formats: tuple[str, ...] = ()
    """Format tokens from files and tags, such as `format:CT`."""
    excluded: tuple[str, ...] = ()
    """Ids of records to exclude."""
    filters: tuple[tuple[str, str], ...] = ()
    """Effective conditions: the field of each, and its text in the filter language."""
    notices: tuple[str, ...] = ()
    """Messages on parts that were not understood, and on unsupported files."""
    files: tuple[KnownFile, ...] = ()
    """Facts from its files, unless files are ignored."""

    @property
    def appended(self) -> tuple[str, ...]:
        """The texts behind the user's words: titles and abstracts of documents, and format tokens."""
        return (*(file.text for file in self.files if file.text), *self.formats)

    @property
    def enhanced(self) -> str:
        """The clean text followed by the texts of documents and the format tokens."""
        return " ".join([self.clean, *self.appended]).strip()


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Hits of one retriever for one query: rows, best first, and mean and deviation of the scores of all rows."""

    rows: Rows
    """Rows of the index, or groups of rows if the search was grouped, (m,) int64."""
    scores: Vectors
    """Scores, (m,) float32, descending."""
    mean: float
    deviation: float
    """Mean and standard deviation of the query's scores over all rows of the index, rows without a match included."""
    before: int = 0
    """Number of rows, or groups, visible to the query that could be listed without a filter."""
    after: int = 0
    """Number of them that pass the filter; the same number without a filter."""


class Index(Protocol[Q_contra]):
    """Artifact of one retriever: finds the best rows for a query, and scores any given rows."""

    @property
    def unit(self) -> Unit:
        """Unit of a row."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def search(
        self,
        queries: Sequence[Q_contra],
        *,
        depth: int,
        starts: Rows | None = None,
        allowed: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
    ) -> list[Candidates]:
        """Return the `depth` best rows for each query; with `starts` (first row of each group, then the number of rows)
        the best groups instead, scored by their best row. An answer does not depend on the batch.

        `allowed` masks the rows, or groups, that may be listed for each query; None: all. The `depth` best allowed ones
        are listed, however many better rows are not allowed. `visible` masks the rows that `before` may count; it is
        given only if a query has such a mask.
        """

    def score(self, query: Q_contra, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the query's exact score for each of `rows` (or groups), whether or not a search would find them."""


@runtime_checkable
class Matching(Protocol[Q_contra]):
    """An index whose rows either match a query, by a shared term, or do not. Vectors in contrast are always near."""

    def matching(self, query: Q_contra, *, starts: Rows | None = None, allowed: Mask | None = None) -> Rows:
        """Return all rows (or groups) that match, in ascending order; with a mask, only allowed ones."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Reason for the position of a hit, from one retriever, or from a stage that rescored it."""

    source: str
    """Retriever or stage: `dense`, `graph`, `mmr`, `text 1`."""
    rank: int | None
    """Rank in the retriever's list, from 1; None if the hit was scored outside that list."""
    score: float
    normalized: float
    weight: float


@dataclass(frozen=True, slots=True)
class Reranked:
    """Movement of a hit by a reranker."""

    scorer: str
    before: int
    """Rank before reranking, from 1."""
    retrieval_score: float
    """Score before reranking."""
    score: float
    """Score of the reranker, on its own scale."""
    relevance: float | None = None
    """The same score from 0 to 1, if that is the reranker's scale."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A position in a ranking. Its rank is its position; its text stays in the store."""

    id: str
    """Chunk id; it breaks ties between equal scores."""
    row: int
    """Chunk row in the store."""
    record: int
    """Record row in the store."""
    score: float
    evidence: tuple[Evidence, ...] = ()
    reranked: Reranked | None = None
    """Record of the reranking, if a reranker scored the hit."""
    path: str | None = None
    """Path from another hit, if expansion added this one: `scanpy —requires→ scrublet (0.42)`."""
    topped_up: str | None = None
    """Reason for which it would have been cut, had there been enough other hits: `it fails max_distance 0.4`."""


class Matches(Protocol):
    """Matches of the retrievers for one query, counted on demand."""

    def matched(self) -> int:
        """Return the number of records (chunks, if these are ranked) that any retriever matched."""

    def rows(self) -> Rows:
        """Return the different rows of these, in order."""

    def considered(self) -> int:
        """Return the number of different ones on the retrievers' lists."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """An ordered answer to one query."""

    query: Query
    hits: tuple[Hit, ...] = ()
    trace: Mapping[str, Json] = field(default_factory=dict, compare=False)
    """Notes of the stages for explanations."""
    matches: Matches | None = field(default=None, compare=False, repr=False)
    """Matches of the retrievers, set by the retrieval stages."""

    @classmethod
    def of(cls, query: Query, hits: Iterable[Hit], *, trace: Mapping[str, Json] | None = None) -> Ranking:
        """Return hits in order of score, then chunk id, so that a run repeats to the byte. Nothing else sorts hits."""
        return cls(query, tuple(sorted(hits, key=lambda hit: (-hit.score, hit.id))), trace or {})

    @classmethod
    def again(cls, query: Query, hits: Iterable[Hit], *, trace: Mapping[str, Json] | None = None) -> Ranking:
        """Return rescored hits of a ranking in their new order; equal ones keep their relative order."""
        return cls(query, tuple(sorted(hits, key=lambda hit: -hit.score)), trace or {})

    def first(self, count: int) -> Ranking:
        """Return the first `count` hits."""
        return Ranking(self.query, self.hits[:count], self.trace, self.matches)


class Package(NamedTuple):
    """A distribution, under any of its names, that a retriever requires if a key of its section has a value."""

    names: tuple[str, ...]
    key: str
    value: str
    card_key: str = ""
    """Key of the card that corresponds to `key`, if it has another name."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A part that a package adds through an entry point of the group `retrieve.plugins`, under the entry's name.

    The configuration names it in `encoder.kind`, `chunking.strategy`, `kind` of a source or `rerank.backend`.
    """

    kind: Literal["encoder", "chunker", "source", "reranker"]
    make: Callable[..., Any]
    """encoder: (settings) -> Encoder; chunker: (tokenizer, settings) -> Chunker; source: (entry, settings) -> Source;
    reranker: (settings) -> PairScorer. `settings` are all settings; their `plugins` hold the configuration of
    plug-ins."""


class PairScorer(Protocol):
    """Scorer of pairs of a query and a passage, read together. The constructor is cheap; weights load on first use."""

    @property
    def name(self) -> str:
        """Name in pipelines and evidence: `maxsim`, or a model's name."""

    def score(self, query: str, passages: Sequence[str]) -> Vectors:
        """Return (n,) float32, higher is better. If the model allows it, a score does not depend on other passages.

        Raises:
            Unavailable: the model, package or server is missing.
        """


@runtime_checkable
class Scaled(Protocol):
    """A scorer that knows the scale of its scores."""

    @property
    def unit_scale(self) -> bool:
        """True if every score is from 0 (not relevant) to 1 (relevant), as after a model's sigmoid."""


class Stage(Protocol):
    """Conversion of rankings: one result for each, in order. A value; `str(stage)` is the expression that made it."""

    @property
    def kind(self) -> Kind: ...

    @property
    def rescores(self) -> bool:
        """True if scores have another meaning after this stage than before."""

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]: ...
