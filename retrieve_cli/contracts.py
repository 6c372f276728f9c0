"""What flows through the program, and what every part promises. Read this first.

The nouns are frozen and hold plain values; the promises are protocols. Only the standard library and
`frozen` are imported here.

    in :  Source -> Record -> Chunker -> Chunk -> Encoder -> vectors -> Index -> store
    out:  Query -> Stage ... Stage -> Ranking of Hits, each with its Evidence
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from retrieve_cli.frozen import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
    Rows = NDArray[np.int64]
    Terms = NDArray[np.int32]
    Mask = NDArray[np.bool_]

Json = Any
"""A value that JSON can hold."""

Freshness = Literal["fresh", "changed", "deleted"]
"""Whether a hit still says what its source says."""

SourceKind = Literal["catalog", "docs"]

Unit = Literal["record", "chunk"]
"""What one row of an index stands for, or what one hit of a ranking is."""

Card = Mapping[str, Json]
"""The parameters of one part that change its answers; hashed into the recipe as canonical JSON."""

Kind = Literal["retrieve", "fuse", "merge", "rerank", "expand", "boost", "cut"]
"""The task of a stage in a pipeline."""

HIGHEST_BOOST = 10.0
"""The largest factor by which a request or the configuration may boost what it finds."""

Q_contra = TypeVar("Q_contra", contravariant=True)
"""The form of a query that an index takes: a text, a vector, term weights."""


# ---------------------------------------------------------------------------------------------- the way in


@dataclass(frozen=True, slots=True)
class Field:
    """One weighted piece of a record's text; `weight` multiplies its term frequencies (BM25F)."""

    name: str
    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Record:
    """One tool of a catalog or one document of a folder, as a source read it.

    `text` is what is chunked and embedded, and the text that a chunk's character span points into. For a file it is
    the file's own text, front matter included; `body_start` is the first character to be chunked. For a catalog
    record it is composed from the weighted fields.
    """

    id: str
    name: str
    text: str
    kind: Literal["catalog", "markdown", "text"]
    source: str
    """The file the record came from, relative to the folder or catalog given."""
    line: int = 1
    """The line of `source` where the record starts, from 1."""
    body_start: int = 0
    description: str = ""
    url: str | None = None
    license: str | None = None
    keywords: tuple[str, ...] = ()
    group: str | None = None
    fields: tuple[Field, ...] = ()
    supporting_data: Mapping[str, Json] = field(default_factory=dict)
    """`modalities`, `dimensions`, `formats` (lists of strings) and `demo_url`, where the record has them."""
    metadata: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """A piece of the source that did not become a record, and why: a line of the quarantine file."""

    source: str
    line: int
    reason: str
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a source did differently than one might expect, said so that nothing happens in silence."""

    source: str
    message: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of a record's text: `record.text[start:end] == text`.

    `header` is context that is embedded and indexed in front of the text without being part of it: the record's
    name, the section path, a repeated table header. `table_header`, the end of it, is shown as well: rows of a table
    cannot be read without it.
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
    """Headings from the outermost to the innermost, joined by " > "; of several sections `A > B, C`."""
    header: str = ""
    tokens: int = 0
    """Tokens of what is embedded: prefix, header, text and special tokens. Never above the encoder's `max_tokens`."""
    table_header: str = ""
    """The header of the table whose rows the text begins with, if the table was cut above them."""
    sections: tuple[str, ...] = ()
    """If several sections share the chunk, the path of each, as `section` is one."""

    @property
    def id(self) -> str:
        return f"{self.doc_id}#{self.index}"

    @property
    def embedded(self) -> str:
        """What the encoder is given, before its passage prefix."""
        return self.header + self.text


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a catalog or one file of a folder, before it is read into a record."""

    digest: bytes
    """SHA-1, 20 bytes, of all that shapes its record besides the line it stands in and the card of its source."""
    source: str
    """The file it stands in, as records and refusals call it."""
    line: int
    read: Callable[[], Iterable[Record | Refused | Notice]]


class Source(Protocol):
    """Goes through what it has, one item at a time; never holds more than one of them in memory."""

    kind: SourceKind
    """Decides how its records are cut and counted."""
    name: str
    """What the manifest calls it."""

    @property
    def card(self) -> Mapping[str, Json]:
        """What shapes the records besides the files themselves (field weights); part of the recipe."""

    @property
    def origin(self) -> Mapping[str, Json]:
        """Where to find it again, as a `sources:` entry of the configuration; paths absolute, secrets not in it."""

    def fetch(self) -> None:
        """Brings here what is kept elsewhere; a source on this machine has nothing to do.

        Raises:
            SourceFailed: it does not answer, or not with records.
        """

    def stamp(self) -> list[int] | None:
        """Marks of the file it reads that change with it, for a look that costs nothing; None where there are many."""

    def scan(self) -> Iterator[Item | Refused | Notice]:
        """Every item in order, and a `Refused` in place of each one that cannot even be looked at.

        Raises:
            UsageError: it cannot be read at all.
        """


@runtime_checkable
class Foldered(Protocol):
    """A source of many files in folders."""

    def folders(self) -> Mapping[str, Json]:
        """Marks of its folders, from which a query sees later that a file came or went; taken before a scan."""


@runtime_checkable
class Countable(Protocol):
    """A source that can say at little cost how many items it has."""

    def count(self) -> int | None:
        """Return their number, or an estimate; None if there is none.

        Raises:
            OSError: it cannot be read.
        """


class Watched(Protocol):
    """A source as it was when it was built, compared with what it is now."""

    def stale(self) -> str:
        """Changes of the source at first sight, before any hit is compared; empty if there are none."""

    def grown(self) -> str:
        """Changes that no hit can show, such as a new file; empty if there are none."""

    def freshness(self, record: Mapping[str, Json], digest: bytes) -> Freshness:
        """Of a record as it is kept; `digest` is that of the item it was read from."""

    def remember(self) -> None:
        """Keep what makes a later look cheap, if the source is as it was built.

        Raises:
            OSError: it cannot be read, or that cannot be written.
        """


@runtime_checkable
class Filed(Protocol):
    """A source of which each record is a file on this machine."""

    def file_of(self, record: Mapping[str, Json]) -> str:
        """Return the absolute path of the record's file."""


