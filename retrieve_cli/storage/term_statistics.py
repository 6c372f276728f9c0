"""Mean and deviation of a query's scores with all rows of term weights, without reading these again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json, TermWeights

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows
    from retrieve_cli.storage.postings import PostingTable


class TermStatistics:
    """Statistics of rows of term weights; immutable, for use by any thread."""

    def spread(self, query: TermWeights, *, grouped: bool) -> tuple[float, float]:
        """Return mean and standard deviation of the scores of all rows, those without a term of the query included; if
        grouped, of the best score of each group.

        The same query gets the same bits on any processor. Terms that no row has change nothing.
        """
        raise NotImplementedError

    def to_arrays(self) -> dict[str, Json]:
        """Return numbers and arrays for `storage.pickles.dump`; the same rows give the same bytes."""
        raise NotImplementedError

    @classmethod
    def of_arrays(cls, stored: Mapping[str, Json]) -> TermStatistics:
        """Return the statistics from the contents of `to_arrays`, without copying arrays.

        Raises:
            IndexCorrupt: parts are missing or disagree.
        """
        raise NotImplementedError


def term_statistics(rows: Iterable[TermWeights], *, length: int, starts: Rows | None = None) -> TermStatistics:
    """Return the statistics of `length` rows, from one pass over them in order.

    `starts` has the first row of each group, then the number of rows; None: each row is a group.

    Raises:
        ValueError: there are more or fewer rows.
    """
    raise NotImplementedError


def posting_statistics(table: PostingTable, *, starts: Rows | None = None) -> TermStatistics:
    """Return the same as `term_statistics` for the rows of an inverted file, from one pass over its postings."""
    raise NotImplementedError
