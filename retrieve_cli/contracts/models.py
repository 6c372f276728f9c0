"""Promises of tokenizers, chunkers, encoders and their workers, makers of facets and rerankers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from retrieve_cli.contracts.records import Chunk, Record
from retrieve_cli.contracts.values import Card, Json
from retrieve_cli.frozen import Frozen

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Terms, Vectors


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
        """Return start, end and terms of each word of a text."""

    def shared(self, query: str, text: str) -> list[tuple[int, int]]:
        """Return start and end of each word of a text that a query is searched for."""


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
        """Yield one answer for each chunk, in order of completion."""


class Chunker(Protocol):
    """Division of a record into chunks that cover its body in order; none exceeds the encoder's `max_tokens`."""

    @property
    def card(self) -> Mapping[str, Json]:
        """Parameters that change the chunks; part of the recipe."""

    def chunk(self, record: Record) -> Iterator[Chunk]: ...


class ModelCard(Frozen):
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
        batch, or its vector depends on the batch in any case, as on a GPU."""


class TokenVectors(Frozen, eq=False):
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


class TermWeights(Frozen, eq=False):
    """A text as a sparse vector over a model's vocabulary."""

    terms: Terms
    """Ids of vocabulary entries, (m,) int32, ascending."""
    weights: Vectors
    """Weights of the entries, (m,) float32, all above 0."""


class Passages(NamedTuple):
    """Chunks of the segment that is being written, in order of rows, with the output of the encoders."""

    chunks: int
    """Number of chunks."""
    vectors: Callable[[], Iterable[Vectors]]
    """Function that returns the vectors of all chunks in blocks, (m, dim) float32 each."""
    weights: Callable[[], Iterable[TermWeights]]
    """Function that returns the term weights of all chunks; of none if segments are merged."""


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


class Package(NamedTuple):
    """A distribution, under any of its names, that a retriever requires if a key of its section has a value."""

    names: tuple[str, ...]
    key: str
    value: str
    card_key: str = ""
    """Key of the card that corresponds to `key`, if it has another name."""


Segmenter = Callable[[str], Iterable[str]]
"""Function that returns the words of a text in a script without blanks, in order: parts of the text, unchanged."""


class Plugin(Frozen):
    """A part that a package adds through an entry point of the group `retrieve.plugins`, under the entry's name.

    The configuration names it in `encoder.kind`, `chunking.strategy`, `kind` of a source, `rerank.backend`,
    `web.providers`, `engines.dense`, `lexical` and `sparse`, or `bm25.segmenter`.
    """

    kind: Literal["encoder", "chunker", "source", "reranker", "provider", "engine", "segmenter"]
    make: Callable[..., Any]
    """encoder: (settings) -> Encoder; chunker: (tokenizer, settings) -> Chunker; source: (entry, settings) -> Source;
    reranker: (settings) -> PairScorer; provider: (settings) -> websearch.Provider; engine: (settings) -> Engine;
    segmenter: () -> Segmenter. `settings` are all settings; their `plugins` hold the configuration of plug-ins."""


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


class EmbeddingWorkers(Protocol):
    """Encoders in other processes, here or on other machines, which start with the first text."""

    @property
    def truncated(self) -> int:
        """Number of texts so far that were longer than the model's limit and were truncated."""

    def results(
        self, form: Literal["vectors", "terms"], texts: Sequence[str]
    ) -> Iterator[tuple[Sequence[int], Sequence[Any]]]:
        """Yield indexes of passages with their results, as they come: a vector, (dim,) float32, with the packed tokens
        if these are kept, or term weights.

        Raises:
            TextFailed: a text ends the worker that encodes it, and the next one as well.
            ModelFailed: workers do not start.
        """

    def close(self) -> None:
        """End all workers at once."""
