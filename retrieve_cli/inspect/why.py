"""Why a document is, or is not, in an answer: one record followed through every stage, and where an empty answer ends.

What decides is read from the rankings that the stages handed on. What a leg thinks of a record that it did not list is
asked of it: its place among all records that may be found, as if nothing were cut; among all of them where it is not
one of these. Records of another tenant than the request's are not in the index: neither found, counted nor suggested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from retrieve_cli.assemble.pipelines import groups_of
from retrieve_cli.config.loading import override
from retrieve_cli.config.settings import BoostSettings, Settings
from retrieve_cli.contracts import Hit, Json, Query, Request, Unit
from retrieve_cli.errors import UsageError
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.search.questions import RequestReader
from retrieve_cli.search.ranker import Ranked
from retrieve_cli.search.relaxation import answered
from retrieve_cli.search.searcher import Searcher, replace_retrievers

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.stages.pipeline import Step
    from retrieve_cli.storage.generation import Generation


def why(searcher: Searcher, request: Request, name: str) -> tuple[dict[str, Json], Sequence[str]]:
    """Return the way of a record (or chunk) through the stages that answer a request, however long they take, and what
    the user should know of it.

    Raises:
        UsageError, Unavailable: the request cannot be answered.
    """
    searcher.check([request])
    reader = RequestReader(searcher.generation)
    own = reader.own(request)
    try:
        at = _find(searcher.generation, name, own)
    except UsageError as error:
        return {"id": name, "in_index": False, "verdict": f"{error.message}: {error.hint}"}, ()
    searcher = searcher.under(override(searcher.settings, {"search": {"deadline_ms": None}}, where="why"))
    options = replace_retrievers(searcher.options(unit=at.unit), request.retrievers)
    (answer,) = searcher.answer([request], options)
    question = answer.question
    query = answered(question, answer.attempts)
    ranked = searcher.rank([query], options)
    free = replace(query, records=own, chunks=None, visible=own)
    may_be_found = at.passes(query.records, query.chunks)
    passes = reader.conditions(request)
    told = {
        "id": name,
        "in_index": True,
        "query": question.clean,
        "enhanced_query": question.enhanced,
        **({"answered_as": query.text} if query.text != question.query.text else {}),
        "filters": {each.written: at.passes(each.records, each.chunks) for each in passes},
        "excluded": searcher.generation.record_id(at.record) in question.excluded,
        "may_be_found": may_be_found,
        **_unhindered(searcher, query if may_be_found else free, at, options, ranked),
        "stages": [_stage(step, at) for step in ranked.steps],
        "trace": dict(ranked.rankings[0].trace),
        "rank": next((rank for rank, result in enumerate(answer.results, 1) if at.is_at(result.hit)), None),
    }
    return {**told, "verdict": "; ".join(_verdict(told, ranked, answer, at, searcher))}, answer.notices


@dataclass(frozen=True, slots=True)
class _Place:
    """What is followed: a record, or one of its chunks."""

    record: int
    row: int
    """Its chunk, or the first one of the record."""
    unit: Unit

    def passes(self, records: Mask | None, chunks: Mask | None) -> bool:
        """Return True if it is among the records and, a chunk, among the chunks that pass a filter."""
        if self.unit == "chunk" and chunks is not None and not chunks[self.row]:
            return False
        return records is None or bool(records[self.record])

    def is_at(self, hit: Hit) -> bool:
        return hit.record == self.record if self.unit == "record" else hit.row == self.row


def _find(generation: Generation, name: str, own: Mask | None) -> _Place:
    """What a name means to a tenant. Raises: UsageError where that is neither a record nor a chunk of its own."""
    try:
        record = generation.find_record(name, visible=own)
        return _Place(record, int(generation.starts[record]), "record")
    except UsageError as error:
        try:
            row = generation.find_chunk(name, visible=own)
        except UsageError:
            raise error from None
        return _Place(int((generation.starts <= row).sum()) - 1, row, "chunk")


def _stage(step: Step, at: _Place) -> dict[str, Json]:
    """Where a stage has the record, of how many hits."""
    ranking = step.rankings[0]
    rank = next((rank for rank, hit in enumerate(ranking.hits, 1) if at.is_at(hit)), None)
    told: dict[str, Json] = {"stage": step.name, "rank": rank, "hits": len(ranking.hits)}
    if rank is not None:
        hit = ranking.hits[rank - 1]
        told["score"] = hit.score
        if hit.reranked is not None and step.stage.kind == "rerank":
            told |= {"rank_before": hit.reranked.before, "reranker_score": hit.reranked.score}
    return told


def _depths(ranked: Ranked) -> dict[str, int]:
    """By retriever, how many candidates it was asked for."""
    return {each.name: each.depth for each in ranked.pipeline.retrieves.retrievals}


def _unhindered(
    searcher: Searcher, query: Query, at: _Place, options: SearchOptions, ranked: Ranked
) -> dict[str, Json]:
    """What each retriever and their fusion think of the record among all others that may be found."""
    rows = len(searcher.generation.records if at.unit == "record" else searcher.generation.chunks)
    free = searcher.under(_without_cuts(searcher.settings, rows))
    every = replace(options, k=rows, rerank=False, expand=False, route=False, min_score=None)
    found = free.rank([replace(query, also=())], every)
    hits = found.rankings[0].hits
    rank = next((rank for rank, hit in enumerate(hits, 1) if at.is_at(hit)), None)
    if rank is None:
        return {"legs": {name: {"rank": None, "listed": False} for name in found.retrievers}, "fused": {"rank": None}}
    hit, depths = hits[rank - 1], _depths(ranked)
    legs = {
        each.source: {
            "rank": each.rank,
            "score": each.score,
            "normalized": each.normalized,
            "weight": each.weight,
            "listed": each.rank is not None and each.rank <= depths[each.source],
        }
        for each in hit.evidence
    }
    return {"legs": legs, "fused": {"rank": rank, "of": len(hits), "score": hit.score}}


def _without_cuts(settings: Settings, rows: int) -> Settings:
    """The settings with nothing but the retrievers and their fusion."""
    free: dict[str, Json] = {
        "search": {"depth": rows, "similarity_top_k": None, "grade": None, "max_distance": None},
        "diversity": {"per_source": None, "per_group": None, "mmr": None},
    }
    return replace(override(settings, free, where="why"), boost=BoostSettings())


def _verdict(told: dict[str, Json], ranked: Ranked, answer: Answer, at: _Place, searcher: Searcher) -> Iterator[str]:
    """The place in the answer, or the first stage that has the record no more."""
    if told["rank"] is not None:
        yield f"it is result {told['rank']}"
    elif told["excluded"]:
        yield "the query excludes it"
    elif failed := [written for written, passes in told["filters"].items() if not passes]:
        yield f"it does not pass {' and '.join(failed)}"
    elif not told["may_be_found"]:
        yield "it is not among the records that the query may find"
    elif (lost := _lost(told["stages"])) is None:
        yield _unshown(told["stages"][-1], ranked, answer, at, searcher.generation)
    elif lost == 0:
        yield _not_found(told, ranked, answer, at, searcher)
    else:
        yield _cut(told["stages"][lost - 1], told["stages"][lost], ranked, searcher.settings)
    for rank, result in enumerate(answer.results, 1):
        name = searcher.generation.chunk_id(at.row)
        if at.unit == "chunk" and result.context and result.hit.id != name and name in result.context.chunk_ids:
            yield f"its text is shown in the context of result {rank}, {result.hit.id}"


def _lost(stages: Sequence[dict[str, Json]]) -> int | None:
    """The first stage from which on none has it; None where the last one has. A walk along edges may bring in what
    the legs did not list."""
    had = [at for at, stage in enumerate(stages) if stage["rank"] is not None]
    after = had[-1] + 1 if had else 0
    return after if after < len(stages) else None


def _not_found(told: dict[str, Json], ranked: Ranked, answer: Answer, at: _Place, searcher: Searcher) -> str:
    """Why the first stage does not have it."""
    settings = searcher.settings
    gate = told["trace"].get("gate")
    if gate is not None and gate["passes"] == 2:
        visible = answer.question.query.visible
        places, names = groups_of(searcher.generation, settings.gating.field, visible)
        group = None if places[at.record] < 0 else names[places[at.record]]
        if group not in [chosen["group"] for chosen in gate["chosen"]]:
            own = "records without a group" if group is None else f"its group {group!r}"
            return f"the gate searches {len(gate['chosen'])} of {gate['groups_seen']} groups, {own} not among them"
    legs = told["legs"].items()
    if any(leg["listed"] for _, leg in legs):
        first, rank = told["stages"][0], told["fused"]["rank"]
        return f"it is not among the {first['hits']} hits of {first['stage']}; were nothing cut, it is at rank {rank}"
    ranks = (
        f"{name} has it at rank {leg['rank']}" if leg["rank"] else f"{name} does not find it" for name, leg in legs
    )
    depths = set(_depths(ranked).values())
    return f"no leg lists it among its {' or '.join(map(str, sorted(depths)))} candidates: {', '.join(ranks)}"


def _cut(before: dict[str, Json], stage: dict[str, Json], ranked: Ranked, settings: Settings) -> str:
    """Why a stage has no more what the one before handed on."""
    had = f"{before['stage']} has it at rank {before['rank']} with {before['score']:.4g}"
    if stage["stage"] == ranked.reranker and before["rank"] > settings.rerank.depth:
        return f"{had}, and {stage['stage']} reads the first {settings.rerank.depth}"
    return f"{had}, and it is not among the {stage['hits']} hits of {stage['stage']}"


def _unshown(last: dict[str, Json], ranked: Ranked, answer: Answer, at: _Place, generation: Generation) -> str:
    """Why what all stages have is no result."""
    if last["rank"] > (shown := len(ranked.rankings[0].hits)):
        return f"it is hit {last['rank']} of {last['stage']}, and {shown} are asked for: -k {last['rank']} shows it"
    own = [hit.id for hit in ranked.rankings[0].hits if at.is_at(hit)]
    own += [generation.chunk_id(at.row)] if at.unit == "chunk" else []
    cut = dict(answer.spent.cut) if answer.spent is not None else {}
    about = [why for name, why in cut.items() if name in own]
    return f"the budget has no room for it: {about[0]}" if about else "it is shown with another hit of its record"


def why_empty(searcher: Searcher, answer: Answer) -> list[str]:
    """Sentences on where the last hit of an answer without results went; only visible records are counted."""
    generation, query = searcher.generation, answer.question.query
    found, visible = query.records, query.visible
    conditions = RequestReader(generation).conditions(answer.query)
    total = len(generation.records)
    if visible is not None:
        total = int(visible.sum())
        conditions = [each._replace(records=each.records & visible) for each in conditions]
    said = [f"{int(each.records.sum())} of {total} records pass {each.written}" for each in conditions]
    if found is not None:
        said.append(f"{int(found.sum())} of {total} records pass all that was asked")
    said += [f"{leg}: {reason}" for leg, reason in answer.strategies_skipped.items()]
    said += [f"{stage} handed on {hits} hits" for stage, hits in answer.stages]
    said += [f"as {attempt.text!r}: {attempt.results} results" for attempt in answer.attempts]
    if answer.confidence and answer.confidence.get("left_out"):
        said.append(f"{answer.confidence['left_out']} were less sure than --min-confidence")
    if answer.spent is not None:
        said += [f"{name}: {why}" for name, why in answer.spent.cut]
    return said
