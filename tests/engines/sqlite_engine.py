"""A small engine on SQLite that keeps all promises of `contracts/engines.py`: the reference, without a server.

The database file plays the server: without it the engine is unreachable. Every call opens it and is one transaction, so
that a process may be killed between any two calls. A search compares all rows, one by one.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from math import inf, log
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.engines import Combined, Engine, EngineQuery, Equal, Filter, Found, Row, RowHit, Schema
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError


def create_database(path: Path) -> None:
    """Create the database, as starting a server does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("CREATE TABLE state (stored BLOB)")
        database.execute("INSERT INTO state VALUES (?)", (pickle.dumps({"alias": None, "collections": {}}),))


class SqliteEngine(Engine):
    """Engine over a database file that `create_database` made."""

    name = "sqlite"
    sparse = True
    card: ClassVar[Mapping[str, object]] = {"engine": "sqlite"}

    def __init__(self, path: Path, *, words: Literal["text", "terms", ""] = "text") -> None:
        self.words: Literal["text", "terms", ""] = words
        self._path = path

    def create(self, collection: str, schema: Schema) -> None:
        with self._opened() as state:
            state["collections"][collection] = {"schema": schema, "marker": "", "rows": {}}

    def upsert(self, collection: str, rows: Sequence[Row]) -> None:
        with self._opened(collection) as stored:
            stored["rows"] |= {row.id: row for row in rows}

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        with self._opened(collection) as stored:
            stored["rows"] = {name: row for name, row in stored["rows"].items() if name not in ids}

    def search(
        self, collection: str, queries: Sequence[EngineQuery], where: Filter | None, k: int, *, contents: bool = False
    ) -> Found:
        with self._opened(collection) as stored:
            rows, lists = list(stored["rows"].values()), []
            for name, query in queries:
                scores = zip(rows, _scores(rows, stored["schema"], name, query), strict=True)
                found = [(-score, row.id, row) for row, score in scores if score > -inf and passes(row, where)]
                best = sorted(found, key=lambda hit: hit[:2])[:k]
                lists.append([RowHit(name, -low, *(row.text, row.stored) * contents) for low, name, row in best])
            return Found(lists, stored["marker"])

    def count(self, collection: str, where: Filter | None = None) -> int:
        with self._opened(collection) as stored:
            return sum(passes(row, where) for row in stored["rows"].values())

    def drop(self, collection: str) -> None:
        with self._opened() as state:
            state["collections"].pop(collection, None)

    def snapshot(self, collection: str) -> str:
        raise UsageError(f"the engine keeps no copies of {collection}", hint=f"copy {self._path.name}")

    def published(self) -> str | None:
        with self._opened() as state:
            return state["alias"] if state["alias"] in state["collections"] else None

    def publish(self, collection: str, generation: str) -> None:
        with self._opened(collection) as stored:
            stored["marker"] = generation
        with self._opened() as state:
            state["alias"] = collection

    def describe(self) -> Mapping[str, str]:
        with self._opened():
            return {"version": sqlite3.sqlite_version, "file": self._path.name}

    def problems(self) -> list[tuple[str, str]]:
        return []

    @contextmanager
    def _opened(self, collection: str = "") -> Iterator[dict[str, Any]]:
        """Open the database, or a collection of it, for one transaction."""
        place = f"{self._path.absolute().as_uri()}?mode=rw"
        try:
            with closing(sqlite3.connect(place, uri=True, timeout=300.0, isolation_level=None)) as database:
                database.execute("BEGIN IMMEDIATE")
                state = pickle.loads(database.execute("SELECT stored FROM state").fetchone()[0])
                if collection and collection not in state["collections"]:
                    raise IndexCorrupt(f"sqlite has no collection {collection}", hint="retrieve engines push")
                yield state["collections"][collection] if collection else state
                database.execute("UPDATE state SET stored = ?", (pickle.dumps(state),))
                database.execute("COMMIT")
        except sqlite3.Error as error:
            raise Unavailable(f"the database {self._path.name} does not answer ({error})", hint="create it") from error


def passes(row: Row, where: Filter | None) -> bool:
    """Return True if a row passes a filter."""
    if where is None:
        return True
    if isinstance(where, Combined):
        passed = (passes(row, part) for part in where.filters)
        return {"all": all, "any": any, "none": lambda parts: not any(parts)}[where.how](passed)
    if isinstance(where, Equal):
        own = {"id": [row.id], "record": [row.record], "tenants": row.tenants}.get(where.key)
        return not set(where.values).isdisjoint(row.keywords.get(where.field, ()) if own is None else own)
    low, high = (-inf if where.low is None else where.low), (inf if where.high is None else where.high)
    return any(low <= value <= high for value in getattr(row, where.key).get(where.field, ()))


def _scores(rows: Sequence[Row], schema: Schema, name: str, query: object) -> list[float]:
    """Return the score of each row; minus infinity if it does not match."""
    if query is None:
        return [0.0] * len(rows)
    if isinstance(query, np.ndarray):
        return [float(row.vectors[name] @ query) for row in rows]
    by_idf = not isinstance(query, TermWeights) or schema.weights[name]
    wanted, *texts = [_terms(query), *(_terms(row.weights.get(name) or f"{row.title} {row.text}") for row in rows)]
    known = Counter(term for text in texts for term in text)
    idf = {term: log(1 + (len(rows) - known[term] + 0.5) / (known[term] + 0.5)) if by_idf else 1 for term in wanted}
    shared = [wanted.keys() & text.keys() for text in texts]
    sums = [sum(wanted[t] * text[t] * idf[t] for t in terms) for terms, text in zip(shared, texts, strict=True)]
    return [float(score) if terms else -inf for score, terms in zip(sums, shared, strict=True)]


def _terms(text: Any) -> Mapping[Any, float]:
    """Return term weights, or the number of each word of a text."""
    return Counter(text.lower().split()) if isinstance(text, str) else dict(zip(text.terms, text.weights, strict=True))