class Tokenizer(Protocol):
    """The encoder's own tokenizer, for counting and for finding places to cut."""

    @property
    def special_tokens(self) -> int:
        """How many tokens are added around a single text ([CLS] and [SEP]: 2)."""

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        """Character span of each token of the whole text, without special tokens and without truncation."""

    def count(self, text: str) -> int:
        """Number of tokens of the whole text, without special tokens."""


class Analyzer(Protocol):
    """Text to the terms that lexical retrievers compare."""

    def terms(self, text: str) -> list[str]:
        """Return the terms of a text in order, repeats included."""

    def spans(self, text: str) -> Iterable[tuple[int, int, Sequence[str]]]:
        """Yield where each word stands in a text, and its terms."""


class Chunker(Protocol):
    """Cuts a record into chunks that cover its body in order; none exceeds the encoder's `max_tokens`."""

    @property
    def card(self) -> Mapping[str, Json]:
        """The parameters that change the chunks; part of the recipe."""

    def chunk(self, record: Record) -> Iterator[Chunk]: ...


@dataclass(frozen=True, slots=True)
class ModelCard:
    """All that decides where a text lands in vector space. Hashed into the recipe; device and batch size stay out."""

    family: str
    """hashed, transformer, remote, or the name of a plug-in."""
    name: str
    revision: str
    """SHA-1 of the weights, or of the parameters where there are none."""
    dim: int
    max_tokens: int
    """Longest input in tokens, special tokens included."""
    query_prefix: str = ""
    passage_prefix: str = ""
    pooling: Literal["mean", "cls", "max", "lasttoken", "none"] = "mean"
    normalize: bool = True
    precision: Literal["float32", "float16", "bfloat16"] = "float32"
    """Precision in which the passages were encoded. A query in another precision still meets the same space."""


