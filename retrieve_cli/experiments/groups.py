"""Group measures: the right group among the first groups of an answer, and among those that routing chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json, Ranking
from retrieve_cli.evaluation.judgments import Topic

if TYPE_CHECKING:
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
