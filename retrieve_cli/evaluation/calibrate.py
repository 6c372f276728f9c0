"""Calibration of the scores of judged answers; it is kept beside the generations."""

from __future__ import annotations

from collections.abc import Sequence

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.progress import noting_interruption, part
from retrieve_cli.errors import Unavailable
from retrieve_cli.evaluation import fitting
from retrieve_cli.evaluation.evaluate import queries_of, rank_all
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.retrieval.calibration import Calibration
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher

_FEWEST = 10
"""Hits of each query that are used if fewer are configured to be shown."""


def calibrate(opened: Opened, settings: Settings, topics: Sequence[Topic]) -> Calibration:
    """Return the probability of relevance by score, measured on the results of judged queries.

    A record without a judgment counts as not relevant, as in every measure.

    Raises:
        UsageError: too few judged queries or hits.
        Unavailable: a retriever cannot run, or scikit-learn is not installed.
    """
    judged = {topic.id: topic for topic in topics if topic.grades}
    queries = queries_of(opened, judged.values(), [])
    with part("calibrating"), noting_interruption(lambda: "nothing is kept"):
        ranked = rank_all(opened, queries, opened.options(k=max(settings.search.k, _FEWEST)))
    if ranked.skipped:
        retriever, reason = next(iter(ranked.skipped.items()))
        hint = f"calibrate without it: --mode {ranked.retrievers[0]}"
        raise Unavailable(f"{retriever} did not run: {reason}", hint=hint)
    hits = [
        (hit.score, judged[ranking.query.id].grades.get(opened.generation.record_id(hit.record), 0) > 0, ranking)
        for ranking in ranked.rankings
        for hit in ranking.hits
    ]
    return fitting.fit(
        [score for score, _, _ in hits],
        [relevant for _, relevant, _ in hits],
        [ranking.query.id for _, _, ranking in hits],
        card=Searcher(opened).score_card(ranked),
        generation=opened.generation.manifest.id,
    )
