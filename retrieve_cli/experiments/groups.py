"""The right group among those that an answer leads with, and among those that the gate chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json, Ranking
from retrieve_cli.evaluation.judgments import Topic

if TYPE_CHECKING:
    from retrieve_cli.storage.generation import Generation

GROUPS = {"group@1": 1, "group@3": 3}
"""Among how many of the first groups the right one is looked for."""
AT_GATE = "group@gate"
"""The share of queries whose group is among those that the gate chose for the second search."""


def group_measures(
    generation: Generation, rankings: Sequence[Ranking], topics: Sequence[Topic]
) -> dict[str, dict[str, float]] | None:
    """Return by measure, for the topics that name a group, 1 if it is where the measure looks for it, else 0.

    None if the topics name groups and the index has none.
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
    """Return the groups that the gate chose, by query; empty if there was no gate."""
    gates = {each.query.id: gate for each in rankings if (gate := each.trace.get("gate"))}
    return {name: [group["group"] for group in gate["chosen"]] for name, gate in gates.items()}


def _first_groups(generation: Generation, ranking: Ranking) -> list[Json]:
    """The groups of a ranking's records in the order in which they first occur, as many as are looked at."""
    first: list[Json] = []
    for hit in ranking.hits:
        group = generation.records[hit.record]["group"]
        if group is not None and group not in first:
            first.append(group)
        if len(first) == max(GROUPS.values()):
            break
    return first
