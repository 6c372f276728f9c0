"""Edges between numbered nodes, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

    Floats = NDArray[np.float64]


class EdgeList(Frozen, eq=False):
    """(e,) edges between numbered nodes, in any order."""

    sources: Rows
    targets: Rows
    kinds: Rows
    weights: Floats

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def joined(cls, parts: list[EdgeList]) -> EdgeList:
        """Return the edges of several lists."""
        none = [np.empty(0, np.int64)]
        columns = [[getattr(part, name) for part in parts] for name in ("sources", "targets", "kinds", "weights")]
        sources, targets, kinds, weights = (np.concatenate(none + column) for column in columns)
        # As they are stored: what is equal there has to be equal when edges are put in order.
        return cls(sources, targets, kinds, weights.astype(np.float32).astype(np.float64))

    def reversed(self) -> EdgeList:
        """The same edges, each from its target to its source."""
        return EdgeList(self.targets, self.sources, self.kinds, self.weights)

    def chosen(self, which: NDArray[Any]) -> EdgeList:
        """The edges that a mask or an array of places picks."""
        return EdgeList(self.sources[which], self.targets[which], self.kinds[which], self.weights[which])

    def simple(self) -> EdgeList:
        """Return the edges without loops, of each kind one at most between two nodes: the heaviest."""
        apart = self.chosen(self.sources != self.targets)
        ordered = apart.chosen(np.lexsort((-apart.weights, apart.targets, apart.kinds, apart.sources)))
        return ordered.chosen(_changes(ordered.sources, ordered.kinds, ordered.targets))


def _changes(*columns: Rows) -> NDArray[np.bool_]:
    """Rows of ordered columns that differ from the row before; the first one does."""
    fresh = np.ones(len(columns[0]), np.bool_)
    fresh[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return fresh