class Encoder(Protocol):
    """Texts to vectors. Making one is cheap; weights load at the first text."""

    @property
    def card(self) -> ModelCard: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def device(self) -> str:
        """Where it runs and why, for people: "cpu (no GPU found)"."""

    @property
    def truncated(self) -> int:
        """How many texts so far were longer than the card's `max_tokens` and lost their end."""

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32, rows of L2 norm 1 where the card normalises."""

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32. On a CPU a text's vector is the same to the bit whatever texts stand beside it."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenVectors:
    """A text as its tokens, each with its place in the encoder's space before pooling."""

    ids: Terms
    """(t,) int32; special tokens are left out, unless there are no others."""
    vectors: Vectors
    """(t, dim) float32, of any length."""


@runtime_checkable
class TokenEncoder(Protocol):
    """What an encoder can do besides, where its model has tokens: what late interaction compares."""

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """The tokens of queries, each cut to the model's limit."""

    def encode_passages_into(self, texts: Sequence[str], take: Callable[[int, TokenVectors], None]) -> Vectors:
        """What `encode_passages` gives; `take` is handed the tokens of each text by its place, from any thread."""


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
    """(m,) int32 ids of vocabulary entries, ascending."""
    weights: Vectors
    """(m,) float32, all above 0."""


@runtime_checkable
class GradualSparseEncoder(Protocol):
    """A sparse encoder that passes results on while a long call is under way."""

    def encode_passages_gradually(
        self, texts: Sequence[str], done: Callable[[Sequence[int], Sequence[TermWeights]], None]
    ) -> list[TermWeights]:
        """Return what `encode_passages` does; `done` gets places of texts and their weights as they come, if these
        would be the same in another batch."""


class SparseEncoder(Protocol):
    """Texts to weighted vocabulary entries (SPLADE and its kin). Making one is cheap; weights load at first use."""

    @property
    def card(self) -> Mapping[str, Json]:
        """All that changes the weights; part of the recipe."""

    @property
    def device(self) -> str:
        """Where it runs and why, for people."""

    def encode_queries(self, texts: Sequence[str]) -> list[TermWeights]: ...

    def encode_passages(self, texts: Sequence[str]) -> list[TermWeights]: ...


# --------------------------------------------------------------------------------------------- the way out


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file that a question is about, and what it says of itself."""

    path: str
    tokens: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """A question as it was asked, with all that narrows it."""

    text: str
    id: str = "0"
    also: tuple[str, ...] = ()
    """Other ways to put it, asked along with it."""
    files: tuple[str, ...] = ()
    """Paths of what it is about."""
    known: tuple[KnownFile, ...] = ()
    """Those of the files that were read before: they are not read again."""
    filters: tuple[str, ...] = ()
    """Conditions on records, all of which must hold."""
    doc_ids: tuple[str, ...] = ()
    """The only records that may be found, where there are any."""
    tenant: str | None = None
    """Whose records may be found."""
    retrievers: tuple[str, ...] = ()
    """The only retrievers that answer it, if it names any."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question as the retrievers are asked it (`text`), under the id it is reported by."""

    text: str
    id: str = "0"
    also: tuple[Query, ...] = ()
    """The same in other words: their rankings are fused with its own."""
    variant_of: Query | None = field(default=None, compare=False, repr=False)
    """The query of which it is one of several texts, as these are ranked one by one."""
    records: Mask | None = field(default=None, compare=False)
    """(records,) bool: the records that may be found; None: all."""
    chunks: Mask | None = field(default=None, compare=False)
    """(chunks,) bool: the chunks by which a record may be found; None: all. Each of `records` has one, and there are
    `records` then. Other chunks of these records are not found, and may stand around one that is."""
    visible: Mask | None = field(default=None, compare=False)
    """(records,) bool: the records that exist for whoever asks, `records` among them; None: all.

    Filters narrow `records`, and what they leave out may still be a dependency or lie on a path. What is not visible
    takes no part in an answer: it is not a hit, a dependency, a step of a path, a number in a count or a suggestion.
    """


