"""Group routing: a first pass over everything chooses groups, and a second search stays in those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from retrieve_cli.contracts import Hit, Json, Kind, Ranking, Stage
from retrieve_cli.frozen import Described, Frozen, replace
from retrieve_cli.retrieval.stages.diversity import Cap, capped, per_group as capped_by_group
from retrieve_cli.retrieval.stages.fusion import together

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask

WITNESSES = 5
"""Number of records of a group that count for it: more only favour large groups."""
OUTSIDE = "it is not in the chosen groups"
"""Reason why a hit that fills up would not be there otherwise."""


class _Group(Frozen):
    """A group as a first pass saw it."""

    place: int
    worth: float
    candidates: int
    """Hits, of which several may be of one record."""


class GroupRouting(Described):
    """Searches everything, chooses by query the groups whose records score well above the rest, and searches again in
    these groups.

    Each pass is one call for the whole batch, for any number of groups and queries: no group is searched alone. If
    the first pass has no more groups than may be chosen there is nothing to choose, and its hits are the answer.
    Records without a group are one group together, though no quota counts them. If quotas leave fewer hits than
    the minimum, others of the first pass follow them, with scores no higher than the last one's.
    The texts of one query have their groups in common: all of them together choose no more than a single one may.
    """

    apart: ClassVar = ("groups", "names")
    first: Stage
    second: Stage
    groups: NDArray[np.int32]
    """(records,) int32, each record's place in `names`, -1 for none."""
    names: Sequence[str]
    candidates: int
    """Hits of the first pass that choose groups."""
    top_groups: int
    keep: int
    """Hits that are passed on."""
    per_group: int | None = None
    """The most of one group."""
    min_results: int = 0
    """The fewest, if the first pass has as many to offer."""
    rescores: ClassVar[bool] = False

    @property
    def kind(self) -> Kind:
        return self.second.kind

    @property
    def inner(self) -> Stage:
        return self.second

    def wrapping(self, edit: Callable[[Stage], Stage]) -> GroupRouting:
        return replace(self, first=edit(self.first), second=edit(self.second))

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        looked = [ranking.first(self.candidates) for ranking in self.first(rankings)]
        requests = _requests(rankings)
        seen = [self._groups_of(ranking.hits) for ranking in looked]
        common = {at: seen_together([seen[each] for each in request]) for request in requests for at in request}
        groups = [common[at] for at in range(len(seen))]
        narrow = [at for at, own in enumerate(groups) if len(own) > self.top_groups]
        masks = self._masks([(looked[at], groups[at]) for at in narrow])
        asked = [
            replace(rankings[at], query=replace(rankings[at].query, records=mask, narrowed=True, conditions=None))
            for at, mask in zip(narrow, masks, strict=True)
        ]
        again = dict(zip(narrow, self.second(asked) if asked else [], strict=True))
        found = [again.get(at, ranking).hits for at, ranking in enumerate(looked)]
        kept = [capped(hits, self._caps, keep=self.keep)[0] for hits in found]
        enough = {at: max(len(kept[each]) for each in request) for request in requests for at in request}
        answers = []
        for at, ranking in enumerate(looked):
            short = at in again and enough[at] < min(self.min_results, self.keep)
            filled = self._filling(ranking, found[at], kept[at]) if short else []
            trace = {**ranking.trace, "gate": self._account(ranking, groups[at], again.get(at), len(filled))}
            passes = [ranking.matches, *([again[at].matches] if at in again else [])]
            ranked = Ranking.again(ranking.query, [*kept[at], *filled], trace=trace)
            answers.append(replace(ranked, matches=together(passes)))
        return answers

    def _filling(self, looked: Ranking, found: Sequence[Hit], kept: Sequence[Hit]) -> list[Hit]:
        """Hits of the first pass that follow those which are kept, up to the minimum, with no higher scores."""
        had = {hit.id for hit in found}
        rest = [replace(hit, topped_up=OUTSIDE) for hit in looked.hits if hit.id not in had]
        filled, _ = capped([*kept, *rest], self._caps, keep=min(self.min_results, self.keep))
        more = filled[len(kept) :]
        if not kept or not more or more[0].score <= kept[-1].score:
            return more
        ceiling = kept[-1].score
        drop = more[0].score - ceiling
        return [hit.lowered(min(hit.score - drop, ceiling)) for hit in more]  # the difference may round upwards

    @property
    def _places(self) -> NDArray[np.int32]:
        """(records,) int32, each record's place among the names and, behind them, of those without a group."""
        return np.where(self.groups < 0, len(self.names), self.groups).astype(np.int32)

    @property
    def _caps(self) -> tuple[Cap, ...]:
        return () if self.per_group is None else (capped_by_group(self.per_group, self.groups),)

    def _named(self, place: int) -> str | None:
        return self.names[place] if place < len(self.names) else None

    def _groups_of(self, hits: Sequence[Hit]) -> list[_Group]:
        if not hits:
            return []
        best: dict[int, list[float]] = {}
        places = self._places
        counts: dict[int, int] = {}
        records: set[int] = set()
        for hit in hits:
            place = int(places[hit.record])
            counts[place] = counts.get(place, 0) + 1
            if hit.record not in records:  # a long document is one witness
                records.add(hit.record)
                best.setdefault(place, []).append(hit.score)
        noise = noise_of([hit.score for hit in hits])
        groups = [_Group(place, worth(best[place], noise=noise), count) for place, count in counts.items()]
        return sorted(groups, key=lambda group: -group.worth)  # of equal ones, the group of the better hit

    def _masks(self, chosen: Sequence[tuple[Ranking, Sequence[_Group]]]) -> list[Mask]:
        """The records that each second search is for: of the chosen groups, as far as its filter lets them be found."""
        shared: dict[tuple[int, frozenset[int]], Mask] = {}
        all_places = self._places
        masks = []
        for ranking, groups in chosen:
            allowed = ranking.query.records
            places = frozenset(group.place for group in groups[: self.top_groups])
            key = (id(allowed), places)
            if key not in shared:  # a mask for each query of a large batch would fill the memory
                flags = np.zeros(len(self.names) + 1, np.bool_)
                flags[list(places)] = True
                mask = flags[all_places]
                shared[key] = mask if allowed is None else mask & allowed
            masks.append(shared[key])
        return masks

    def _account(
        self, looked: Ranking, groups: Sequence[_Group], again: Ranking | None, filled: int
    ) -> dict[str, Json]:
        chosen = groups[: self.top_groups]
        searched = None if again is None else again.query.records
        rows = [
            {"group": self._named(each.place), "score": each.worth, "candidates": each.candidates} for each in chosen
        ]
        return {
            "candidates": len(looked.hits),
            "groups_seen": len(groups),
            "chosen": rows,
            "left_out": len(groups) - len(chosen),
            "passes": 1 if again is None else 2,
            "searched": 0 if searched is None else int(np.count_nonzero(searched)),
            "filled": filled,
        }

    def __str__(self) -> str:
        return f"gate({self.candidates} > {self.top_groups} groups, {self.second})"


