"""Parts of a generation in SQLite: searched by NumPy, over the rows that a statement selects."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.engines import Within
from retrieve_cli.errors import IndexCorrupt

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows, Terms, Vectors

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

    def nearest(
        self,
        query: Vectors,
        limit: int,
        *,
        within: Within | None = None,
        exact: bool = False,
    ) -> tuple[Rows, Vectors]:
        condition, values = _restriction(within, *self._key)
        sql = f"SELECT row, vector FROM rows WHERE generation = ? AND part = ? AND {condition} ORDER BY row"
        with self._opened() as database:
            found = database.execute(sql, (*self._key, *values)).fetchall()
        rows = np.array([row for row, _ in found], np.int64)
        vectors = np.frombuffer(b"".join(vector for _, vector in found), "<f4").reshape(len(rows), len(query))
        return _best(rows, np.einsum("ij,j->i", vectors, query), limit)

    def scores(self, query: Vectors, rows: Rows) -> Vectors:
        return np.einsum("ij,j->i", np.asarray(self.vectors(rows), np.float32), query)

    def vectors(self, rows: Rows) -> Vectors:
        found: dict[int, bytes] = {}
        with self._opened() as database:
            for start in range(0, len(rows), _AT_ONCE):
                condition, values = _restriction(Within(rows[start : start + _AT_ONCE]), *self._key)
                sql = f"SELECT row, vector FROM rows WHERE generation = ? AND part = ? AND {condition}"
                found.update(database.execute(sql, (*self._key, *values)))
        if missing := set(rows.tolist()).difference(found):
            raise IndexCorrupt(f"sqlite has no row {min(missing)} of {self._key[1]}", hint="retrieve engines push")
        read = np.frombuffer(b"".join(found[row] for row in rows.tolist()), "<f4")
        return read.reshape(len(rows), -1) if len(rows) else np.empty((0, 0), np.float32)


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

    def weights(self, rows: Rows, terms: Terms) -> Sequence[TermWeights]:
        with self._opened() as database:
            return read_weights(database, *self._key, rows, terms)

    def scores(self, query: TermWeights, rows: Rows) -> Vectors:
        scores = np.zeros(len(rows), np.float32)
        for place, row in enumerate(self.weights(rows, query.terms)):
            stored = dict(zip(row.terms.tolist(), row.weights, strict=True))
            for term, weight in zip(query.terms.tolist(), query.weights.astype(np.float32), strict=True):
                scores[place] += stored.get(term, np.float32(0)) * weight
        return scores

    def count(self, terms: Terms, limit: int, *, within: Within | None = None) -> int:
        return len(self.matching(terms, limit, within=within))

    def matching(self, terms: Terms, limit: int, *, within: Within | None = None) -> Rows:
        condition, values = _restriction(within, *self._key)
        sql = f"""SELECT DISTINCT row FROM weights
                  WHERE generation = ? AND part = ? AND term IN (SELECT value FROM json_each(?)) AND {condition}
                  ORDER BY row LIMIT ?"""
        with self._opened() as database:
            found = database.execute(sql, (*self._key, str(terms.tolist()), *values, limit)).fetchall()
        return np.array(found, np.int64).reshape(-1)


def read_weights(
    database: sqlite3.Connection, generation: str, part: str, rows: Rows, terms: Terms | None = None
) -> list[TermWeights]:
    """Return the stored weights of rows, those of some terms or all."""
    found: dict[int, tuple[list[int], list[float]]] = {}
    for start in range(0, len(rows), _AT_ONCE):
        condition, values = _restriction(Within(rows[start : start + _AT_ONCE]), generation, part)
        sql = f"SELECT row FROM rows WHERE generation = ? AND part = ? AND {condition}"
        found.update((row, ([], [])) for (row,) in database.execute(sql, (generation, part, *values)))
        sql = f"SELECT row, term, weight FROM weights WHERE generation = ? AND part = ? AND {condition}"
        if terms is not None:
            sql += " AND term IN (SELECT value FROM json_each(?))"
            values.append(str(terms.tolist()))
        for row, term, weight in database.execute(f"{sql} ORDER BY row, term", (generation, part, *values)):
            found[row][0].append(term)
            found[row][1].append(weight)
    if missing := set(rows.tolist()).difference(found):
        raise IndexCorrupt(f"sqlite has no row {min(missing)} of {part}", hint="retrieve engines push")
    return [
        TermWeights(np.array(found[row][0], np.int32), np.array(found[row][1], np.float32)) for row in rows.tolist()
    ]
