"""Records that exist for a request: the records of its tenant without the excluded ones.

This is access, and not a filter: a record that is not visible to a request takes no part in its answer, in any stage or
format. docs/access.md has the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.errors import UsageError
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Query
    from retrieve_cli.storage.records.columns import Columns


class Access(NamedTuple):
    """The records that exist for a request."""

    generation: Generation
    own: Mask | None = None
    """(records,) bool: the records of its tenant; None: all, as the request has no tenant."""
    excluded: tuple[int, ...] = ()
    """Rows of the excluded records of its tenant."""
    hidden: Mask | None = None
    """(records,) bool: records with words that the request excludes."""

    @property
    def visible(self) -> Mask | None:
        """(records,) bool: the records that exist for it; None: all."""
        visible = self.own
        if self.excluded:
            others = ~only(self.generation, self.excluded)
            visible = others if visible is None else visible & others
        if self.hidden is not None:
            visible = ~self.hidden if visible is None else visible & ~self.hidden
        return visible


def only(generation: Generation, rows: Sequence[int]) -> Mask:
    """(records,) bool: true for these rows."""
    import numpy as np

    mask = np.zeros(len(generation.records), np.bool_)
    mask[list(rows)] = True
    return mask


def of_tenant(generation: Generation, tenant: str) -> Mask:
    """(records,) bool: the records of a tenant, whose name is compared letter by letter.

    Raises:
        UsageError: the name is empty, or no record has a tenant. No field of other records is suggested.
    """
    if not tenant.strip():
        raise UsageError("the tenant is empty", hint="name it: --tenant X")
    columns = columns_seen(generation, None)
    try:
        return columns.having(TENANT, tenant)
    except UsageError as error:
        hint = f"give the records a field {TENANT!r} and build again: retrieve build"
        raise UsageError(error.message, hint=hint) from None


def of_tenant_or_none(generation: Generation, tenant: str) -> Mask:
    """(records,) bool: the records of a tenant; none of them if no record has a tenant, or the name is empty."""
    try:
        return of_tenant(generation, tenant)
    except UsageError:
        return only(generation, ())


def columns_seen(generation: Generation, visible: Mask | None) -> Columns:
    """Return what records can be filtered by, of those that are visible."""
    from retrieve_cli.storage.records.columns import columns_of  # a query without conditions does without it

    columns = columns_of(generation)
    return columns if visible is None else columns.within(visible)


def seen_by_any(queries: Iterable[Query]) -> Mask | None:
    """(records,) bool: the records that are visible to any of the queries; None: all."""
    found = None
    for mask in {id(query.visible): query.visible for query in queries}.values():
        if mask is None:
            return None
        found = mask if found is None else found | mask
    return found


def groups_of(generation: Generation, field: str, visible: Mask | None) -> tuple[Any, list[str]]:
    """Return the groups of records by a field: (records,) int32 places among the names, -1 for none; and the names.

    With `visible`, (records,) bool, other records have no group; a field that no visible record has gives no groups.

    Raises:
        UsageError: no record has the field, and all records are visible.
    """
    columns = columns_seen(generation, visible)
    if visible is not None and columns.column(field) is None:
        import numpy as np

        return np.full(len(generation.records), -1, np.int32), []
    return columns.groups(field)
