"""The way out: text -> Query -> legs -> fusion -> Ranking -> Answer, over the live generation. Reads top to bottom."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from retrieve_cli.assemble import encoders, pipelines, rerankers, sources, splade
from retrieve_cli.config import Settings
from retrieve_cli.contracts import Answer, Hit, Index, Json, Query, Ranking, Result, Stage, Unit
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.generation import Generation
from retrieve_cli.manifest import sha1
from retrieve_cli.store import Store
from retrieve_cli.trust import Trust

if TYPE_CHECKING:
    from retrieve_cli.contracts import Encoder, SparseEncoder, TermWeights, Vectors
    from retrieve_cli.indexes.analyzer import Analyzer
    from retrieve_cli.sources.freshness import Watched
    from retrieve_cli.stages.rerank import Reader

Mode = Literal["hybrid", "dense", "bm25", "splade"]
LEGS: Mapping[Mode, tuple[str, ...]] = {
    "hybrid": ("bm25", "dense", "splade"),
    "dense": ("dense",),
    "bm25": ("bm25",),
    "splade": ("splade",),
}


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a batch of queries found, and how."""

    rankings: Sequence[Ranking]
    unit: Unit
    legs: tuple[str, ...]
    """Those that ran."""
    skipped: Mapping[str, str]
    """Why a leg that was asked for did not."""
    fusion_method: str
    pipeline: str
    reranker: str | None
    """What read the first hits again, and how many."""
    depth: int
    """Candidates that each leg was asked for."""
    encode: float
    search: float
    rerank: float
    """Seconds for the whole batch."""