def _requests(rankings: Sequence[Ranking]) -> list[list[int]]:
    """The places of rankings, grouped by query: the texts of one query are together."""
    found: dict[tuple[bool, int], list[int]] = {}
    for at, ranking in enumerate(rankings):
        whole = ranking.query.variant_of
        found.setdefault((False, at) if whole is None else (True, id(whole)), []).append(at)
    return list(found.values())


def seen_together(texts: Sequence[Sequence[_Group]]) -> Sequence[_Group]:
    """The groups that several texts saw, best first, by the root of the sum of the squares of a group's worth to each
    text, where the best group of a text is worth 1. Of equal groups the first is the one that ranks higher for any of
    the texts."""
    if len(texts) == 1:
        return texts[0]
    squares: dict[int, float] = {}
    counts: dict[int, int] = {}
    ranks: dict[int, int] = {}
    for groups in texts:
        most = max((group.worth for group in groups), default=0.0) or 1.0
        for rank, group in enumerate(groups):
            squares[group.place] = squares.get(group.place, 0.0) + (group.worth / most) ** 2
            counts[group.place] = counts.get(group.place, 0) + group.candidates
            ranks[group.place] = min(rank, ranks.get(group.place, rank))
    found = [_Group(place, float(np.sqrt(square)), counts[place]) for place, square in squares.items()]
    return sorted(found, key=lambda group: (-group.worth, ranks[group.place]))


def noise_of(scores: Sequence[float]) -> float:
    """The score that a hit of one pass has to exceed to count: a standard deviation above the mean.

    By a lower mark a large group, which always has some fair hits, would push out a small one with a single good hit.
    """
    return float(np.mean(scores) + np.std(scores))


def worth(scores: Sequence[float], *, noise: float) -> float:
    """Value of a group by the scores of its records, best first: the root of the sum of the squares of how far
    they rise above the noise.

    So several good ones count for more than a single one, and a single excellent one for more than many fair ones.
    """
    rises = np.maximum(np.array(scores[:WITNESSES], np.float64) - noise, 0.0)
    return float(np.sqrt(rises @ rises))
