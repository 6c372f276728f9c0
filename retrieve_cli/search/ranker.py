"""Queries to rankings over one generation: plan, encode, ask the legs, read the first hits again. Top to bottom."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from retrieve_cli.assemble import pipelines, rerankers
from retrieve_cli.assemble.graph import open_graph
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Index, Json, Query, Ranking, Stage, Unit
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.search.deadline import Costs, Deadline
from retrieve_cli.search.encoding import QueryEncoders
from retrieve_cli.search.omissions import Omissions, needed, sacrifice
from retrieve_cli.storage.generation import TOKENS, Generation
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrieve_cli.contracts import Encoder
    from retrieve_cli.graph.graph import Graph
    from retrieve_cli.stages.rerank import Reader

Mode = Literal["hybrid", "dense", "bm25", "splade"]
LEGS: Mapping[Mode, tuple[str, ...]] = {
    "hybrid": ("bm25", "dense", "splade"),
    "dense": ("dense",),
    "bm25": ("bm25",),
    "splade": ("splade",),
}


_MERGED = " > merge"
_RESCORING = ("expand(", "mmr(")
"""How steps after which a score means something else are called."""


@dataclass(frozen=True, slots=True)
class Step:
    """A stage that ran, as the expression that made it, and what it handed on."""

    name: str
    rankings: list[Ranking]


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a batch of queries found, and how."""

    rankings: Sequence[Ranking]
    steps: Sequence[Step]
    unit: Unit
    legs: tuple[str, ...]
    """Those that ran."""
    skipped: Mapping[str, str]
    """Why a step that was asked for did not."""
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
    asked: tuple[str, ...]
    done: tuple[str, ...]
    """Legs, and what read again: those that were to run, and those that did."""
    deadline: Deadline


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to rank a batch."""

    legs: tuple[str, ...]
    reranker: str | None
    omitted: Omissions
    deadline: Deadline


class Ranker:
    """The stages over a generation, with the models that its queries need."""

    def __init__(
        self,
        generation: Generation,
        settings: Settings,
        *,
        costs: Costs,
        opened: float,
        say: Callable[[str], None],
    ) -> None:
        """`opened` are the seconds that it took to open the generation, which a deadline counts.

        Raises:
            IndexCorrupt: an index is damaged, or they disagree.
        """
        begun = time.perf_counter()
        self.generation = generation
        self.settings = settings
        self.indexes = pipelines.open_indexes(generation, settings)
        self._encoders = QueryEncoders(settings, generation.manifest.recipe, say)
        self._readers: dict[object, Reader | None] = {}
        self._costs = costs
        self._say = say
        self.opened = opened + time.perf_counter() - begun
        """Seconds."""

    def under(self, settings: Settings, bm25: Index | None = None) -> Ranker:
        """The same generation under other settings, and with another BM25 index where one is given."""
        sibling = copy(self)
        sibling.settings = settings
        sibling._encoders = self._encoders.under(settings)  # noqa: SLF001  its own kind
        if settings.dense != self.settings.dense:
            sibling.indexes = pipelines.open_indexes(self.generation, settings)
        if bm25 is not None:
            sibling.indexes = replace(sibling.indexes, bm25=bm25)
        return sibling

    def rank(self, queries: Sequence[Query], *, k: int, mode: Mode, unit: Unit, rerank: bool | None) -> Ranked:
        """A ranking of each query, in order, all legs run over the whole batch.

        Raises:
            UsageError: a query is empty, or `k` is below 1.
            Unavailable: a step that is needed cannot run: the only leg, or a reranker that was asked for.
        """
        if self.settings.search.engine == "naive":
            mode, rerank = "dense", False
        texts = [
            replace(each, id=query.id, also=(), records=query.records)
            for query in queries
            for each in (query, *query.also)
        ]
        _check(texts, k)
        plan = self._plan(len(texts), mode, rerank)
        begun = time.perf_counter()
        self._encode(texts, plan)
        legs = tuple(leg for leg in plan.legs if leg not in plan.omitted)
        encoded = time.perf_counter()
        reader = self._reader(unit, plan)
        tail = pipelines.tail(self.generation, self.settings, k=k)
        expansion = self._expansion(mode)
        reach = self._reach(k, more=bool(tail) or len(texts) > len(queries), read=reader is not None)
        reach = max(reach, pipelines.SEEN_BY_EXPANSION) if expansion else reach
        tail = [*expansion, *tail]
        first, method = self._first(legs, k=reach, unit=unit)
        with plan.deadline.timed("search"):
            rankings = self._merged(first([Ranking(query) for query in texts]), queries, unit=unit, keep=reach)
        steps = [Step(f"{first}{_MERGED}" if len(texts) > len(queries) else str(first), rankings)]
        searched = time.perf_counter()
        if reader is not None:
            steps += self._again(pipelines.rerank(reader, self.settings, k=reach if tail else k), rankings, plan)
        read_again = len(steps) > 1
        seconds = time.perf_counter() - searched
        for stage in tail:
            steps.append(Step(str(stage), stage(steps[-1].rankings)))
        return Ranked(
            rankings=[ranking.first(k) for ranking in steps[-1].rankings],
            steps=steps,
            unit=unit,
            legs=legs,
            skipped=plan.omitted.reasons,
            fusion_method=method,
            pipeline=" > ".join(step.name for step in steps),
            reranker=steps[1].name if read_again else None,
            depth=max(self.settings.search.depth, reach),
            encode=encoded - begun,
            search=searched - encoded,
            rerank=seconds if read_again else 0.0,
            asked=_steps(plan.legs, plan.reranker),
            done=_steps(legs, plan.reranker if read_again else None),
            deadline=plan.deadline,
        )

    def _expansion(self, mode: Mode) -> list[Stage]:
        """The stage that brings in what the first hits lead to, where that is asked for and there are edges."""
        enabled, search = self.settings.expansion.enabled, self.settings.search
        wanted = mode == "hybrid" if enabled is None else enabled
        if not wanted or search.engine == "naive":
            return []
        return pipelines.expansion(self.generation, self.graph, self.settings)

    @cached_property
    def graph(self) -> Graph | None:
        """The edges between records; None where there are none."""
        return open_graph(self.generation)

    def _reach(self, k: int, *, more: bool, read: bool) -> int:
        """How many hits the first stage hands on: as many as later ones look at."""
        return max(k, self.settings.search.depth if more else 1, self.settings.rerank.depth if read else 1)

    def _first(self, legs: Sequence[str], *, k: int, unit: Unit) -> tuple[Stage, str]:
        """The stage that asks the legs, once or through a gate, and the fusion formula."""
        gating = self.settings.gating
        (stage,), method = self.pipeline(legs, k=k, unit=unit)
        if not gating.enabled:
            return stage, method
        (wide,), _ = self.pipeline(legs, k=max(k, gating.global_candidates), unit=unit)
        # Quotas pass over hits, so that a second search has to bring as many as the first.
        second = stage if gating.per_group is None else wide
        return pipelines.gate(wide, second, self.generation, self.settings, keep=k), method

    def _merged(self, rankings: Sequence[Ranking], queries: Sequence[Query], *, unit: Unit, keep: int) -> list[Ranking]:
        """A ranking for each query from those of its texts, which stand in the same order."""
        if len(rankings) == len(queries):
            return list(rankings)
        found, at = [], 0
        for query in queries:
            own = rankings[at : at + 1 + len(query.also)]
            at += len(own)
            found.append(pipelines.merged(own, query, self.settings, unit=unit, keep=keep) if query.also else own[0])
        return found

    def _plan(self, queries: int, mode: Mode, rerank: bool | None) -> _Plan:
        """What is to run, less what there is no time for."""
        legs = self._legs(mode)
        reranker = self._reranker if (mode == "hybrid" if rerank is None else rerank) else None
        if rerank and reranker is None:
            raise Unavailable("no reranker is configured", hint="set rerank.backend")
        needs = needed(self.settings, legs, reranker, asked=bool(rerank))
        omitted = Omissions(needs, self._say)
        limit = self.settings.search.deadline_ms
        deadline = Deadline(limit, queries=queries, spent=self.opened, costs=self._costs)
        may_go = sacrifice(self.settings, legs, reranker)
        stays = [step for step in _steps(legs, reranker) if step not in ("bm25", *may_go)]
        for step, why in deadline.left_out(may_go, needed=stays).items():
            omitted.give_up(step, why)
        return _Plan(legs, reranker, omitted, deadline)

    @property
    def _reranker(self) -> str | None:
        """What is to read hits again, by its backend; None where nothing is."""
        backend = self.settings.rerank.backend
        if backend == "auto":
            return "maxsim" if TOKENS in self.generation.manifest.files else None
        return None if backend == "none" else backend

    def _encode(self, queries: Sequence[Query], plan: _Plan) -> None:
        """Turns the queries to what each leg takes; a leg whose model cannot is left out."""
        for leg in plan.legs:
            if leg in ("dense", "splade") and leg not in plan.omitted:
                try:
                    with plan.deadline.timed(leg):
                        self._encoders.encode(leg, queries, within=plan.deadline.left)
                except Unavailable as error:
                    plan.omitted.add(leg, error)

    def _reader(self, unit: Unit, plan: _Plan) -> Reader | None:
        """What reads hits again; None where nothing is to, or where it cannot run."""
        if plan.reranker is None or plan.reranker in plan.omitted:
            return None
        settings = _hurried(self.settings, plan.deadline.left)
        key = (settings.rerank, unit)
        try:
            found = self._readers.get(key) or rerankers.reader(
                self.generation, settings, unit=unit, encoder=lambda: self._encoders.dense
            )
        except Unavailable as error:
            plan.omitted.add(plan.reranker, error)
            return None
        if settings is self.settings:  # its weights are loaded once
            self._readers[key] = found
        return found

    def _again(self, rerank: Stage, rankings: list[Ranking], plan: _Plan) -> list[Step]:
        """The step of reading hits again; none where that cannot be done, or not in time."""
        name = str(plan.reranker)
        if name in sacrifice(self.settings, plan.legs, name) and (why := plan.deadline.no_room_for(name)):
            plan.omitted.give_up(name, why)
            return []
        try:
            with plan.deadline.timed(name):
                return [Step(str(rerank), rerank(rankings))]
        except Unavailable as error:
            plan.omitted.add(name, error)
            return []

    def score_card(self, ranked: Ranked) -> dict[str, Json]:
        """All that decides what a score of this ranking means: two of the same card are worth the same."""
        fusion = pipelines.fusion_of(self.settings)
        moved = [step.name for step in ranked.steps if step.name.endswith(_MERGED) or step.name.startswith(_RESCORING)]
        return {
            "recipe": sha1(self.generation.manifest.recipe),
            "unit": ranked.unit,
            "legs": list(ranked.legs),
            "fusion": ranked.fusion_method,
            "weights": [fusion.weight(leg) for leg in ranked.legs],
            # Over all rows, a score does not depend on how many candidates there are.
            "depth": None if len(ranked.legs) == 1 or fusion.over_all_rows else ranked.depth,
            "rerank": [ranked.reranker, self.settings.rerank.interpolate] if ranked.reranker else None,
            **({"rescored": moved} if moved else {}),
        }

    def pipeline(self, legs: Sequence[str], *, k: int, unit: Unit) -> tuple[list[Stage], str]:
        """The stages that rank by these legs, for queries that were encoded, and the fusion formula."""
        return pipelines.pipeline(
            self.generation, self.indexes, self.settings, legs=legs, unit=unit, k=k, encode=self._encoders.of_leg
        )

    @property
    def encoder(self) -> Encoder:
        """The encoder that the index was built with.

        Raises:
            Unavailable: the model is not on this machine.
        """
        return self._encoders.dense

    def encode(self, queries: Sequence[Query]) -> None:
        """Turns the queries to vectors, for the dense leg to find.

        Raises:
            Unavailable: the model is not on this machine.
        """
        self._encoders.encode("dense", queries)

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


def _steps(legs: Sequence[str], reranker: str | None) -> tuple[str, ...]:
    return (*legs, *([reranker] if reranker else ()))


def _check(queries: Sequence[Query], k: int) -> None:
    """Raises: UsageError where a query is empty, or `k` is below 1."""
    for query in queries:
        if not query.text.strip():
            raise UsageError(f"query {query.id!r} is empty", hint='for example: retrieve query "segment lungs in CT"')
    if k < 1:
        raise UsageError(f"-k is {k}; it takes a whole number from 1", hint="retrieve query -k 10 TEXT")


def _hurried(settings: Settings, left: float | None) -> Settings:
    """The settings, a server that reads hits again given no more than the seconds that are left, and one try."""
    chosen = settings.rerank
    if left is None or chosen.backend not in ("remote", "llm") or left >= chosen.timeout_s:
        return settings
    return replace(settings, rerank=replace(chosen, timeout_s=max(left, 0.001), retries=0))
