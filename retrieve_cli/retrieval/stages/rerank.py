"""The stage that reranks the first hits: query and text are read together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from retrieve_cli.contracts import NOT_PICKED, Hit, Json, Kind, Query, Ranking, Reranked, Scaled
from retrieve_cli.errors import ModelFailed
from retrieve_cli.frozen import Described, replace
from retrieve_cli.retrieval.stages.fusion import zscore

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_LARGEST = float(np.finfo(np.float32).max)
"""Larger scores overflow in their variance."""
_SAME = 1e-9
"""Scores closer than this share of the largest are equal."""


class Reranker(Protocol):
    """Scores hits for reranking."""

    @property
    def name(self) -> str: ...

    def read(self, query: Query, hits: Sequence[Hit]) -> Any:
        """(n,) scores, higher is better."""


@runtime_checkable
class Picking(Protocol):
    """A reader that may pick some of the hits, those that it scores above 0, and reject the others."""

    @property
    def picks(self) -> bool: ...


class RerankStage(Described):
    """Mixes a reranker's scores of the first hits with their retrieval scores, on the scale of retrieval.

    The reranker's scores become z-scores over the hits that it read, laid on the mean and the deviation of their
    retrieval scores: so `interpolate` 0 changes no score, 1 takes the reranker's order alone, and scores keep their
    meaning. Hits that were not read follow those that were, in the order they had.
    """

    apart: ClassVar = ("reader",)
    reader: Reranker
    name: str
    depth: int
    """Hits that are read."""
    keep: int
    """Hits that are passed on."""
    interpolate: float
    min_score: float | None = None
    """Score that a hit needs from the reader to stay; hits that were not read do not reach it."""
    judged_only: bool = False
    """Hits that were not read go."""
    kind: ClassVar[Kind] = "rerank"
    rescores: ClassVar[bool] = False

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """Raises: ModelFailed if a reader does not give one finite score a hit."""
        return [self._rerank(ranking) for ranking in rankings]

    def _rerank(self, ranking: Ranking) -> Ranking:
        read, rest = ranking.hits[: self.depth], () if self.judged_only else ranking.hits[self.depth :]
        if not read:
            return ranking
        scores = believed(self.reader.read(ranking.query, read), len(read), name=self.name)
        retrieved = np.array([hit.score for hit in (*read, *rest)], np.float64)
        mixed, stays = rescored(retrieved, scores, interpolate=self.interpolate, min_score=self.min_score)
        scaled = isinstance(self.reader, Scaled) and self.reader.unit_scale and 0 <= scores.min() <= scores.max() <= 1
        picked = True if isinstance(self.reader, Picking) and self.reader.picks else None
        moved = []
        for rank, (hit, own, score) in enumerate(zip(read, scores.tolist(), mixed.tolist(), strict=False), 1):
            why = Reranked(self.name, rank, hit.score, own, own if scaled else None, score - hit.score, picked)
            moved.append(replace(hit, score=score, reranked=why))
        moved += [hit.lowered(score) for hit, score in zip(rest, mixed.tolist()[len(read) :], strict=True)]
        if picked:
            stays &= np.concatenate([scores > 0, np.zeros(len(rest), np.bool_)])
        kept = [hit for hit, stay in zip(moved, stays.tolist(), strict=True) if stay]
        cut = [hit for hit, stay in zip(moved, stays.tolist(), strict=True) if not stay]
        trace = {**ranking.trace, "rerank": self._account(cut, len(kept))} if cut else ranking.trace
        return Ranking.again(ranking.query, kept, trace=trace).first(self.keep)

    def _account(self, cut: Sequence[Hit], kept: int) -> dict[str, Json]:
        """The hits that the reader rejected, or scored too low; those that it did not read are last."""
        read = sorted(
            ((hit.reranked.score, hit.id) for hit in cut if hit.reranked is not None), key=lambda each: -each[0]
        )
        why = NOT_PICKED if self.min_score is None else f"min_score {self.min_score:g}"
        hits = [{"id": name, "score": score, "why": why} for score, name in read[: self.keep]]
        return {"kept": kept, "cut": {why: len(cut)}, "hits": hits}

    def __str__(self) -> str:
        return f"{self.name}@{self.depth}"


def believed(given: Any, count: int, *, name: str) -> Floats:
    """(count,) the scores that a reader gave, held to what scores are.

    Raises:
        ModelFailed: they are not one finite number a hit.
    """
    try:
        scores = np.asarray(given)
    except (ValueError, TypeError, RuntimeError):  # ragged rows, or not an array at all
        scores = np.empty(0, np.object_)
    if scores.dtype.kind not in "fiu":
        what = "scores that are not numbers"
    elif scores.shape != (count,):
        what = f"scores of shape {scores.shape} for {count} hits"
    elif not (np.abs(scores.astype(np.float64)) <= _LARGEST).all():
        what = "scores that are not finite (NaN, infinite, or too large)"
    else:
        return scores.astype(np.float64)
    raise ModelFailed(f"{name} gave {what}", hint="choose another reranker: rerank.backend, rerank.model")


def rescored(
    retrieved: Floats, read: Floats, *, interpolate: float, min_score: float | None = None
) -> tuple[Floats, NDArray[np.bool_]]:
    """(n,) scores of n ranked hits after the first m of them were read, and (n,) which of them stay.

    `retrieved` (n,) descends, `read` (m,) is what the reader gave. Hits that were not read come below those that were;
    with a `min_score`, which they have not shown to have, they go.
    """
    first, rest = retrieved[: len(read)], retrieved[len(read) :]
    mixed = mix(first, read, interpolate)
    if min_score is not None:
        return np.concatenate([mixed, rest]), np.concatenate([read >= min_score, np.zeros(len(rest), np.bool_)])
    drop = max(0.0, float(rest[0]) - float(mixed.min())) if len(rest) else 0.0
    return np.concatenate([mixed, rest - drop]), np.ones(len(retrieved), np.bool_)


def mix(retrieved: Floats, read: Floats, interpolate: float) -> Floats:
    """(n,) retrieval scores and (n,) reranker scores to (n,) on the scale of the former.

    (1 - i) r + i (mean r + deviation r * z(reranker)): where either has no deviation, the other decides.
    """
    if interpolate == 0:
        return retrieved
    spread, deviation = float(retrieved.std()) or 1.0, float(read.std())
    if deviation <= _SAME * float(np.abs(read).max()):
        deviation = 0.0  # the mean of equal numbers rounds past them
    laid = float(retrieved.mean()) + spread * zscore(read, mean=float(read.mean()), deviation=deviation)
    return (1.0 - interpolate) * retrieved + interpolate * laid