@dataclass(frozen=True, slots=True)
class Question:
    """A request as it was understood: the query for the retrievers, and the origin of each part of it."""

    request: Request
    query: Query
    clean: str
    """The text without its control tags."""
    formats: tuple[str, ...] = ()
    """Tokens of files and of tags: `format:CT`."""
    excluded: tuple[str, ...] = ()
    """Ids of the records that are not to be found."""
    filters: tuple[tuple[str, str], ...] = ()
    """The conditions that hold: the field of each, and the whole as the filter language writes it."""
    notices: tuple[str, ...] = ()
    """What was not understood, and what a file is not."""
    files: tuple[KnownFile, ...] = ()
    """Facts from its files, unless files do not count."""

    @property
    def enhanced(self) -> str:
        """The clean text and the tokens behind it."""
        return " ".join([self.clean, *self.formats]).strip()


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The hits of one retriever for one query: rows, best first, and the spread of scores over all rows."""

    rows: Rows
    """(m,) int64 rows of the index, or groups of rows where the search was grouped."""
    scores: Vectors
    """(m,) float32, descending."""
    mean: float
    deviation: float
    """Mean and standard deviation of the query's score over every row of the index; rows without a match count."""
    before: int = 0
    """Number of rows, or groups, visible to the query that could be listed without a filter."""
    after: int = 0
    """How many of them a filter lets through; all of them where there is none."""


