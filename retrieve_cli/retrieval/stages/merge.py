"""Rankings of the variants of one query, merged into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum
from typing import ClassVar

from retrieve_cli.contracts import VARIANT, Evidence, Hit, Kind, Query, Ranking, Stage, Unit
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.retrieval.stages.diversity import Cap, capped, with_cut_hits
from retrieve_cli.retrieval.stages.fusion import together


class Merge(Frozen):
    """The stage that ranks each of a query's texts by `first` and makes one ranking of them."""

    first: Stage
    unit: Unit
    rrf_k: float
    keep: int
    """Hits that are passed on."""
    caps: tuple[Cap, ...] = ()
    """Limits for the hits of all texts together."""
    kind: ClassVar[Kind] = "merge"
    rescores: ClassVar[bool] = True

    @property
    def inner(self) -> Stage:
        return self.first

    def wrapping(self, edit: Callable[[Stage], Stage]) -> Merge:
        return replace(self, first=edit(self.first))

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        found = iter(self.first([Ranking(text) for ranking in rankings for text in texts_of(ranking.query)]))
        return [self._merged(ranking.query, [next(found) for _ in texts_of(ranking.query)]) for ranking in rankings]

    def _merged(self, query: Query, rankings: Sequence[Ranking]) -> Ranking:
        if not query.also:
            return rankings[0]
        return merge(query, rankings, unit=self.unit, rrf_k=self.rrf_k, keep=self.keep, caps=self.caps)

    def __str__(self) -> str:
        return f"{self.first} > merge" + (f"({', '.join(map(str, self.caps))})" if self.caps else "")


def texts_of(query: Query) -> list[Query]:
    """Return the query's own text and its variants, each as a separate query with the id and masks of the query."""
    names = ("id", "records", "narrowed", "conditions", "chunks", "visible", "own")
    shared = {"also": (), "variant_of": query if query.also else None, **{name: getattr(query, name) for name in names}}
    return [replace(each, **shared) for each in (query, *query.also)]


class _Found(Frozen):
    """Place of a hit in the ranking of one text."""

    text: int
    rank: int
    hit: Hit


def merge(
    query: Query,
    rankings: Sequence[Ranking],
    *,
    unit: Unit,
    rrf_k: float,
    keep: int,
    caps: Sequence[Cap] = (),
) -> Ranking:
    """Reciprocal rank fusion over the rankings of a query's texts, its own first (Cormack, Clarke, Büttcher 2009).

    Equal scores are ordered by best rank, then by id. `unit` decides whether hits are the same by record or by chunk; a
    merged one is the hit of the text that ranked it best, with its evidence and evidence `text 1`, `text 2` ... of the
    texts that found it, whose parts add up to its score. The trace counts it for the text that ranked it best; of
    several such texts, for the query's own or else the first in alphabetical order.
    """
    found: dict[int, list[_Found]] = {}
    """By record or chunk row, where the texts found it."""
    for text, ranking in enumerate(rankings):
        for rank, hit in enumerate(ranking.hits, 1):
            found.setdefault(hit.record if unit == "record" else hit.row, []).append(_Found(text, rank, hit))
    giver = {}
    merged = []
    for finds in found.values():
        best = min(finds, key=lambda each: (each.rank, each.text > 0, rankings[each.text].query.text))
        hit = _merged(best.hit, finds, rrf_k)
        giver[hit.id] = best.text
        merged.append((best.rank, hit))
    merged.sort(key=lambda each: (each[0], each[1].id))
    ordered = Ranking.again(query, [hit for _, hit in merged])
    kept, cut = capped(ordered.hits, caps, keep=keep)
    texts = [
        {
            "text": ranking.query.text,
            "hits": len(ranking.hits),
            "given": sum(giver[hit.id] == at for hit in kept),
            **({"trace": dict(ranking.trace)} if ranking.trace else {}),
        }
        for at, ranking in enumerate(rankings)
    ]
    trace = with_cut_hits({"texts": texts}, cut) if cut else {"texts": texts}
    return Ranking(query, tuple(kept), trace, together([ranking.matches for ranking in rankings]))


def _merged(hit: Hit, finds: Sequence[_Found], rrf_k: float) -> Hit:
    why = [
        Evidence(f"{VARIANT}{each.text + 1}", each.rank, each.hit.score, 1.0 / (rrf_k + each.rank), 1.0)
        for each in finds
    ]
    # Its sum is exact, and so the same for every order of the texts.
    topped_up = hit.topped_up if all(each.hit.topped_up for each in finds) else None
    score = fsum(each.normalized for each in why)
    return replace(hit, score=score, evidence=(*hit.evidence, *why), topped_up=topped_up)
