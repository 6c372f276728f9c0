"""Explanation of a record's rank, or of its absence, stage by stage; and of answers without results.

The verdict follows from the rankings that the stages passed on. A retriever is also asked for the rank of a record that
is below its depth: its rank among all records that the query searches, or among all records if it is not one of these.
Records of another tenant than the request's are not in the index: neither found, counted nor suggested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.config.loading import override
from retrieve_cli.config.settings import BoostSettings, RecencySettings, Settings
from retrieve_cli.contracts import Hit, Json, Query, Request, Unit
from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.search.questions import RequestReader
from retrieve_cli.search.ranking import Ranked
from retrieve_cli.search.relaxation import answered
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.records.view import RecordView

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.retrieval.stages.pipeline import Step
    from retrieve_cli.storage.generation import Generation


def why(opened: Opened, request: Request, name: str) -> tuple[dict[str, Json], Sequence[str]]:
    """Return the ranks of a record (or chunk) in the stages that answer a request, however long they take, and notices.

    Raises:
        UsageError: the record or chunk does not exist, or the request cannot be answered.
        Unavailable: the request cannot be answered.
    """
    Searcher(opened).check([request])
    reader = RequestReader(opened.generation, indexes=opened.indexes)
    own = reader.own(request)
    place = _find(own, name)
    opened = opened.under(override(opened.settings, {"search": {"deadline_ms": None}}, where="why"))
    options = opened.options(unit=place.unit).by(request.retrievers)
    (answer,) = Searcher(opened, options).answer([request])
    question = answer.question
    query = answered(question, answer.attempts)
    ranked = Searcher(opened, options).rank([query])
    free = replace(query, records=own.rows, chunks=None, visible=own.rows)
    may_be_found = place.passes(query.records, query.chunks)
    conditions = reader.conditions(request)
    rank, related = (_rank((each.hit for each in listed), place) for listed in (answer.results, answer.related))
    view = {
        "id": opened.generation.record_id(place.record) if place.unit == "record" else name,
        "in_index": True,
        "query": question.clean,
        "enhanced_query": question.enhanced,
        **({"answered_as": query.text} if query.text != question.query.text else {}),
        "filters": {condition.written: place.passes(condition.records, condition.chunks) for condition in conditions},
        "excluded": opened.generation.record_id(place.record) in question.excluded,
        "may_be_found": may_be_found,
        **_unhindered(opened, query if may_be_found else free, place, options, ranked),
        "stages": [_stage(step, place) for step in ranked.steps],
        "trace": dict(ranked.rankings[0].trace),
        "rank": rank,
        **({} if related is None else {"related_rank": related}),
    }
    notices = [*answer.notices, *([answer.stale] if answer.stale else [])]
    return {**view, "verdict": "; ".join(_verdict(view, ranked, answer, place, opened))}, notices


class _Place(Frozen):
    """The record that is explained, or one of its chunks."""

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


def _find(own: RecordView, name: str) -> _Place:
    """Return the record or chunk of this name. Raises: UsageError: the tenant has neither."""
    starts = own.generation.starts
    try:
        record = own.find_record(name)
        return _Place(record, int(starts[record]), "record")
    except UsageError as error:
        try:
            row = own.find_chunk(name)
        except UsageError:
            raise error from None
        return _Place(int((starts <= row).sum()) - 1, row, "chunk")


def _rank(hits: Iterable[Hit], place: _Place) -> int | None:
    return next((rank for rank, hit in enumerate(hits, 1) if place.is_at(hit)), None)


def _stage(step: Step, place: _Place) -> dict[str, Json]:
    """Return the rank of the record after a stage, and how many hits the stage has."""
    ranking = step.rankings[0]
    rank = _rank(ranking.hits, place)
    view: dict[str, Json] = {"stage": step.name, "rank": rank, "hits": len(ranking.hits)}
    if rank is not None:
        hit = ranking.hits[rank - 1]
        view["score"] = hit.score
        if hit.reranked is not None and step.stage.kind == "rerank":
            view |= {"rank_before": hit.reranked.before, "reranker_score": hit.reranked.score}
    return view


def _depths(ranked: Ranked) -> dict[str, int]:
    return {each.name: each.depth for each in ranked.pipeline.retrieves.retrievals}


def _unhindered(opened: Opened, query: Query, place: _Place, options: SearchOptions, ranked: Ranked) -> dict[str, Json]:
    """Return the rank of the record in each retriever and in their fusion, as if nothing were cut."""
    rows = len(opened.generation.records if place.unit == "record" else opened.generation.chunks)
    # Without all that cuts or reorders after fusion.
    uncut: dict[str, Json] = {
        "search": {"depth": rows, "similarity_top_k": None, "grade": None, "max_distance": None},
        "diversity": {"per_source": None, "per_group": None, "mmr": None},
    }
    settings = override(opened.settings, uncut, where="why")
    free = opened.under(replace(settings, boost=BoostSettings(), recency=RecencySettings()))
    every = replace(options, k=rows, rerank=False, expand=False, route=False, min_score=None)
    ranking = Searcher(free, every).rank([replace(query, also=())])
    hits = ranking.rankings[0].hits
    rank = _rank(hits, place)
    if rank is None:
        absent = {name: {"rank": None, "listed": False} for name in ranking.retrievers}
        return {"retrievers": absent, "legs": absent, "fused": {"rank": None}}
    hit, depths = hits[rank - 1], _depths(ranked)
    standings = {
        evidence.source: {
            "rank": evidence.rank,
            "score": evidence.score,
            "normalized": evidence.normalized,
            "weight": evidence.weight,
            "listed": evidence.rank is not None and evidence.rank <= depths[evidence.source],
        }
        for evidence in hit.evidence
    }
    return {"retrievers": standings, "legs": standings, "fused": {"rank": rank, "of": len(hits), "score": hit.score}}


def _verdict(view: dict[str, Json], ranked: Ranked, answer: Answer, place: _Place, opened: Opened) -> Iterator[str]:
    """Yield the place in the answer, or the first stage without the record."""
    if view["rank"] is not None:
        yield f"it is result {view['rank']}"
    elif "related_rank" in view:
        yield from _related(view, ranked, answer, place, opened.generation)
    elif view["excluded"]:
        yield "the query excludes it"
    elif failed := [written for written, passes in view["filters"].items() if not passes]:
        yield f"it does not pass {' and '.join(failed)}"
    elif not view["may_be_found"]:
        yield "it is not one of the records that the query searches"
    elif (lost := _lost(view["stages"])) is None:
        yield _unshown(view["stages"][-1], ranked, answer, place, opened.generation)
    elif lost == 0:
        yield _not_found(view, ranked, answer, place, opened)
    else:
        yield _cut(view["stages"][lost - 1], ranked, lost, opened.settings)
    for rank, result in answer.ranked:
        name = opened.generation.chunk_id(place.row)
        if place.unit == "chunk" and result.context and result.hit.id != name and name in result.context.chunk_ids:
            yield f"its text is shown in the context of result {rank}, {result.hit.id}"


def _related(
    view: dict[str, Json], ranked: Ranked, answer: Answer, place: _Place, generation: Generation
) -> Iterator[str]:
    """Yield the path to a record that is listed beside the results, and its place among the hits, if it has one."""
    rank = view["related_rank"]
    yield f"it is listed under Also needed, at {rank}: {answer.related[rank - 1].hit.path}"
    if view["stages"][-1]["rank"] is not None:
        yield _unshown(view["stages"][-1], ranked, answer, place, generation)


def _lost(stages: Sequence[dict[str, Json]]) -> int | None:
    """Return the first stage after the last that has the record; None if the last stage has it.

    Expansion may add a record that no retriever lists.
    """
    having = [place for place, stage in enumerate(stages) if stage["rank"] is not None]
    after = having[-1] + 1 if having else 0
    return after if after < len(stages) else None


def _not_found(view: dict[str, Json], ranked: Ranked, answer: Answer, place: _Place, opened: Opened) -> str:
    settings = opened.settings
    gate = view["trace"].get("gate")
    if gate is not None and gate["passes"] == 2:
        visible = RecordView(opened.generation, answer.question.query.visible)
        places, names = visible.groups(settings.gating.field)
        group = None if places[place.record] < 0 else names[places[place.record]]
        if group not in [chosen["group"] for chosen in gate["chosen"]]:
            own = "records without a group" if group is None else f"its group, {group!r}"
            searched = f"{len(gate['chosen'])} of {gate['groups_seen']} groups"
            return f"group routing searches {searched}, and not {own}"
    standings = view["retrievers"].items()
    if any(standing["listed"] for _, standing in standings):
        passed = figures.count(view["stages"][0]["hits"], "hit")
        return f"it is at rank {view['fused']['rank']} without cuts, and {_in_words(ranked, 0)} passes on {passed}"
    ranks = (
        f"{name} ranks it at {standing['rank']:,}" if standing["rank"] else f"{name} does not match it"
        for name, standing in standings
    )
    depths = set(_depths(ranked).values())
    return f"no retriever has it in its top {' or '.join(map(str, sorted(depths)))}: {', '.join(ranks)}"


def _cut(before: dict[str, Json], ranked: Ranked, lost: int, settings: Settings) -> str:
    had = (
        f"it is at rank {before['rank']} after {_in_words(ranked, lost - 1)} (score {figures.rounded(before['score'])})"
    )
    stage = _in_words(ranked, lost)
    if ranked.steps[lost].name == ranked.reranker and before["rank"] > settings.rerank.depth:
        return f"{had}, and {stage} keeps the top {settings.rerank.depth}"
    return f"{had}, and {stage} removes it"


_RERANKING = {"maxsim": "word vectors", "llm": "a language model"}


def _in_words(ranked: Ranked, step: int) -> str:
    """Return a stage as people read it; `--explain` and JSON print the expression that made it."""
    stage = ranked.steps[step].stage
    if stage.kind == "rerank":
        name = str(getattr(stage, "name", "the reranker"))
        return f"reranking by {_RERANKING.get(name, name)}"
    names = " and ".join(ranked.retrievers)
    words = {
        "retrieve": f"the retriever {names}",
        "fuse": f"the fusion of {names}",
        "merge": "merging of the query variants",
        "expand": "adding linked records",
        "boost": "boosting" if getattr(stage, "name", "") == "boost" else "recency",
    }
    return words.get(stage.kind, f"the cut {stage}")


def _unshown(last: dict[str, Json], ranked: Ranked, answer: Answer, place: _Place, generation: Generation) -> str:
    """Return the reason why a record that all stages have is not a result."""
    if last["rank"] > (shown := len(ranked.rankings[0].hits)):
        requested = figures.count(shown, "result is", "results are")
        where = f"it is at rank {last['rank']} after {_in_words(ranked, -1)}"
        return f"{where}, and {requested} requested: -k {last['rank']} shows it"
    own = [hit.id for hit in ranked.rankings[0].hits if place.is_at(hit)]
    own += [generation.chunk_id(place.row)] if place.unit == "chunk" else []
    cut = dict(answer.spent.cut) if answer.spent is not None else {}
    about = [why for name, why in cut.items() if name in own]
    return f"it does not fit into the budget: {about[0]}" if about else "it is shown with another hit of its record"


def why_empty(opened: Opened, answer: Answer) -> list[str]:
    """Return sentences on the stage that dropped the last hit of an answer without results.

    Only visible records are counted.
    """
    generation, query = opened.generation, answer.question.query
    allowed, visible = query.records, query.visible
    conditions = RequestReader(generation, indexes=opened.indexes).conditions(answer.query)
    total = generation.size
    if visible is not None:
        total = int(visible.sum())
        conditions = [condition._replace(records=condition.records & visible) for condition in conditions]
    of_all = f"of {figures.count(total, 'record')}"
    lines = [f"{int(condition.records.sum()):,} {of_all} pass {condition.written}" for condition in conditions]
    if allowed is not None:
        lines.append(f"{int(allowed.sum()):,} {of_all} pass all conditions")
    lines += [f"{retriever}: {reason}" for retriever, reason in answer.strategies_skipped.items()]
    lines += [f"{stage} passed on {figures.count(hits, 'hit')}" for stage, hits in answer.stages]
    lines += [f"as {attempt.text!r}: {figures.count(attempt.results, 'result')}" for attempt in answer.attempts]
    lines += [f"{threshold} removed {figures.count(count, 'result')}" for threshold, count in answer.removed.items()]
    if answer.spent is not None:
        lines += [f"{name}: {reason}" for name, reason in answer.spent.cut]
    return lines