class Index(Protocol[Q_contra]):
    """The artifact of one retriever: finds the best rows for a query and scores any row it is asked about."""

    @property
    def unit(self) -> Unit:
        """What a row stands for."""

    def __len__(self) -> int:
        """Number of rows."""

    def search(
        self,
        queries: Sequence[Q_contra],
        *,
        depth: int,
        starts: Rows | None = None,
        allowed: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
    ) -> list[Candidates]:
        """The `depth` best rows for each query. With `starts` (first row of each group, then the number of rows),
        the best groups instead, a group being worth its best row. An answer does not depend on the batch.

        `allowed` says by query which rows, or groups, may be listed; None: all. Of those the `depth` best are listed,
        however many better ones are not allowed. `visible` says likewise which rows `before` may count; it is given
        only if a query has such a mask.
        """

    def score(self, query: Q_contra, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """The query's score for each of `rows` (or groups), exactly, whether or not a search would find them."""


@runtime_checkable
class Matching(Protocol[Q_contra]):
    """An index whose rows match a query or do not: they share a term with it. Any vector is near to any other."""

    def matching(self, query: Q_contra, *, starts: Rows | None = None, allowed: Mask | None = None) -> Rows:
        """Return the rows (or groups) that match, however many, in ascending order; with a mask, those allowed."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a hit stands where it stands, by one retriever's account, or that of a stage which rescored it."""

    source: str
    """The retriever or stage: `dense`, `graph`, `mmr`, `text 1`."""
    rank: int | None
    """Rank in the retriever's own list from 1; None where it was scored outside that list."""
    score: float
    normalized: float
    weight: float


@dataclass(frozen=True, slots=True)
class Reranked:
    """How a reranker moved a hit."""

    scorer: str
    before: int
    """Rank from 1 before it was read again."""
    retrieval_score: float
    """The score it had then."""
    score: float
    """What the reranker gave it, on the reranker's own scale."""
    relevance: float | None = None
    """The same from 0 to 1, if that is the reranker's scale."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A place in a ranking. Its rank is its position; its text stays in the store."""

    id: str
    """Chunk id; the tie-breaker of equal scores."""
    row: int
    """Chunk row in the store."""
    record: int
    """Record row in the store."""
    score: float
    evidence: tuple[Evidence, ...] = ()
    reranked: Reranked | None = None
    """Where a reranker read it."""
    path: str | None = None
    """How other hits led to it, where that is why it stands here: `scanpy —requires→ scrublet (0.42)`."""
    topped_up: str | None = None
    """Why it would have been cut, if there were not too few hits without it: `it fails max_distance 0.4`."""


class Matches(Protocol):
    """Matches of the retrievers for one query, counted on demand."""

    def matched(self) -> int:
        """Return how many records (chunks, if these are ranked) any retriever matched."""

    def considered(self) -> int:
        """Return how many different ones are on the retrievers' lists."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """An ordered answer to one query."""

    query: Query
    hits: tuple[Hit, ...] = ()
    trace: Mapping[str, Json] = field(default_factory=dict, compare=False)
    """What the stages have to say of it besides its hits."""
    matches: Matches | None = field(default=None, compare=False, repr=False)
    """Matches of the retrievers, set by the stages that ask them."""

    @classmethod
    def of(cls, query: Query, hits: Iterable[Hit], *, trace: Mapping[str, Json] | None = None) -> Ranking:
        """Hits in order, by score and then by chunk id: a run repeats to the byte. Nobody else puts hits in order."""
        return cls(query, tuple(sorted(hits, key=lambda hit: (-hit.score, hit.id))), trace or {})

    @classmethod
    def again(cls, query: Query, hits: Iterable[Hit], *, trace: Mapping[str, Json] | None = None) -> Ranking:
        """Hits of a ranking that have other scores now, in their new order; equal ones stay as they stood."""
        return cls(query, tuple(sorted(hits, key=lambda hit: -hit.score)), trace or {})

    def first(self, count: int) -> Ranking:
        """The first `count` hits."""
        return Ranking(self.query, self.hits[:count], self.trace, self.matches)


class Package(NamedTuple):
    """A distribution, under any of its names, that a retriever cannot do without if its section has a value."""

    names: tuple[str, ...]
    key: str
    value: str
    card_key: str = ""
    """The key of the card that says the same of an index, if it has another name."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A part that a package adds through an entry point of the group `retrieve.plugins`, under the entry's name.

    It is chosen by that name: `encoder.kind`, `chunking.strategy`, `kind` of a source, `rerank.backend`.
    """

    kind: Literal["encoder", "chunker", "source", "reranker"]
    make: Callable[..., Any]
    """encoder: (settings) -> Encoder; chunker: (tokenizer, settings) -> Chunker; source: (entry, settings) -> Source;
    reranker: (settings) -> PairScorer. `settings` are all settings, whose `plugins` hold what a plug-in is configured
    with."""


class PairScorer(Protocol):
    """How well a passage answers a query, read together. Making one is cheap; weights load at the first pair."""

    @property
    def name(self) -> str:
        """What it is called in pipelines and evidence: `maxsim`, or a model's name."""

    def score(self, query: str, passages: Sequence[str]) -> Vectors:
        """(n,) float32, higher is better. A passage's score does not depend on the others, where the model allows it.

        Raises:
            Unavailable: the model, package or server is not there.
        """


@runtime_checkable
class Scaled(Protocol):
    """A scorer that knows the scale of its scores."""

    @property
    def unit_scale(self) -> bool:
        """True if every score is from 0, not relevant, to 1, relevant: what a model's sigmoid gives."""


class Stage(Protocol):
    """Rankings to rankings: one for each, in the same order. A value; `str(stage)` is the expression that made it."""

    @property
    def kind(self) -> Kind: ...

    @property
    def rescores(self) -> bool:
        """True if scores after this stage have another meaning than before."""

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]: ...
