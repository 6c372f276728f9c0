"""Search space of tuning: the settings that vary, and the neighbours of a choice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from retrieve_cli.assemble import registry
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Card, Json
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.retrieval.stages.fusion import Method, Normalization

DEPTHS = (50, 100, 200, 500)
READ = (20, 50, 100)
"""Numbers of hits that are reranked."""
_INTERPOLATIONS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_WEIGHTS = tuple(round(0.05 * step, 2) for step in range(1, 20))
_NORMALIZATIONS: tuple[Normalization, ...] = ("zscore", "zscore_candidates", "minmax")
_RRF_K = (10.0, 30.0, 60.0, 100.0)

Formula = tuple[tuple[str, float], ...]
"""Keys of a retriever's section that change its scores and not its rows, with their values."""


class Reranking(Frozen):
    """The depth of reranking, and its share in the score."""

    depth: int
    interpolate: float


class TuningSettings(Frozen):
    """Point of the search space."""

    method: Method
    normalization: Normalization
    weights: tuple[tuple[str, float], ...]
    """Weights by retriever."""
    rrf_k: float
    depth: int
    formulas: tuple[tuple[str, Formula], ...] = ()
    """Formulas by retriever."""
    rerank: Reranking | None = None
    """Reranking of the fused hits; None without a reranker."""

    @classmethod
    def of(cls, settings: Settings, cards: Mapping[str, Card], *, reranked: bool) -> TuningSettings:
        """Return the configured choice; `cards` holds the card of each retriever that answers."""
        fusion = settings.fusion
        return cls(
            method=fusion.method,
            normalization=fusion.normalization,
            weights=tuple(registry.fusion_of(settings, list(cards)).weights.items()),
            rrf_k=fusion.rrf_k,
            depth=settings.search.depth,
            formulas=tuple((name, formula) for name, card in cards.items() if (formula := formula_of(name, card))),
            rerank=Reranking(settings.rerank.depth, settings.rerank.interpolate) if reranked else None,
        )

    @property
    def settings(self) -> dict[str, dict[str, Json]]:
        """Settings by section and key, without keys that have no effect under this method."""
        weighted = {"normalization": self.normalization, "weights": dict(self.weights)}
        fusion: dict[str, Json] = {"rrf_k": self.rrf_k} if self.method == "rrf" else weighted
        formulas: dict[str, dict[str, Json]] = {name: dict(formula) for name, formula in self.formulas}
        found: dict[str, dict[str, Json]] = {
            "fusion": {"method": self.method, **fusion},
            "search": {"depth": self.depth},
            **formulas,
        }
        if self.rerank is not None:
            found["rerank"] = {"depth": self.rerank.depth, "interpolate": self.rerank.interpolate}
        return found

    @property
    def of_answers(self) -> dict[str, dict[str, Json]]:
        """Settings that do not change the index."""
        formulas = dict(self.formulas)
        return {section: keys for section, keys in self.settings.items() if section not in formulas}

    @property
    def fused(self) -> TuningSettings:
        """Choice without reranking."""
        return replace(self, rerank=None)

    def changes(self, other: TuningSettings) -> dict[str, dict[str, Json]]:
        """Return the settings that differ between this choice and `other`."""
        theirs = other.settings
        changed = {
            section: {key: value for key, value in keys.items() if theirs.get(section, {}).get(key) != value}
            for section, keys in self.settings.items()
        }
        return {section: keys for section, keys in changed.items() if keys}

    def with_formula(self, name: str, formula: Formula) -> TuningSettings:
        """Return the choice with another formula of a retriever."""
        return replace(self, formulas=tuple((each, formula if each == name else own) for each, own in self.formulas))

    def fusions(self) -> Iterator[TuningSettings]:
        """Yield the choice with every other fusion: each retriever's weight in turn, the others in proportion.

        Others whose weights are all 0 share equally.
        """
        names = [name for name, _ in self.weights][::-1]
        turns = names[:1] if len(names) <= 2 else names
        for normalization, name, weight in product(_NORMALIZATIONS, turns, _WEIGHTS):
            others = {each: own for each, own in self.weights if each != name}
            others = others if any(others.values()) else dict.fromkeys(others, 1.0)
            share = (1.0 - weight) / sum(others.values())
            chosen = {**{each: round(own * share, 2) for each, own in others.items()}, name: weight}
            weights = tuple((each, chosen[each]) for each, _ in self.weights)
            yield replace(self, method="weighted", normalization=normalization, weights=weights)
        for rrf_k in _RRF_K:
            yield replace(self, method="rrf", rrf_k=rrf_k)

    def depths(self, least: int) -> Iterator[TuningSettings]:
        """Yield the choice with every other retrieval depth of at least `least`."""
        return (replace(self, depth=depth) for depth in DEPTHS if depth >= least)

    def rerankings(self, depths: Sequence[int]) -> Iterator[TuningSettings]:
        """Yield the choice with every other reranking, at the current depth or one of `depths`."""
        if self.rerank is None:
            return
        interpolations = sorted({*_INTERPOLATIONS, self.rerank.interpolate})
        for depth, interpolate in product(sorted({*depths, self.rerank.depth}), interpolations):
            yield replace(self, rerank=Reranking(depth, interpolate))


def formula_of(name: str, card: Card) -> Formula:
    """Return the formula that a retriever was built with; empty if it has none to change."""
    keys = registry.retriever(name).tunable
    return tuple((key, float(card[key])) for key in keys) if all(key in card for key in keys) else ()


def formulas(name: str) -> list[Formula]:
    """Return every formula of a retriever that is tried."""
    grid = registry.retriever(name).tunable
    return [tuple(zip(grid, values, strict=True)) for values in product(*grid.values())] if grid else []
