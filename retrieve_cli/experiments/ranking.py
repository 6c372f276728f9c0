"""Judged queries ranked in batches, so that their progress can be shown."""

from __future__ import annotations

from collections.abc import Sequence

from retrieve_cli.contracts import Query
from retrieve_cli.frozen import replace
from retrieve_cli.progress.tasks import task
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.search.ranking import Ranked
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.stages.pipeline import Edit

_BATCH, _RERANKED = 64, 16
"""Queries ranked at a time; fewer if a reranker reads texts. A ranking does not depend on the others of its batch."""


def rank_all(opened: Opened, queries: Sequence[Query], options: SearchOptions, edit: Edit | None = None) -> Ranked:
    """Return what `Searcher.rank` does for all queries at once; of steps and pipeline those of the first batch.

    Raises as `Searcher.rank` does.
    """
    searcher = Searcher(opened, options)
    reranks = options.hybrid if options.rerank is None else options.rerank
    size = _RERANKED if reranks else _BATCH
    if len(queries) <= 1:
        return searcher.rank(queries, edit)
    batches = []
    with task("searching", "queries", len(queries)) as searching:
        for start in range(0, len(queries), size):
            batches.append(searcher.rank(queries[start : start + size], edit))
            searching.reach(min(start + size, len(queries)))
    return _together(batches)


def _together(batches: Sequence[Ranked]) -> Ranked:
    return replace(
        batches[0],
        rankings=[ranking for batch in batches for ranking in batch.rankings],
        skipped={name: why for batch in batches for name, why in batch.skipped.items()},
        encode=sum(batch.encode for batch in batches),
        search=sum(batch.search for batch in batches),
        rerank=sum(batch.rerank for batch in batches),
        notices=tuple(dict.fromkeys(notice for batch in batches for notice in batch.notices)),
    )
