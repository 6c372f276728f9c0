"""Mean and deviation of a query's inner products with all rows of vectors, without reading these again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors


class VectorStatistics:
    """Statistics of rows of vectors; immutable, for use by any thread."""

    def spread(self, query: Vectors, *, grouped: bool) -> tuple[float, float]:
        """Return mean and standard deviation of the inner products of a query, (dim,) float32, with all rows; if
        grouped, of the best one of each group.

        The same query gets the same bits on any processor.
        """
        raise NotImplementedError

    def to_arrays(self) -> dict[str, Json]:
        """Return numbers and arrays for `storage.pickles.dump`; the same rows give the same bytes."""
        raise NotImplementedError

    @classmethod
    def of_arrays(cls, stored: Mapping[str, Json]) -> VectorStatistics:
        """Return the statistics from the contents of `to_arrays`, without copying arrays.

        Raises:
            IndexCorrupt: parts are missing or disagree.
        """
        raise NotImplementedError


def vector_statistics(
    blocks: Iterable[Vectors], *, dim: int, length: int, starts: Rows | None = None
) -> VectorStatistics:
    """Return the statistics of `length` rows, from one pass over `blocks` of them in order, (m, dim) float32 each.

    `starts` has the first row of each group, then the number of rows; None: each row is a group. The result does not
    depend on the sizes of the blocks.

    Raises:
        ValueError: there are more or fewer rows.
    """
    raise NotImplementedError
