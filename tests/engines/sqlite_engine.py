"""A small engine on SQLite that keeps all promises of `contracts/engines.py`, for tests without a server.

The database file plays the server: without it the engine is unreachable. Every call opens it anew and is one
transaction, so that a process may be killed between any two calls, and threads may share an engine.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from engines.sqlite_collections import SqliteTerms, SqliteVectors

from retrieve_cli.contracts.engines import Batch, Capabilities, Label, Part, Staged
from retrieve_cli.errors import IndexCorrupt, Unavailable

_TABLES = """
CREATE TABLE generations (id TEXT PRIMARY KEY, parts TEXT, complete INTEGER);
CREATE TABLE alias (place INTEGER PRIMARY KEY, generation TEXT REFERENCES generations ON DELETE CASCADE);
CREATE TABLE rows (generation TEXT REFERENCES generations ON DELETE CASCADE, part TEXT, row INTEGER,
  id TEXT, doc_id TEXT, title TEXT, text TEXT, section TEXT, tenant TEXT, vector BLOB,
  PRIMARY KEY (generation, part, row));
CREATE TABLE fields (generation TEXT, part TEXT, row INTEGER, field TEXT, value TEXT,
  FOREIGN KEY (generation, part, row) REFERENCES rows ON DELETE CASCADE);
CREATE INDEX field_rows ON fields (generation, part, row);
CREATE INDEX field_values ON fields (generation, part, field, value);
CREATE TABLE weights (generation TEXT, part TEXT, term INTEGER, row INTEGER, weight REAL,
  PRIMARY KEY (generation, part, term, row),
  FOREIGN KEY (generation, part, row) REFERENCES rows ON DELETE CASCADE) WITHOUT ROWID;
CREATE INDEX row_weights ON weights (generation, part, row);
"""

_LOCKED_S = 300.0
"""Seconds to wait for the transaction of another process; a bound for what hangs."""

Open = Callable[..., Any]
"""Opens the database for one transaction, as a context."""


def create_database(path: Path) -> None:
    """Create the database: what starting a server is for others."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode=WAL")
    database.executescript(_TABLES)
    database.close()


