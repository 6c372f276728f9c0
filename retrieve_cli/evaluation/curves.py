"""The points of the two curves of a run: precision over recall, nDCG over the cut-off, each a mean over queries.

Every query with grades counts, as in any other measure; a query without results counts as 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from retrieve_cli.evaluation.judgments import Grades, Run
from retrieve_cli.evaluation.measures import parse, per_query
from retrieve_cli.frozen import Frozen

RECALLS = tuple(step / 10 for step in range(11))
CUTOFFS = (1, 2, 3, 5, 10, 20, 50, 100)

Points = Sequence[tuple[float, float]]
"""Places on the x axis, each with the mean there."""


class Curves(Frozen):
    """Precision by recall and nDCG by rank, as means over queries."""

    queries: int
    """Number of queries with grades."""
    depth: int
    """The largest number of hits of a query."""
    precision: Points
    """Interpolated precision at the recalls 0.0, 0.1 ... 1.0: the highest at this recall or a later one."""
    ndcg: Points
    """nDCG at the cut-offs up to `depth`, the first of them always."""


def curves(qrels: Mapping[str, Grades], run: Run) -> Curves | None:
    """Return the curves of a run over the queries with grades; None if no query has grades.

    Raises:
        Unavailable: the package that computes measures is not installed.
    """
    graded = {query: grades for query, grades in qrels.items() if grades}
    if not graded:
        return None
    depth = max(len(run.get(query, {})) for query in graded)
    cutoffs = [cutoff for cutoff in CUTOFFS if cutoff <= max(depth, 1)]
    measures = parse([*(f"IPrec@{recall}" for recall in RECALLS), *(f"nDCG@{cutoff}" for cutoff in cutoffs)])
    means = [fsum(values.values()) / len(values) for values in per_query(measures, graded, run).values()]
    return Curves(
        queries=len(graded),
        depth=depth,
        precision=list(zip(RECALLS, means[: len(RECALLS)], strict=True)),
        ndcg=list(zip(map(float, cutoffs), means[len(RECALLS) :], strict=True)),
    )
