"""Conditions on rows as expressions of Milvus. No text of a user becomes part of an expression, only its digest."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from retrieve_cli.contracts.engines import AnyOf, Within

TAG = 32
"""Characters of a tag."""
MOST_TAGS = 4096
"""The most values of an array in Milvus, and the most values of a condition that are sent."""
_OVERFLOW = "0" * TAG
"""Tag of a row with more values than Milvus can store."""


class Window(NamedTuple):
    """Rows from `first` to `last` - 1."""

    first: int
    last: int


def tag(field: str, value: str) -> str:
    """Return the tag of a value in a field: 32 hex digits.

    Expression templates, which bind values, came with Milvus 2.5 and are missing in Milvus Lite 3.2. Digests of 128
    bits are exact in practice, need no escaping in any version, and have the same length for every value.
    """
    name = field.encode("utf-8", "surrogatepass")
    text = b"%d:%b%b" % (len(name), name, value.encode("utf-8", "surrogatepass"))
    return blake2b(text, digest_size=TAG // 2).hexdigest()


def tags(fields: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the tags of a row, ascending. Tags beyond the limit of an array are replaced by one that means any
    value."""
    distinct = sorted({tag(field, value) for field, values in fields.items() for value in values})
    return distinct if len(distinct) <= MOST_TAGS else [_OVERFLOW, *distinct[: MOST_TAGS - 1]]


def expression(within: Within | None, window: Window | None = None) -> str | None:
    """Return the expression for the rows of a search, empty for all rows; None if no row can satisfy it.

    It may allow too many rows, never too few: a condition with more than 4,096 values is not sent, and a row with more
    than 4,096 values satisfies every condition that is not negated. Rows that are not allowed are dropped by the
    generic index.
    """
    clauses = []
    if window is not None:
        if window.first >= window.last:
            return None
        clauses.append(f"row >= {window.first} and row < {window.last}")
    if within is not None and within.rows is not None:
        if not len(within.rows):
            return None
        clauses.append(f"row in {within.rows.tolist()}")
    elif within is not None:
        for condition in within.conditions:
            if not condition.values and not condition.negated:
                return None
            if 0 < len(condition.values) <= MOST_TAGS:
                clauses.append(_clause(condition))
    return " and ".join(f"({clause})" for clause in clauses)


def _clause(condition: AnyOf) -> str:
    wanted = {tag(condition.field, value) for value in condition.values}
    if not condition.negated:
        wanted.add(_OVERFLOW)
    listed = ", ".join(f'"{digest}"' for digest in sorted(wanted))
    return f"{'not ' if condition.negated else ''}array_contains_any(tags, [{listed}])"
