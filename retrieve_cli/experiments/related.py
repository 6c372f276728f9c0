"""Recall of whole answers: of the results, and of the related records that are listed beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Ranking
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.evaluation.measures import per_query

if TYPE_CHECKING:
    from ir_measures import Measure

    from retrieve_cli.search.ranking import Ranked
    from retrieve_cli.storage.generation import Generation

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

    An answer of k results has at most `expansion.max_related` of these besides, all of which count. Empty if the
    pipeline lists none.
    """
    most = ranked.most_related
    graded = {topic.id: topic.grades for topic in topics if topic.grades}
    found: dict[str, dict[str, float]] = {}
    for measure in filter(_counts, measures if most and graded else ()):
        cutoff = int(measure.params["cutoff"])
        run = {each.query.id: _answer(generation, ranked, each.first(cutoff)) for each in ranked.rankings}
        whole = type(measure)(**{**measure.params, "cutoff": cutoff + most})
        (values,) = per_query([whole], graded, run).values()
        found[f"{measure}{_SUFFIX}"] = values
    return found


def _answer(generation: Generation, ranked: Ranked, ranking: Ranking) -> dict[str, float]:
    """The ids of results and related records, in their order."""
    hits = (*ranking.hits, *ranked.related(ranking))
    return {generation.record_id(hit.record): -float(place) for place, hit in enumerate(hits)}


def _counts(measure: Measure) -> bool:
    """Return True if a measure is recall at a cut-off."""
    return bool(measure.NAME == "R") and "cutoff" in measure.params
