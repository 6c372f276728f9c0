"""Ranking of works: reciprocal ranks over providers, then the reranker over titles and abstracts.

The stages are those of a local search, so a work has the same evidence as a local hit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Evidence, Hit, Query, Ranking
from retrieve_cli.contracts.works import Work
from retrieve_cli.errors import RetrieveError
from retrieve_cli.search.web_answer import WebHit
from retrieve_cli.stages.fusion import reciprocal_rank
from retrieve_cli.stages.rerank import Rerank

if TYPE_CHECKING:
    from retrieve_cli.stages.rerank import Reader


class Ranked(NamedTuple):
    """Works in order, and how that order came about."""

    hits: tuple[WebHit, ...]
    pipeline: str
    reranked: bool
    skipped: Mapping[str, str]
    """Stages that were skipped, and why."""


def rank(
    works: Sequence[Work],
    text: str,
    providers: Sequence[str],
    settings: Settings,
    *,
    reader: Callable[[Sequence[str]], Reader | None] | None,
) -> Ranked:
    """Return the works in order. `providers` are those that answered; `reader` makes the reranker of texts, None if the
    configuration has none; without `reader`, there is no reranking. `web.interpolate` is the share of the reranker:
    ranks of providers say less than the scores of retrievers of our own."""
    query = Query(text)
    k = settings.fusion.rrf_k
    ranking = Ranking.of(query, [_hit(row, work, providers, k) for row, work in enumerate(works)])
    pipeline, skipped, reranked = f"rrf({', '.join(providers)}; k={k:g})", {}, False
    if reader is not None and len(works) > 1:
        try:
            made = reader([text_of(work) for work in works])
            if made is not None:
                stage = Rerank(made, made.name, settings.rerank.depth, len(works), settings.web.interpolate)
                ranking = stage([ranking])[0]
                pipeline, reranked = f"{pipeline} > {stage}", True
        except RetrieveError as error:
            skipped["rerank"] = f"{error.message}: {error.hint}" if error.hint else error.message
    hits = tuple(WebHit(works[hit.row], hit) for hit in ranking.hits)
    return Ranked(hits, pipeline, reranked, skipped)


def text_of(work: Work) -> str:
    """Return the text of a work that the reranker reads: its title, and its abstract or snippet."""
    body = work.abstract or work.snippet
    return f"{work.title}. {body}" if body else work.title


def _hit(row: int, work: Work, providers: Sequence[str], k: float) -> Hit:
    """Return the hit of a work: of each provider its best rank there, or none."""
    ranks = {
        provider: min((each.rank for each in work.found_by if each.provider == provider and each.rank), default=0)
        for provider in providers
    }
    parts = reciprocal_rank(np.array(list(ranks.values()), np.int64), k=k).tolist()
    evidence = tuple(
        Evidence(provider, place or None, part, part, 1.0)
        for (provider, place), part in zip(ranks.items(), parts, strict=True)
        if place
    )
    return Hit(work.id, row, row, float(sum(parts)), evidence)
