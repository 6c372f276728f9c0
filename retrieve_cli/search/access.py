"""Records that exist for a request: the records of its tenant without the excluded ones.

This is access, and not a filter: a record that is not visible to a request takes no part in its answer, in any stage or
format. docs/access.md has the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.errors import UsageError
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.records.view import RecordView

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Query


class Access(NamedTuple):
    """The records that exist for a request."""

    own: RecordView
    """The records of its tenant."""
    visible: RecordView
    """The same without the records that it excludes."""
    excluded: tuple[int, ...] = ()
    """Rows of the records that it excludes by their names."""

    def excluding(self, rows: Sequence[int], hidden: Mask | None = None) -> Access:
        """Return the access without some more records, by rows and by a mask, (records,) bool."""
        visible = self.visible.without(only(self.own.generation, rows) if rows else None).without(hidden)
        return Access(self.own, visible, tuple(dict.fromkeys((*self.excluded, *rows))))


def only(generation: Generation, rows: Sequence[int]) -> Mask:
    """(records,) bool: true for these rows."""
    import numpy as np

    mask = np.zeros(len(generation.records), np.bool_)
    mask[list(rows)] = True
    return mask


def of_tenant(generation: Generation, tenant: str | None) -> RecordView:
    """Return the records of a tenant, whose name is compared letter by letter; None: all.

    Raises:
        UsageError: the name is empty, or no record has a tenant. No field of other records is suggested.
    """
    view = RecordView(generation, None)
    if tenant is None:
        return view
    if not tenant.strip():
        raise UsageError("the tenant is empty", hint="name it: --tenant X")
    try:
        return RecordView(generation, view.columns.having(TENANT, tenant))
    except UsageError as error:
        hint = f"give the records a field {TENANT!r} and build again: retrieve build"
        raise UsageError(error.message, hint=hint) from None


def of_tenant_or_none(generation: Generation, tenant: str | None) -> RecordView:
    """Return the records of a tenant; none of them if no record has a tenant, or the name is empty."""
    try:
        return of_tenant(generation, tenant)
    except UsageError:
        return RecordView(generation, only(generation, ()))


def seen_by_any(generation: Generation, queries: Iterable[Query]) -> RecordView:
    """Return the records that are visible to any of the queries."""
    rows = None
    for mask in {id(query.visible): query.visible for query in queries}.values():
        if mask is None:
            return RecordView(generation, None)
        rows = mask if rows is None else rows | mask
    return RecordView(generation, rows)
