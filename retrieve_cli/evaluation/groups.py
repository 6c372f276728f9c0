"""Measures over whole answers: groups, the records that routing chose, and the related records beside results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json, Ranking
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.evaluation.measures import Scorer

if TYPE_CHECKING:
    from ir_measures import Measure

    from retrieve_cli.search.ranking import Ranked
    from retrieve_cli.storage.generation import Generation

GROUPS = {"group@1": 1, "group@3": 3}
"""Number of first groups that count, by measure."""
AT_GATE = "group@gate"
"""Share of queries whose group is among those that group routing chose for the second search."""


def group_measures(
    generation: Generation, rankings: Sequence[Ranking], topics: Sequence[Topic]
) -> dict[str, dict[str, float]] | None:
    """Return 1 or 0 by measure and topic with a group: whether the group is among those that count.

    None if the topics name groups and no result has one.
    """
    wanted = {topic.id: topic.group for topic in topics if topic.group is not None}
    firsts = {each.query.id: _first_groups(generation, each) for each in rankings if each.query.id in wanted}
    if wanted and not any(firsts.values()):
        return None
    found = {
        measure: {name: float(wanted[name] in first[:count]) for name, first in firsts.items()}
        for measure, count in (GROUPS.items() if wanted else ())
    }
    if wanted and (chosen := chosen_groups(rankings)):
        found[AT_GATE] = {name: float(group in chosen.get(name, ())) for name, group in wanted.items()}
    return found


def chosen_groups(rankings: Sequence[Ranking]) -> Mapping[str, list[Json]]:
    """Return the groups that routing chose, by query; empty without routing."""
    gates = {each.query.id: gate for each in rankings if (gate := each.trace.get("gate"))}
    return {name: [group["group"] for group in gate["chosen"]] for name, gate in gates.items()}


def _first_groups(generation: Generation, ranking: Ranking) -> list[Json]:
    """Return the first groups of a ranking in their order, as many as the measures need."""
    first: list[Json] = []
    for hit in ranking.hits:
        group = generation.records[hit.record]["group"]
        if group is not None and group not in first:
            first.append(group)
        if len(first) == max(GROUPS.values()):
            break
    return first


_SUFFIX = " with related"


def related_names(measures: Sequence[Measure]) -> list[str]:
    """Return the names of the measures of results and related records together: one for each `R@k`.

    Only recall is measured so: related records are not ranked against the results, they are in an answer or not.
    """
    return [f"{measure}{_SUFFIX}" for measure in measures if _counts(measure)]


def related_measures(
    generation: Generation, ranked: Ranked, topics: Sequence[Topic], measures: Sequence[Measure]
) -> dict[str, dict[str, float]]:
    """Return by measure and query the recall of the first k results and of the records that are related to them.

    An answer of k results has at most `expansion.max_related` related records in addition, all of which count. Empty
    if the pipeline lists no related records.
    """
    most = ranked.most_related
    graded = {topic.id: topic.grades for topic in topics if topic.grades}
    found: dict[str, dict[str, float]] = {}
    for measure in filter(_counts, measures if most and graded else ()):
        cutoff = int(measure.params["cutoff"])
        run = {each.query.id: _answer(generation, ranked, each.first(cutoff)) for each in ranked.rankings}
        whole = type(measure)(**{**measure.params, "cutoff": cutoff + most})
        (values,) = Scorer([whole], graded)(run).values()
        found[f"{measure}{_SUFFIX}"] = values
    return found


def _answer(generation: Generation, ranked: Ranked, ranking: Ranking) -> dict[str, float]:
    """The ids of results and related records, in their order."""
    hits = (*ranking.hits, *ranked.related(ranking))
    return {generation.record_id(hit.record): -float(place) for place, hit in enumerate(hits)}


def _counts(measure: Measure) -> bool:
    """Return True if a measure is recall at a cut-off."""
    return bool(measure.NAME == "R") and "cutoff" in measure.params
