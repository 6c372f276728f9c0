"""The view of a caller on a generation: its records, their fields and values, their ids and names.

A record that a caller may not see does not exist for it, in any stage or format; docs/access.md has the rule. All that
answers requests takes columns, records and suggestions from a view, so that nothing of others can get into an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.errors import UsageError, quoted, shortened
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Terms, Unit
    from retrieve_cli.storage.records.column import Column
    from retrieve_cli.storage.records.columns import Columns

_ALIKE = 0.4
_MOST, _CLOSE = 3, 0.6
"""Number of unknown names that a notice lists, and the similarity from which on it suggests the name of a record."""


class RecordView:
    """The records of a generation that exist for a caller."""

    def __init__(self, generation: Generation, rows: Mask | None) -> None:
        """`rows` is (records,) bool; None: all records, as for the operator. No view has dead records."""
        self.generation = generation
        self.is_restricted = rows is not None
        """True if records that are there are not in the view."""
        live = generation.live
        if rows is None or live is None:
            self.rows = live if rows is None else rows
        else:
            self.rows = rows & live

    def without(self, rows: Mask | None) -> RecordView:
        """Return the view without some more records, (records,) bool."""
        if rows is None:
            return self
        return RecordView(self.generation, ~rows if self.rows is None else self.rows & ~rows)

    @property
    def size(self) -> int:
        """Number of its records."""
        return len(self.generation.records) if self.rows is None else int(self.rows.sum())

    @property
    def chunks(self) -> int:
        """Number of the chunks of its records."""
        sizes = np.diff(self.generation.starts)
        return int(sizes.sum() if self.rows is None else sizes[self.rows].sum())

    def chunks_of(self, records: Mask) -> Mask:
        """Return the chunks of some records, (chunks,) bool."""
        return np.repeat(records, np.diff(self.generation.starts))

    def rows_by(self, unit: Unit) -> Mask | None:
        """Return its rows in an index that has one for each record, or chunk, (n,) bool; None: all."""
        return self.rows if self.rows is None or unit == "record" else self.chunks_of(self.rows)

    def with_chunks(self, chunks: Mask) -> Mask:
        """Return the records that have one of some chunks, (records,) bool."""
        return np.logical_or.reduceat(chunks, self.generation.starts[:-1])

    @cached_property
    def columns(self) -> Columns:
        """Columns of its records, by which they can be filtered. Raises: IndexCorrupt: the file is damaged."""
        from retrieve_cli.storage.records.columns import columns_of  # a query without conditions does without it

        return columns_of(self.generation).within(self.rows)

    @cached_property
    def facets(self) -> Columns | None:
        """Columns of its chunks; None if the index has no facets. Raises as `columns` does."""
        from retrieve_cli.storage.records.sections import facet_columns

        columns = facet_columns(self.generation)
        return None if columns is None else columns.within(self.rows_by("chunk"))

    @property
    def sections(self) -> Column | None:
        """The sections of its chunks; None if none has one."""
        from retrieve_cli.storage.records.sections import FIELD, section_columns

        return section_columns(self.generation).within(self.rows_by("chunk")).column(FIELD)

    def groups(self, field: str) -> tuple[Terms, list[str]]:
        """Return the groups of records by a field: (records,) int32 places among the names, -1 for none; and the names.

        Other records have no group; a field that none of the records of a tenant has gives no groups.

        Raises:
            UsageError: no record has the field, and all records are visible.
        """
        if self.is_restricted and self.columns.column(field) is None:
            return np.full(len(self.generation.records), -1, np.int32), []
        return self.columns.find(field).groups()

    def find_record(self, name: str) -> int:
        """Return the row of a record by its id, or by its name if no other has it.

        Raises:
            UsageError: no record is meant; suggests the one whose id or name is nearest.
        """
        if (row := self.row_of(name)) is not None:
            return row
        near = self._suggested(name, cutoff=_ALIKE)
        hint = f"did you mean {near}?" if near else "list them: retrieve inspect records"
        raise UsageError(f"there is no record {quoted(name)} in the index", hint=hint)

    def row_of(self, name: str) -> int | None:
        """Return the row of a record by its id, or else by its name, if only one record has it."""
        row = self.row_of_id(name)
        if row is not None:
            return row
        rows = self.rows_named(name)
        return rows[0] if len(rows) == 1 else None

    def row_of_id(self, record_id: str) -> int | None:
        """Return the row of the record with this id, or else of the only one whose id is equal in canonical form."""
        row = self.generation.exact_row(record_id, visible=self.rows)
        if row is not None:
            return row
        rows = self.columns.stored("id").rows_of(canonical(record_id))
        return int(rows[0]) if len(rows) == 1 else None

    def rows_named(self, name: str) -> list[int]:
        """Return the rows of the records of a name."""
        rows: list[int] = self.columns.stored("name").rows_of(canonical(name)).tolist()
        return rows

    def find_chunk(self, name: str) -> int:
        """Return the row of a chunk by its id: a record as `find_record` takes it, `#` and a number.

        Raises:
            UsageError: no chunk has that id.
        """
        record, _, number = name.rpartition("#")
        if not record or not number.isdecimal():
            hint = "a chunk id is a record id, `#` and a number: scan.md#0"
            raise UsageError(f"{quoted(name)} is not a chunk id", hint=hint)
        row = self.find_record(record)
        record_id = self.generation.record_id(row)
        chunk = self.generation.chunk_row(f"{record_id}#{number}")
        if chunk is None:
            chunks = int(np.diff(self.generation.starts)[row])
            message = f"{quoted(record_id)} has {chunks} chunks, from #0 on"
            raise UsageError(message, hint=f"retrieve inspect record {record_id}")
        return chunk

    def unknown_names(self, names: Sequence[str], what: str) -> str:
        """Return a sentence on names that no record has, with those that are nearest; `what` has {} for the names."""
        shown = [repr(name) for name in names[:_MOST]]
        more = len(names) - len(shown)
        listed = ", ".join(shown) + (f" (or any of {more} more)" if more else "")
        near = (self._suggested(name, cutoff=_CLOSE) for name in names[:_MOST])
        meant = ", ".join(dict.fromkeys(filter(None, near)))
        return f"no record has the {what.replace('{}', listed)}" + (f": did you mean {meant}?" if meant else "")

    def _suggested(self, name: str, *, cutoff: float) -> str | None:
        """Return the record whose id or name is nearest as a sentence names it: `3` (Cellpose)."""
        from retrieve_cli.storage.records.suggestions import record_near

        row = record_near(self.columns, name, cutoff=cutoff)
        if row is None:
            return None
        record_id, title = self.generation.record_id(row), shortened(str(self.generation.records[row]["name"]), 60)
        return f"`{record_id}`" if title.casefold() == record_id.casefold() else f"`{record_id}` ({title})"
