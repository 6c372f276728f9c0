"""Parts of a generation in SQLite: searched by NumPy, over the rows that a statement selects."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.engines import Within

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows, Vectors

Opened = Callable[[], AbstractContextManager[sqlite3.Connection]]
_AT_ONCE = 10_000


def _restriction(within: Within | None, generation: str, part: str) -> tuple[str, list[Any]]:
    """Return a condition of SQL on `row`, and the values bound in it."""
    if within is None:
        return "1", []
    if within.rows is not None:
        return "row IN (SELECT value FROM json_each(?))", [f"[{','.join(map(str, within.rows.tolist()))}]"]
    parts, values = ["1"], []
    for condition in within.conditions:
        places = ", ".join("?" * len(condition.values))
        sql = f"SELECT row FROM fields WHERE generation = ? AND part = ? AND field = ? AND value IN ({places})"
        parts.append(f"row {'NOT ' * condition.negated}IN ({sql})")
        values += [generation, part, condition.field, *condition.values]
    return " AND ".join(parts), values


def _best(rows: Rows, scores: Vectors, limit: int) -> tuple[Rows, Vectors]:
    order = np.lexsort((rows, -scores))[:limit]
    return rows[order], scores[order]


class SqliteVectors:
    """A part with vectors."""

    def __init__(self, opened: Opened, generation: str, part: str) -> None:
        self._opened = opened
        self._key = (generation, part)

    def nearest(self, query: Vectors, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        condition, values = _restriction(within, *self._key)
        sql = f"SELECT row, vector FROM rows WHERE generation = ? AND part = ? AND {condition} ORDER BY row"
        with self._opened() as database:
            found = database.execute(sql, (*self._key, *values)).fetchall()
        rows = np.array([row for row, _ in found], np.int64)
        vectors = np.frombuffer(b"".join(vector for _, vector in found), "<f4").reshape(len(rows), len(query))
        return _best(rows, np.einsum("ij,j->i", vectors, query), limit)


class SqliteTerms:
    """A part with term weights."""

    def __init__(self, opened: Opened, generation: str, part: str) -> None:
        self._opened = opened
        self._key = (generation, part)

    def nearest(self, query: TermWeights, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        condition, values = _restriction(within, *self._key)
        sql = f"SELECT row, weight FROM weights WHERE generation = ? AND part = ? AND term = ? AND {condition}"
        scores: dict[int, np.float32] = {}
        with self._opened() as database:
            for term, factor in zip(query.terms.tolist(), query.weights.astype(np.float32), strict=True):
                for row, weight in database.execute(sql, (*self._key, term, *values)):
                    scores[row] = scores.get(row, np.float32(0)) + factor * np.float32(weight)
        return _best(np.array(list(scores), np.int64), np.array(list(scores.values()), np.float32), limit)
