"""Answers, their results, and the text around a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from retrieve_cli.config.plugins import LLM
from retrieve_cli.contracts import NOT_PICKED, Freshness, Hit, Json, Matches, Question, Request, Unit
from retrieve_cli.frozen import Described, Frozen, replace
from retrieve_cli.search.places import place_of

if TYPE_CHECKING:
    from retrieve_cli.contracts.layout import Place
    from retrieve_cli.retrieval.stages.pipeline import Step
    from retrieve_cli.search.facets import Facet
    from retrieve_cli.search.relaxation import Attempt
else:
    Place = Step = Facet = Attempt = object  # `help` looks these names up, and nothing else does

Engine = Literal["advanced", "naive"]
"""`advanced`: every stage; `naive`: the dense retriever alone."""


class Span(Frozen):
    """Consecutive chunks of one record, read as one text: a hit and its neighbours."""

    doc_id: str
    first: int
    last: int
    """Index within the record of the first and the last chunk."""
    text: str
    """The record's text from `start` to `end`; of what lies between two chunks, all of it white space, only the
    extent is known and not the kind."""
    start: int
    end: int
    start_line: int
    end_line: int
    header: str = ""
    """The header of the table whose rows the text begins with, if the table was cut above them."""
    merged: tuple[str, ...] = ()
    """Chunk ids of later hits inside the span that are no longer separate results, best first."""
    place: Place | None = None
    """Its pages, anchor and boxes, if the document has a layout; its lines are then lines of the extracted text."""

    @classmethod
    def of(cls, chunk: Mapping[str, Json]) -> Span:
        """A row of `chunks.jsonl` alone."""
        places = {key: chunk[key] for key in ("doc_id", "text", "start", "end", "start_line", "end_line")}
        index, header = chunk["index"], chunk.get("table_header", "")
        return cls(first=index, last=index, header=header, place=place_of(chunk), **places)

    @property
    def shown(self) -> str:
        """The text below the header of the table that it continues, if it does."""
        return self.header + self.text

    def __len__(self) -> int:
        """Number of its chunks."""
        return self.last - self.first + 1

    @property
    def chunk_ids(self) -> tuple[str, ...]:
        return tuple(f"{self.doc_id}#{index}" for index in range(self.first, self.last + 1))


class Dependency(Frozen):
    """A record that another one requires."""

    id: str
    name: str
    text: str
    """Its first chunk."""
    outside_filter: bool = False
    """True if it does not pass the filters of the request: it is needed all the same."""


class Bundle(Frozen):
    """Dependencies of a result, direct or not."""

    needs: tuple[Dependency, ...]
    """Each after all that it needs itself."""
    cycles: tuple[tuple[str, ...], ...] = ()
    """Ids of records that need one another."""


class Skipped(NamedTuple):
    """A hit for which a budget had no room."""

    id: str
    """Its chunk id."""
    rank: int
    """Its rank before the budget, from 1."""
    size: int
    """Tokens of the hit alone; 1, its chunk, where tokens are not limited."""
    outranks: bool
    """True if a hit of a lower rank is shown."""


class Spent(Described):
    """Use of a budget, and the hits that did not fit."""

    apart: ClassVar = ("skipped", "count")
    chunks: int
    """Chunks that are passed on, neighbours of hits included."""
    tokens: int | None = None
    """Sum over the texts that are passed on, each counted by itself; None if tokens are not limited."""
    max_chunks: int | None = None
    max_tokens: int | None = None
    tokenizer: str | None = None
    """Name of the tokenizer that counted."""
    cut: tuple[tuple[str, str], ...] = ()
    """Chunk ids of hits that are skipped, or shown without neighbours, and why; in rank order."""
    skipped: tuple[Skipped, ...] = ()
    """The hits of `cut` that are not shown at all."""
    count: Callable[[str], int] | None = None
    """Counts the tokens of a text; None if tokens are not limited."""

    @property
    def exceeded(self) -> bool:
        """True if more is spent than there was."""
        limits = ((self.chunks, self.max_chunks), (self.tokens, self.max_tokens))
        return any(limit is not None and (spent or 0) > limit for spent, limit in limits)

    def as_json(self) -> dict[str, Json]:
        """Return the budget as the output shows it."""
        kept = {name: getattr(self, name) for name in ("max_chunks", "chunks", "max_tokens", "tokens", "tokenizer")}
        skipped = {each.id: {"rank": each.rank, "size": each.size} for each in self.skipped}
        return {**kept, "cut": [{"id": name, "why": why, **skipped.get(name, {})} for name, why in self.cut]}


class Result(Frozen):
    """A hit with its rows of `records.jsonl` and `chunks.jsonl`."""

    hit: Hit
    record: Mapping[str, Json]
    chunk: Mapping[str, Json]
    freshness: Freshness = "fresh"
    confidence: float | None = None
    """Probability that it is relevant, if the scores are calibrated."""
    bundle: Bundle | None = None
    """Its dependencies, if they were requested and the index has edges."""
    context: Span | None = None
    """The hit with its neighbours, if they were requested; its score and place are the hit's own."""
    file: str = ""
    """Absolute path of the document on this machine; empty for a record of a catalog."""

    @property
    def id(self) -> str:
        """The id of its chunk."""
        return self.hit.id

    @property
    def doc_id(self) -> str:
        """The id of its record."""
        return str(self.record["id"])

    @property
    def name(self) -> str:
        """The name of its record."""
        return str(self.record["name"])

    @property
    def url(self) -> str | None:
        """The address of its record, if it has one."""
        address: str | None = self.record["url"]
        return address

    @property
    def score(self) -> float:
        """The score that results are ordered by."""
        return self.hit.score

    @property
    def place(self) -> Place | None:
        """The pages, anchor and boxes of its chunk, if its document has a layout."""
        return place_of(self.chunk)

    @property
    def header(self) -> str:
        """The header of the table whose rows its text begins with, if the table was cut above them."""
        return str(self.chunk.get("table_header", "")) if self.context is None else self.context.header

    @property
    def text(self) -> str:
        """Text that is shown, passed on and counted by a budget: a stretch of the record below its `header`."""
        return self.header + str(self.chunk["text"]) if self.context is None else self.context.shown

    @property
    def retrieval_score(self) -> float:
        """The reranker's score, on its own scale, of a result that it scored; of all others the score of retrieval."""
        return self.hit.reranked.score if self.hit.reranked else self.hit.score

    final_score = retrieval_score

    @property
    def picked(self) -> bool | None:
        """True if a language model chose it, as a reranker or as the retriever; None if none chose."""
        if self.hit.reranked is not None and self.hit.reranked.picked is not None:
            return self.hit.reranked.picked
        return any(each.source == LLM and each.rank is not None for each in self.hit.evidence) or None

    @property
    def relevance(self) -> float | None:
        """Relevance from 0 to 1: its confidence where the scores are calibrated, else the score of a reranker
        that has this scale by itself; None where neither is known. No other score is made to look like one."""
        if self.confidence is not None:
            return self.confidence
        return self.hit.reranked.relevance if self.hit.reranked else None