class SqliteEngine:
    """Engine over a database file that `create_database` made."""

    name = "sqlite"

    def __init__(self, path: Path, *, pages: int = 0, most_rows: int = 1000) -> None:
        """`pages` is a parameter that changes nothing but the card."""
        self._path = path
        self._pages = pages
        self._most_rows = most_rows

    @property
    def card(self) -> Mapping[str, Any]:
        return {"engine": self.name, "pages": self._pages}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(most_rows=self._most_rows)

    def stage(self, generation: str, parts: Sequence[Part]) -> SqliteStaging:
        dims = {part.name: part.dim for part in parts}
        with self.opened() as database:
            database.execute("DELETE FROM generations WHERE id = ?", (generation,))
            database.execute("INSERT INTO generations VALUES (?, ?, 0)", (generation, json.dumps(dims)))
        return SqliteStaging(self.opened, generation, parts)

    def publish(self, generation: str) -> None:
        with self.opened() as database:
            expect_complete(database, generation)
            database.execute("INSERT OR REPLACE INTO alias VALUES (1, ?)", (generation,))

    def live(self) -> str | None:
        with self.opened("BEGIN") as database:
            row = database.execute("SELECT generation FROM alias").fetchone()
        return None if row is None else str(row[0])

    def generations(self) -> list[Staged]:
        sql = """SELECT id, complete, EXISTS (SELECT 1 FROM alias WHERE generation = id)
                 FROM generations ORDER BY id"""
        with self.opened("BEGIN") as database:
            return [Staged(name, bool(done), bool(live)) for name, done, live in database.execute(sql)]

    def drop(self, generation: str) -> None:
        with self.opened() as database:
            database.execute("DELETE FROM generations WHERE id = ?", (generation,))

    def open(self, generation: str) -> SqliteGeneration:
        with self.opened("BEGIN") as database:
            expect_complete(database, generation)
        return SqliteGeneration(self.opened, generation)

    def describe(self) -> Mapping[str, str]:
        return {"version": sqlite3.sqlite_version, "file": self._path.name}

    def problems(self) -> list[tuple[str, str]]:
        try:
            with self.opened() as database:
                database.execute("SELECT 1 FROM generations")
        except Unavailable as error:
            return [(error.message, error.hint)]
        return []

    def close(self) -> None:
        """Do nothing: there is no connection between two calls."""

    @contextmanager
    def opened(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Open the database for one transaction; one that only reads waits for no writer."""
        try:
            place = f"{self._path.absolute().as_uri()}?mode=rw"
            database = sqlite3.connect(place, uri=True, timeout=_LOCKED_S, isolation_level=None)
            try:
                for pragma in ("synchronous=OFF", "foreign_keys=ON"):
                    database.execute(f"PRAGMA {pragma}")
                database.execute(begin)
                yield database
                database.execute("COMMIT")
            finally:
                database.close()  # also rolls back
        except sqlite3.Error as error:
            raise Unavailable(f"the database {self._path.name} does not answer ({error})", hint="create it") from error


def expect_complete(database: sqlite3.Connection, generation: str) -> None:
    """Raises: IndexCorrupt: there is no complete generation of that id."""
    row = database.execute("SELECT complete FROM generations WHERE id = ?", (generation,)).fetchone()
    if row is None or not row[0]:
        raise IndexCorrupt(f"sqlite has no complete generation {generation}", hint="retrieve engines push")


class SqliteStaging:
    """A generation on its way into the database."""

    def __init__(self, opened: Open, generation: str, parts: Sequence[Part]) -> None:
        self._opened = opened
        self._generation = generation
        self._parts = {part.name: part for part in parts}

    def put(self, part: str, batch: Batch) -> None:
        rows = batch.rows.tolist()
        with self._opened() as database:
            for place, row in enumerate(rows):
                vector = None if batch.vectors is None else np.ascontiguousarray(batch.vectors[place], "<f4").tobytes()
                weights = batch.weights[place] if batch.vectors is None else None
                key = (self._generation, part, row)
                self._put_row(database, key, batch.labels[place], vector)
                if weights is not None:
                    pairs = zip(weights.terms.tolist(), weights.weights.tolist(), strict=True)
                    values = [(self._generation, part, term, row, weight) for term, weight in pairs]
                    database.executemany("INSERT INTO weights VALUES (?, ?, ?, ?, ?)", values)

    @staticmethod
    def _put_row(database: sqlite3.Connection, key: tuple[str, str, int], label: Label, vector: bytes | None) -> None:
        described = (label.id, label.doc_id, label.title, label.text, label.section, label.tenant)
        database.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*key, *described, vector))
        values = [(*key, field, value) for field, values in label.fields.items() for value in values]
        database.executemany("INSERT INTO fields VALUES (?, ?, ?, ?, ?)", values)

    def finish(self) -> None:
        with self._opened() as database:
            for part in self._parts.values():
                sql = "SELECT count(*), min(row), max(row) FROM rows WHERE generation = ? AND part = ?"
                count, low, high = database.execute(sql, (self._generation, part.name)).fetchone()
                if count != part.rows or (count and (low, high) != (0, count - 1)):
                    message = f"sqlite has {count} of the {part.rows} rows of {part.name}"
                    raise IndexCorrupt(message, hint="retrieve engines push")
            database.execute("UPDATE generations SET complete = 1 WHERE id = ?", (self._generation,))


class SqliteGeneration:
    """A complete generation in the database. A search of one that was dropped meanwhile raises IndexCorrupt."""

    def __init__(self, opened: Open, generation: str) -> None:
        self._all = opened
        self._generation = generation

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with self._all("BEGIN") as database:
            expect_complete(database, self._generation)
            yield database

    def count(self, part: str) -> int:
        sql = "SELECT count(*) FROM rows WHERE (generation, part) = (?, ?)"
        with self._opened() as database:
            return int(database.execute(sql, (self._generation, part)).fetchone()[0])

    def collection(self, part: str) -> SqliteVectors | SqliteTerms:
        with self._opened() as database:
            sql = "SELECT parts FROM generations WHERE id = ?"
            dims = json.loads(database.execute(sql, (self._generation,)).fetchone()[0])
        return (SqliteTerms if dims[part] is None else SqliteVectors)(self._opened, self._generation, part)
