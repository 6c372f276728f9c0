"""The space that tuning searches: what may be chosen, and which other choices lie beside one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from retrieve_cli.assemble import variants
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.stages.fusion import Method, Normalization

DEPTHS = (50, 100, 200, 500)
FORMULAS = tuple(product((0.6, 0.9, 1.2, 1.5, 2.0), (0.2, 0.4, 0.6, 0.75, 0.9)))
"""k1 and b."""
READ = (20, 50, 100)
"""Hits that are read again."""
_INTERPOLATIONS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_WEIGHTS = tuple(round(0.05 * step, 2) for step in range(1, 20))
_NORMALIZATIONS: tuple[Normalization, ...] = ("zscore", "zscore_candidates", "minmax")
_RRF_K = (10.0, 30.0, 60.0, 100.0)


@dataclass(frozen=True, slots=True)
class Reranking:
    """How many hits are read again, and how much that says."""

    depth: int
    interpolate: float

    @classmethod
    def of(cls, settings: Settings) -> Reranking:
        """What is configured."""
        return cls(settings.rerank.depth, settings.rerank.interpolate)


@dataclass(frozen=True, slots=True)
class Choice:
    """One point of the space that is searched."""

    method: Method
    normalization: Normalization
    dense_weight: float
    bm25_weight: float
    rrf_k: float
    depth: int
    k1: float
    b: float
    rerank: Reranking | None = None
    """None where the legs' fusion is the answer."""

    @classmethod
    def of(cls, searcher: Searcher, settings: Settings) -> Choice:
        """What is configured, and built, before any reranking."""
        formula, fusion = variants.formula_of(searcher.generation), settings.fusion
        return cls(
            fusion.method, fusion.normalization, fusion.dense_weight, fusion.bm25_weight, fusion.rrf_k,
            settings.search.depth, formula.k1, formula.b,
        )  # fmt: skip

    @property
    def settings(self) -> dict[str, dict[str, Json]]:
        """By section and key; keys that say nothing under this method are left out."""
        weighted = {key: getattr(self, key) for key in ("normalization", "dense_weight", "bm25_weight")}
        fusion = {"rrf_k": self.rrf_k} if self.method == "rrf" else weighted
        bm25 = {"k1": self.k1, "b": self.b}
        found = {"fusion": {"method": self.method, **fusion}, "search": {"depth": self.depth}, "bm25": bm25}
        if self.rerank is not None:
            found["rerank"] = {"depth": self.rerank.depth, "interpolate": self.rerank.interpolate}
        return found

    @property
    def fused(self) -> Choice:
        """The same without reranking."""
        return replace(self, rerank=None)

    @property
    def unweighted(self) -> tuple[Method, Normalization, float]:
        """What decides how much a leg says of a candidate, before it is weighed."""
        return (self.method, self.normalization if self.method == "weighted" else "zscore", self.rrf_k)

    def changes(self, other: Choice) -> dict[str, dict[str, Json]]:
        """What of these settings `other` has differently or does not name."""
        theirs = other.settings
        changed = {
            section: {key: value for key, value in keys.items() if theirs.get(section, {}).get(key) != value}
            for section, keys in self.settings.items()
        }
        return {section: keys for section, keys in changed.items() if keys}

    def fusions(self) -> Iterator[Choice]:
        """The same with every other fusion."""
        for normalization, weight in product(_NORMALIZATIONS, _WEIGHTS):
            rest = round(1.0 - weight, 2)
            yield replace(self, method="weighted", normalization=normalization, dense_weight=weight, bm25_weight=rest)
        for rrf_k in _RRF_K:
            yield replace(self, method="rrf", rrf_k=rrf_k)

    def depths(self, least: int) -> Iterator[Choice]:
        """The same with every other depth, from the least that the legs are ever asked for."""
        return (replace(self, depth=depth) for depth in DEPTHS if depth >= least)

    def rerankings(self, depths: tuple[int, ...]) -> Iterator[Choice]:
        """The same with every other reranking, of its own depth or one of these."""
        if self.rerank is None:
            return
        interpolations = sorted({*_INTERPOLATIONS, self.rerank.interpolate})
        for depth, interpolate in product(sorted({*depths, self.rerank.depth}), interpolations):
            yield replace(self, rerank=Reranking(depth, interpolate))