class Course(NamedTuple):
    """Course of a question's candidates from stage to stage."""

    stages: tuple[tuple[str, int], ...] = ()
    """Hits that each stage passed on."""
    top_score: float | None = None
    """The best score when they were retrieved."""
    read: int = 0
    """Number of hits that the reranker scored."""
    top_score_change: float | None = None
    """The best score after reranking less the best one before it; None without a reranker."""

    @classmethod
    def of(cls, steps: Sequence[Step], at: int) -> Course:
        """Return the course of the query at index `at` of a batch."""
        hits = [step.rankings[at].hits for step in steps]
        tops = [found[0].score if found else None for found in hits]
        stages = tuple((step.name, len(found)) for step, found in zip(steps, hits, strict=True))
        place = next((place for place, step in enumerate(steps) if step.stage.kind == "rerank"), None)
        if place is None:
            return cls(stages, tops[0])
        before, after = tops[place - 1], tops[place]
        change = None if before is None or after is None else after - before
        return cls(stages, tops[0], sum(hit.reranked is not None for hit in hits[place]), change)


class Answer(Frozen):
    """The answer to one question."""

    question: Question
    results: tuple[Result, ...]
    unit: Unit
    """Unit of a result: a record, shown by its best chunk, or a chunk."""
    strategies_used: tuple[str, ...]
    strategies_skipped: Mapping[str, str]
    """Reason for each requested retriever or reranker that did not run."""
    fusion_method: str
    pipeline: str
    generation: str
    timings_ms: Mapping[str, float]
    """`open` once for the batch; `encode`, `search`, `rerank` and `total` a query, averaged over the batch."""
    matches: Callable[[str], list[tuple[int, int]]]
    """Spans of the words of a text that share a term with the query."""
    reranked: bool = False
    rerank_strategy: str | None = None
    """The backend that reranked."""
    engine: Engine = "advanced"
    found: Matches | None = None
    """Matches of the retrievers for the text that is answered."""
    confidence: Mapping[str, Json] | None = None
    """Origin of the results' confidence, and the number of hits that were dropped for too little of it."""
    deadline: Mapping[str, Json] | None = None
    """Its `ms`, whether it was `met`, and the steps `asked` for and `done`; None without one."""
    attempts: tuple[Attempt, ...] = ()
    """Every text that was tried, if the first one had too few results. The results are of the text with the most."""
    trace: Mapping[str, Json] = {}
    """Notes of stages that are not about hits: filters, group routing, texts, thresholds, diversity, expansion."""
    spent: Spent | None = None
    """Set if there was a budget."""
    related: tuple[Result, ...] = ()
    """Records that the results link to and that are not among them, best first; each hit has its `path`."""
    course: Course = Course()
    """Course of its candidates, for the wording that found the most."""
    k: int = 0
    """Number of results that were requested."""
    before_budget: int = 0
    """Number of results before a budget cut some, and before neighbours were joined."""
    run_id: str | None = None
    """Id of the run that was saved, if one was."""
    similar: tuple[str, ...] = ()
    """The retrievers whose score is a similarity."""
    notices: tuple[str, ...] = ()
    """Notices for the user: on the question, on the answer, and on the batch of this answer."""
    offset: int = 0
    """Number of results on earlier pages."""
    facets: Mapping[str, Facet] = {}
    """By field that was asked for, the values that matching records have."""
    explain: bool = False
    """True if each result explains its rank."""
    brief: bool = False
    """True if JSON has ids, names and paths of related records and nothing else."""
    stale: str = ""
    """A notice on sources that have changed since the build. JSON has it by result: the rest of an answer does not
    depend on the present state of sources."""
    skip_kinds: Mapping[str, str] = {}
    """Kind of the reason of each of `strategies_skipped`: of an error, `deadline`, `substituted` or `no_words`."""

    @property
    def total_matches(self) -> int:
        """Number of records (or chunks, if these are ranked) that any retriever matched; see `stages.matches.Found`."""
        return len(self.results) if self.found is None else self.found.matched()

    @property
    def candidates_considered(self) -> int:
        """Number of different ones on the lists of the retrievers, each as long as its depth."""
        return len(self.results) if self.found is None else self.found.considered()

    @property
    def removed(self) -> dict[str, int]:
        """Number of results that each threshold removed, and how many a reranker did not pick."""
        return removed_by(self.trace, self.confidence)

    def strategies_of(self, result: Result) -> list[str]:
        """The retrievers that have a result on their lists; of several texts, for the one that ranked it best."""
        ranked = {evidence.source for evidence in result.hit.evidence if evidence.rank is not None}
        return [name for name in self.strategies_used if name in ranked]

    @property
    def ranked(self) -> Iterator[tuple[int, Result]]:
        """The results with their ranks, from 1 on the first page."""
        return enumerate(self.results, self.offset + 1)

    @property
    def served_ms(self) -> dict[str, float]:
        """Milliseconds by stage of a query to an index that was open already."""
        spent = {stage: ms for stage, ms in self.timings_ms.items() if stage not in ("open", "total")}
        return {**spent, "total": round(sum(spent.values()), 3)}

    def without_times(self) -> Answer:
        """Return the answer without the time that it took: equal requests have equal ones."""
        return replace(self, timings_ms={})

    @property
    def query(self) -> Request:
        """The request."""
        return self.question.request

    @property
    def stages(self) -> tuple[tuple[str, int], ...]:
        """Hits that each stage passed on."""
        return self.course.stages


def removed_by(trace: Mapping[str, Json], confidence: Mapping[str, Json] | None) -> dict[str, int]:
    """Return the number of results that each threshold removed, by its key and value, from the notes of stages."""
    removed: dict[str, int] = {}
    for stage, section in (("rerank", "rerank."), ("threshold", "search.")):
        for name, count in trace.get(stage, {}).get("cut", {}).items():
            removed[name if name == NOT_PICKED else section + name] = int(count)
    if confidence and confidence.get("left_out"):
        removed[f"min_confidence {confidence['min_confidence']:g}"] = int(confidence["left_out"])
    return removed
