"""Records and chunks by their ids; an unknown id is an error that suggests one, by name too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from retrieve_cli.errors import UsageError, quoted, shortened
from retrieve_cli.storage.records.columns import columns_of
from retrieve_cli.storage.records.suggestions import record_near

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.storage.generation import Generation

_ALIKE = 0.4
_MOST, _CLOSE = 3, 0.6
"""Number of unknown names that a notice lists, and the similarity from which on it suggests the name of a record."""


def find_record(generation: Generation, name: str, *, visible: Mask | None = None) -> int:
    """Return the row of a record by its id, or by its name if no other has it; only among the `visible` records,
    (records,) bool, if given.

    Raises:
        UsageError: no record is meant; suggests the one whose id or name is nearest.
    """
    if (row := row_of(generation, name, visible=visible)) is not None:
        return row
    near = suggested(generation, name, visible=visible, cutoff=_ALIKE)
    hint = f"did you mean {near}?" if near else "list them: retrieve inspect records"
    raise UsageError(f"there is no record {quoted(name)} in the index", hint=hint)


def row_of(generation: Generation, name: str, *, visible: Mask | None = None) -> int | None:
    """Return the row of a record by its id, or else by its name, if only one of the visible records has it."""
    row = generation.row_of(name, visible=visible)
    if row is not None:
        return row
    columns = columns_of(generation)
    try:
        marked = (columns if visible is None else columns.within(visible)).select("name", "=", [name])
    except UsageError:  # no record has a name
        return None
    rows: list[int] = marked.nonzero()[0].tolist()
    return rows[0] if len(rows) == 1 else None


def find_chunk(generation: Generation, name: str, *, visible: Mask | None = None) -> int:
    """Return the row of a chunk by its id.

    Raises:
        UsageError: no chunk has that id; suggests one of the record that is nearest.
    """
    record, _, number = name.rpartition("#")
    if record:
        name = f"{generation.record_id(find_record(generation, record, visible=visible))}#{number}"
    elif (row := nearest_row(generation, name, visible=visible, cutoff=_ALIKE)) is not None:
        hint = f"a chunk id is a record id, `#` and a number: {generation.record_id(row)}#0"
        raise UsageError(f"{quoted(name)} is not a chunk id", hint=hint)
    return generation.find_chunk(name, visible=visible)


def suggested(generation: Generation, name: str, *, visible: Mask | None, cutoff: float) -> str | None:
    """Return the record whose id or name is nearest as a sentence names it: `3` (Cellpose)."""
    row = nearest_row(generation, name, visible=visible, cutoff=cutoff)
    if row is None:
        return None
    record_id, title = generation.record_id(row), shortened(str(generation.records[row]["name"]), 60)
    return f"`{record_id}`" if title.casefold() == record_id.casefold() else f"`{record_id}` ({title})"


def unknown_names(generation: Generation, names: Sequence[str], what: str, *, visible: Mask | None) -> str:
    """Return a sentence on names that no record has, with those that are nearest; `what` has {} for the names."""
    shown = [repr(name) for name in names[:_MOST]]
    more = len(names) - len(shown)
    listed = ", ".join(shown) + (f" (or any of {more} more)" if more else "")
    near = (suggested(generation, name, visible=visible, cutoff=_CLOSE) for name in names[:_MOST])
    meant = ", ".join(dict.fromkeys(filter(None, near)))
    return f"no record has the {what.replace('{}', listed)}" + (f": did you mean {meant}?" if meant else "")


def nearest_row(generation: Generation, name: str, *, visible: Mask | None, cutoff: float) -> int | None:
    """Return the row of the record whose id or name is nearest; None if none is alike, or the index has no columns."""
    try:
        columns = columns_of(generation)
    except UsageError:  # it was built before there were any
        return None
    return record_near(columns if visible is None else columns.within(visible), name, cutoff=cutoff)