class Searcher:
    """A generation, opened for as many queries as one likes."""

    def __init__(self, store: Store, settings: Settings, generation: str | None = None) -> None:
        """Opens the live generation, or the one named.

        Raises:
            IndexMissing, IndexCorrupt: there is nothing sound to search.
        """
        begun = time.perf_counter()
        self._store = store
        self.settings = settings
        opened = store.open(generation)
        with store.reading(opened[1].id):
            self.generation = Generation(*opened)
            self.indexes = pipelines.open_indexes(self.generation, settings)
        self._opened = time.perf_counter() - begun
        self._vectors: dict[str, Vectors] = {}
        self._terms: dict[str, TermWeights] = {}
        self.notices: list[str] = []
        """What the user should know about the last answers; the caller prints them."""

    def rank(
        self, queries: Sequence[Query], *, k: int, mode: Mode, unit: Unit = "record", rerank: bool | None = None
    ) -> Ranked:
        """A ranking of each query, in order, all legs run over the whole batch.

        What is configured reads the first hits of a hybrid search again; `rerank` says whether it does in any mode.

        Raises:
            UsageError: a query is empty, or `k` is below 1.
            Unavailable: a stage that is required cannot run: the only leg, or a reranker that was asked for.
        """
        for query in queries:
            if not query.text.strip():
                raise UsageError(
                    f"query {query.id!r} is empty", hint='for example: retrieve query "segment lungs in CT"'
                )
        if k < 1:
            raise UsageError(f"-k is {k}; it takes a whole number from 1", hint="retrieve query -k 10 TEXT")
        begun = time.perf_counter()
        wanted = self._legs(mode)
        texts = [query.text for query in queries]
        skipped = dict(self.encode(texts)) if "dense" in wanted else {}
        if "splade" in wanted:
            skipped |= self._encode_sparse(texts)
        if mode in skipped:
            raise skipped[mode]
        encoded = time.perf_counter()
        legs = tuple(leg for leg in wanted if leg not in skipped)
        reader = self._reader(unit, skipped) if (mode == "hybrid" if rerank is None else rerank) else None
        if rerank and reader is None:
            raise skipped.get(self._reranker) or Unavailable("no reranker is configured", hint="set rerank.backend")
        with self._store.reading(self.generation.manifest.id):
            stages, method, rankings, seconds = self._run(queries, legs, k, unit, reader, skipped, asked=bool(rerank))
        return Ranked(
            rankings=rankings,
            unit=unit,
            legs=legs,
            skipped=_reasons(skipped),
            fusion_method=method,
            pipeline=" > ".join(map(str, stages)),
            reranker=str(stages[1]) if len(stages) > 1 else None,
            depth=max(self.settings.search.depth, k),
            encode=encoded - begun,
            search=seconds[0],
            rerank=seconds[1] if len(stages) > 1 else 0.0,
        )

    def _run(
        self,
        queries: Sequence[Query],
        legs: Sequence[str],
        k: int,
        unit: Unit,
        reader: Reader | None,
        skipped: dict[str, Unavailable],
        *,
        asked: bool,
    ) -> tuple[Sequence[Stage], str, list[Ranking], list[float]]:
        """The stages that ran, the fusion formula, what they found, and the seconds of each.

        A reranker that turns out not to be there is left out where it may be, and put among `skipped`.
        """
        stages, method = self.pipeline(legs, k=k, unit=unit, reader=reader)
        rankings = [Ranking(query) for query in queries]
        seconds: list[float] = []
        for stage in stages:
            begun = time.perf_counter()
            try:
                rankings = stage(rankings)
            except Unavailable as error:
                if not seconds or asked or self.settings.rerank.policy == "required":
                    raise
                self._leave_out(error, skipped)
                return stages[:1], method, [ranking.first(k) for ranking in rankings], seconds
            seconds.append(time.perf_counter() - begun)
        return stages, method, rankings, seconds

    @property
    def _reranker(self) -> str:
        backend = self.settings.rerank.backend
        return "maxsim" if backend == "auto" else backend

    def _reader(self, unit: Unit, skipped: dict[str, Unavailable]) -> Reader | None:
        """What reads hits again; where it cannot run, None, and why among `skipped`."""
        try:
            return rerankers.reader(self.generation, self.settings, unit=unit, encoder=lambda: self._encoder)
        except Unavailable as error:
            if self.settings.rerank.policy == "required":
                raise
            self._leave_out(error, skipped)
            return None

    def _leave_out(self, error: Unavailable, skipped: dict[str, Unavailable]) -> None:
        skipped[self._reranker] = error
        self.notices.append(f"{self._reranker} is skipped: {error.message} ({error.hint})")

    def answer(
        self,
        queries: Sequence[Query],
        *,
        k: int,
        mode: Mode,
        unit: Unit = "record",
        rerank: bool | None = None,
        min_confidence: float | None = None,
    ) -> list[Answer]:
        """An answer to each query, in order: its ranking, what the store has of each hit, and a look at its source.

        Where the scores are calibrated, each hit has its confidence, and those below `min_confidence` are left out.

        Raises:
            IndexCorrupt: a row that was found cannot be read.
            UsageError: a confidence is asked for and the scores are not calibrated; and as `rank` does.
            Unavailable: as `rank` does.
        """
        ranked = self.rank(queries, k=k, mode=mode, unit=unit, rerank=rerank)
        begun = time.perf_counter()
        trust = Trust.of(self._store.calibration, self.score_card(ranked), min_confidence, self.notices.append)
        if trust and trust.calibration.generation != self.generation.manifest.id:
            known = trust.calibration.generation
            self.notices.append(f"confidence was measured on generation {known}: retrieve eval --gold FILE --calibrate")
        with self._store.reading(self.generation.manifest.id):
            watched = self._watched()
            results = [self._results(ranking, ranked.legs, watched, trust) for ranking in ranked.rankings]
        self._say_stale(results)
        read = time.perf_counter() - begun
        timings = self._timings(len(queries), encode=ranked.encode, search=ranked.search + read, rerank=ranked.rerank)
        silent = [self._silent(query, ranked.legs) for query in queries]
        return [
            Answer(
                query=ranking.query,
                results=found,
                unit=unit,
                strategies_used=tuple(leg for leg in ranked.legs if leg not in mute),
                strategies_skipped={**ranked.skipped, **mute},
                fusion_method=ranked.fusion_method,
                pipeline=ranked.pipeline,
                generation=self.generation.manifest.id,
                timings_ms=timings,
                matches=partial(_matches, self.indexes.analyzer, ranking.query.text),
                reranked=ranked.reranker is not None,
                confidence=trust.source(len(ranking.hits) - len(found)) if trust else None,
            )
            for ranking, found, mute in zip(ranked.rankings, results, silent, strict=True)
        ]

    def score_card(self, ranked: Ranked) -> dict[str, Json]:
        """All that decides what a score of this ranking means: two of the same card are worth the same."""
        fusion = pipelines.fusion_of(self.settings)
        return {
            "recipe": sha1(self.generation.manifest.recipe),
            "unit": ranked.unit,
            "legs": list(ranked.legs),
            "fusion": ranked.fusion_method,
            "weights": [fusion.weight(leg) for leg in ranked.legs],
            # Over all rows, a score does not depend on how many candidates there are.
            "depth": None if len(ranked.legs) == 1 or fusion.over_all_rows else ranked.depth,
            "rerank": [ranked.reranker, self.settings.rerank.interpolate] if ranked.reranker else None,
        }

    def under(self, settings: Settings, bm25: Index | None = None) -> Searcher:
        """The same generation answering under other settings, and from another BM25 index where one is given."""
        sibling = copy(self)
        sibling.settings = settings
        if settings.dense != self.settings.dense:
            sibling.indexes = pipelines.open_indexes(self.generation, settings)
        if bm25 is not None:
            sibling.indexes = replace(sibling.indexes, bm25=bm25)
        return sibling

    def pipeline(
        self, legs: Sequence[str], *, k: int, unit: Unit, reader: Reader | None = None
    ) -> tuple[list[Stage], str]:
        """The stages that rank by these legs, for queries that were encoded, and the fusion formula."""
        return pipelines.pipeline(
            self.generation,
            self.indexes,
            self.settings,
            legs=legs,
            unit=unit,
            k=k,
            encode={"dense": self._vectors_of, "splade": self._terms_of},
            reader=reader,
        )

    def encode(self, texts: Sequence[str]) -> Mapping[str, Unavailable]:
        """Turns the queries to vectors, for the dense leg to find; without the model, why that leg cannot run."""
        self._vectors = {}
        try:
            self._vectors = dict(zip(texts, self._encoder.encode_queries(texts), strict=True))
        except Unavailable as error:
            self.notices.append(f"the dense leg is skipped: {error.message} ({error.hint})")
            return {"dense": error}
        if self._encoder.truncated:
            limit = self._encoder.card.max_tokens
            self.notices.append(f"the dense leg reads the first {limit} tokens of a query; this one is longer")
        return {}

    def _legs(self, mode: Mode) -> tuple[str, ...]:
        """The legs of a mode that this index has.

        Raises:
            Unavailable: it has none.
        """
        legs = tuple(leg for leg in LEGS[mode] if leg != "splade" or self.indexes.splade is not None)
        if not legs:
            hint = "name a model in splade.model, and build: retrieve build"
            raise Unavailable("this index has no splade leg", hint=hint)
        return legs

    def _encode_sparse(self, texts: Sequence[str]) -> Mapping[str, Unavailable]:
        """Turns the queries to weighted terms, for the splade leg; without the model, why that leg cannot run."""
        try:
            encoder = self._sparse
            self._terms = dict(zip(texts, encoder.encode_queries(texts), strict=True))
        except Unavailable as error:
            if self.settings.splade.policy == "required":
                raise
            self.notices.append(f"the splade leg is skipped: {error.message} ({error.hint})")
            return {"splade": error}
        return {}

    @cached_property
    def _sparse(self) -> SparseEncoder:
        return splade.encoder_to_query(self.settings, self.generation.manifest.recipe["splade"])

    def _terms_of(self, texts: Sequence[str]) -> list[TermWeights]:
        return [self._terms[text] for text in texts]

    def _vectors_of(self, texts: Sequence[str]) -> list[Vectors]:
        return [self._vectors[text] for text in texts]

    def _silent(self, query: Query, legs: Sequence[str]) -> dict[str, str]:
        """Legs that ran and could say nothing about this query."""
        if "bm25" in legs and not self.indexes.analyzer.terms(query.text):
            return {"bm25": "the query has no words besides stop words"}
        return {}

    def _results(
        self, ranking: Ranking, legs: Sequence[str], watched: Sequence[tuple[int, Watched]], trust: Trust | None
    ) -> tuple[Result, ...]:
        """The hits with what the store has of them, how sure they are, and what a look at their sources says."""
        ranking, sure = trust.sure(ranking) if trust else (ranking, [None] * len(ranking.hits))
        hits = ranking.hits
        if legs == ("bm25",) and self.indexes.bm25.unit == "record":
            hits = tuple(self._with_best_chunk(hit, ranking.query) for hit in hits)
        records, chunks = self.generation.records, self.generation.chunks
        found = (
            Result(hit, records[hit.record], chunks[hit.row], confidence=confidence)
            for hit, confidence in zip(hits, sure, strict=True)
        )
        return tuple(self._looked_at(result, watched) for result in found)

    def _with_best_chunk(self, hit: Hit, query: Query) -> Hit:
        """BM25 over records knows no chunks: the one with most different words of the query stands for the record."""
        first, end = (int(row) for row in self.generation.starts[hit.record : hit.record + 2])
        if end - first == 1:
            return hit
        terms = set(self.indexes.analyzer.terms(query.text))
        texts = (str(self.generation.chunks[row]["text"]) for row in range(first, end))
        shared = [len(terms.intersection(self.indexes.analyzer.terms(text))) for text in texts]
        row = first + shared.index(max(shared))
        return replace(hit, row=row, id=self.generation.chunk_id(row))

    def _looked_at(self, result: Result, watched: Sequence[tuple[int, Watched]]) -> Result:
        """The result with what a look at its source says."""
        row = result.hit.record
        for end, source in watched:
            if row < end:
                origin = self.generation.origins[row].tobytes()
                return replace(result, freshness=source.freshness(result.record, origin))
        return result

    def _say_stale(self, results: Sequence[Sequence[Result]]) -> None:
        states = [result.freshness for found in results for result in found]
        if changed := len(states) - states.count("fresh"):
            gone = states.count("deleted")
            what = f"{changed} of {len(states)} hits" + (f" ({gone} of them deleted)" if gone else "")
            self.notices.append(f"the sources of {what} have changed since the build: retrieve sync")

    def _watched(self) -> list[tuple[int, Watched]]:
        """The sources, each with the row behind its last record."""
        watched = sources.watched_of(self.generation.manifest, fetched=self._store.fetched)
        ends = accumulate(records for records, _ in watched)
        return [(end, source) for end, (_, source) in zip(ends, watched, strict=True)]

    def _timings(self, queries: int, **seconds: float) -> dict[str, float]:
        each = 1000.0 / max(queries, 1)
        timings = {"open": self._opened * 1000.0, **{name: spent * each for name, spent in seconds.items()}}
        return {name: round(value, 3) for name, value in {**timings, "total": sum(timings.values())}.items()}

    @cached_property
    def _encoder(self) -> Encoder:
        return encoders.encoder_to_query(self.settings, self.generation.manifest.recipe)


def _reasons(skipped: Mapping[str, Unavailable]) -> dict[str, str]:
    return {leg: f"{error.message}: {error.hint}" for leg, error in skipped.items()}


def _matches(analyzer: Analyzer, query: str, text: str) -> list[tuple[int, int]]:
    """Spans of the words of `text` that share a term with the query."""
    wanted = set(analyzer.terms(query))
    return [(start, end) for start, end, terms in analyzer.spans(text) if wanted.intersection(terms)]
