"""Queries, rankings and hits, and the promises of indexes and stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, runtime_checkable

from retrieve_cli.contracts.values import Json, Kind, Q_contra, Unit
from retrieve_cli.contracts.wording import Correction
from retrieve_cli.frozen import Described, Frozen, replace

if TYPE_CHECKING:
    from retrieve_cli.contracts.engines import Filter
    from retrieve_cli.contracts.values import Mask, Rows, Vectors


class KnownFile(Frozen):
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


class Request(Frozen):
    """A query as the user sent it, with all its conditions."""

    text: str
    id: str = "0"
    also: tuple[str, ...] = ()
    """Query variants: other wordings of the same query."""
    files: tuple[str, ...] = ()
    """Paths of files that the query is about."""
    heads: tuple[FileHead, ...] = ()
    """Beginnings of files that came with the query."""
    filters: tuple[str, ...] = ()
    """Conditions on records; all must hold."""
    like: tuple[str, ...] = ()
    """Ids of records that the results are to resemble; they are not among the results."""
    not_like: tuple[str, ...] = ()
    """Ids of records that the results are not to resemble; they are not among the results."""
    doc_ids: tuple[str, ...] | None = None
    """Ids to which the results are restricted; None: all records, an empty tuple: none."""
    typed_ids: bool = False
    """True if a person typed these ids, so that one that no record has is an error; else it finds nothing."""
    tenant: str | None = None
    """Tenant whose records may be found."""
    confined: bool = False
    """True if the tenant comes from a credential: then a request to an index in which no record has a tenant finds
    nothing, as for any tenant without records; otherwise such a request is an error for the operator."""
    retrievers: tuple[str, ...] = ()
    """Retrievers to use, if the request names any."""


class Examples(NamedTuple):
    """Records by their example: a query adds the vectors of some and subtracts the vectors of others."""

    text: str
    """The words of the request, which `Query.text` has in front of the texts of the records."""
    like: tuple[int, ...]
    """Record rows."""
    not_like: tuple[int, ...]


class Query(Described):
    """A query for the retrievers (`text`), with the id for reports."""

    apart: ClassVar = (
        "examples",
        "variant_of",
        "named",
        "records",
        "narrowed",
        "chunks",
        "conditions",
        "visible",
        "own",
    )
    text: str
    id: str = "0"
    lists: bool = False
    """True if it has no words and lists all records that may be found."""
    named: tuple[int, ...] = ()
    """Rows of the records that it lists by their names, if it is such a list."""
    also: tuple[Query, ...] = ()
    """Query variants: their rankings are fused with the ranking of the query."""
    beside: tuple[tuple[str, float], ...] = ()
    """Words that retrievers of words also search for, with their weights."""
    examples: Examples | None = None
    """Records whose vectors are part of the query."""
    variant_of: Query | None = None
    """The query whose texts are ranked one by one, if this is one of them."""
    records: Mask | None = None
    """Records that may be found, (records,) bool; None: all."""
    narrowed: bool = False
    """True if records of the index may not be found: because of a filter, a tenant, a name."""
    chunks: Mask | None = None
    """Chunks by which a record may be found, (chunks,) bool; None: all. Each of `records` has one, and `records` is set
    as well. Other chunks of these records are not found, but may be context of one that is."""
    conditions: Callable[[], Filter | None] | None = None
    """Function that expresses `records` as a filter of engines; the function or its result is None if that is not
    possible. Remove it whenever `records` is replaced."""
    visible: Mask | None = None
    """Records that the request may see, (records,) bool, `records` among them; None: all.

    Filters narrow `records`, but a record outside the filter may still be a dependency or lie on a path. An invisible
    record takes no part in an answer: not as a hit, a dependency, a step of a path, a suggestion or in a count.
    """
    own: Mask | None = None
    """Records of the request's tenant, (records,) bool, `visible` among them; None: all, as the request has no tenant.

    Mean and deviation of scores are computed over these, so that neither filters nor exclusions change the scores of
    the remaining records.
    """


class Question(Frozen):
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
    without: tuple[str, ...] = ()
    """Words and phrases that no result has."""
    corrections: tuple[Correction, ...] = ()
    """Words of the request that no record has, and the words in their place."""
    synonyms: tuple[str, ...] = ()
    """Words that are searched for beside the text."""
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


class Candidates(Frozen, eq=False):
    """Hits of one retriever for one query: rows, best first, and mean and deviation of scores."""

    rows: Rows
    """Rows of the index, or groups of rows if the search was grouped, (m,) int64."""
    scores: Vectors
    """Scores, (m,) float32, descending."""
    mean: float
    deviation: float
    """Mean and standard deviation of the query's scores over all visible rows of the index, rows without a match
    included; of an index that does not score all rows, over the listed ones."""
    before: int = 0
    """Number of rows, or groups, visible to the query that could be listed without a filter."""
    after: int = 0
    """Number of them that pass the filter; the same number without a filter."""
    best: Rows | None = None
    """The best row of each group, (m,), if the index cannot be asked for it later."""
    floor: float = 0.0
    """Score of rows that are not listed, if the index cannot be asked for it later."""


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
        are listed, however many better rows are not allowed. `visible` masks the rows of the request's tenant, over
        which `before`, mean and deviation are; it is given only if a query has such a mask.
        """

    def score(self, query: Q_contra, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the query's exact score for each of `rows` (or groups), whether or not a search would find them."""


class Joint(Protocol):
    """Searches of several retrievers that are sent together."""

    def send(self) -> None:
        """Send all searches, in one request to each server. Failures are raised for their answers."""


@runtime_checkable
class RemoteIndex(Protocol[Q_contra]):
    """An index in an engine, whose searches can be joined with others."""

    def begin(
        self,
        queries: Sequence[Q_contra],
        joint: Joint | None = None,
        *,
        depth: int,
        starts: Rows | None = None,
        allowed: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
        chunks: Sequence[Mask | None] | None = None,
        conditions: Sequence[Filter | None] | None = None,
    ) -> tuple[Joint, Callable[[], list[Candidates]]]:
        """Add a search as `Index.search` does it; return all searches so far, and a function for its answer once they
        are sent. `chunks` masks the chunks by which a record may be listed; `conditions` express `allowed` as filters
        of the engine."""


@runtime_checkable
class Matching(Protocol[Q_contra]):
    """An index whose rows either match a query, by a shared term, or do not. Vectors in contrast are always near."""

    def matching(self, query: Q_contra, *, starts: Rows | None = None, allowed: Mask | None = None) -> Rows:
        """Return all rows (or groups) that match, in ascending order; with a mask, only allowed ones."""


VARIANT = "text "
"""Beginning of the source of evidence from one of several query variants, before its number."""
NOT_PICKED = "not picked"
"""Reason for which a reranker that picks some hits removed others."""
NAMED = "names"
"""Source of evidence that the query lists the record of a hit by its name."""
LOWERED = "lowered"
"""Source of evidence that a hit was moved below hits that a stage prefers, regardless of their scores."""


class Evidence(Frozen):
    """Reason for the position of a hit, from one retriever, or from a stage that rescored it."""

    source: str
    """Retriever or stage: `dense`, `graph`, `mmr`, `text 1`."""
    rank: int | None
    """Rank in the retriever's list, from 1; None if the hit was scored outside that list."""
    score: float
    normalized: float
    weight: float

    @property
    def part(self) -> float:
        """Amount that it adds to the score of the hit."""
        return self.weight * self.normalized


class Reranked(Frozen):
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
    part: float = 0.0
    """Amount that reranking added to the score of the hit, on the scale of retrieval."""
    picked: bool | None = None
    """True if the reranker chose it; None if it does not choose."""


class Hit(Frozen):
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

    def lowered(self, score: float) -> Hit:
        """Return the hit with a score that is not above this, and the evidence of that."""
        if score >= self.score:
            return self
        why = Evidence(LOWERED, None, self.score, score - self.score, 1.0)
        return replace(self, score=score, evidence=(*self.evidence, why))

    @property
    def counted(self) -> Sequence[Evidence]:
        """The evidence whose parts add up to the score, including the reranker's. If query variants were merged, it is
        the evidence of each variant, since the retrievers' evidence is of one variant."""
        variants = (place for place, each in enumerate(self.evidence) if each.source.startswith(VARIANT))
        return self.evidence[next(variants, 0) :]


class Matches(Protocol):
    """Matches of the retrievers for one query, counted on demand."""

    def matched(self) -> int:
        """Return the number of records (chunks, if these are ranked) that any retriever matched."""

    def rows(self) -> Rows:
        """Return the different rows of these, in order."""

    def considered(self) -> int:
        """Return the number of different ones on the retrievers' lists."""


class Ranking(Described):
    """An ordered answer to one query."""

    apart: ClassVar = ("trace", "matches")
    query: Query
    hits: tuple[Hit, ...] = ()
    trace: Mapping[str, Json] = {}
    """Notes of the stages for explanations."""
    matches: Matches | None = None
    """Matches of the retrievers, set by the retrieval stages."""

    @classmethod
    def of(cls, query: Query, hits: Iterable[Hit], *, trace: Mapping[str, Json] | None = None) -> Ranking:
        """Return hits in order of score, rounded to 1e-6, then chunk id. Nothing else sorts hits."""
        return cls(query, tuple(sorted(hits, key=lambda hit: (-round(hit.score, 6), hit.id))), trace or {})

    @classmethod
    def again(cls, query: Query, hits: Iterable[Hit], *, trace: Mapping[str, Json] | None = None) -> Ranking:
        """Return rescored hits of a ranking in their new order; those that are equal after rounding to 1e-6 keep their
        relative order."""
        return cls(query, tuple(sorted(hits, key=lambda hit: -round(hit.score, 6))), trace or {})

    def first(self, count: int) -> Ranking:
        """Return the first `count` hits."""
        return Ranking(self.query, self.hits[:count], self.trace, self.matches)


class Stage(Protocol):
    """Conversion of rankings: one result for each, in order. A value; `str(stage)` is the expression that made it."""

    @property
    def kind(self) -> Kind: ...

    @property
    def rescores(self) -> bool:
        """True if scores have another meaning after this stage than before."""

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]: ...
