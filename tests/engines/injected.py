"""The program with SQLite in place of the servers: each configured engine is a database file, named by its URL.

Every call of an engine appends a line to a file beside the database before it begins. So tests can count calls and
rows, and a process that is killed at its n-th change of the disk can be killed before any call.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from engines.sqlite_engine import SqliteEngine, SqliteStaging, create_database

from retrieve_cli.assemble import engines
from retrieve_cli.contracts.engines import Batch, Capabilities, Part

CALLS = ".calls"
"""End of the names of the files that list the calls."""
NAMES = {"pgvector": "Pgvector", "qdrant": "Qdrant", "opensearch": "Opensearch"}


class Watched(SqliteEngine):
    """An engine on a database file that lists its calls."""

    def __init__(self, settings: Any, **secrets: str) -> None:
        super().__init__(Path(settings.url))
        self._calls = Path(settings.url + CALLS)
        self.secrets = secrets

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities._replace(terms=os.environ.get("HAS_NO_TERMS") != self.name)

    def note(self, call: str, *facts: object) -> None:
        """Append a call to the list."""
        with self._calls.open("a", encoding="utf-8") as file:
            file.write(json.dumps([call, *facts]) + "\n")

    def stage(self, generation: str, parts: Sequence[Part]) -> WatchedStaging:
        self.note("stage", generation)
        super().stage(generation, parts)
        return WatchedStaging(self.opened, generation, parts, self.note)

    def publish(self, generation: str) -> None:
        self.note("publish", generation)
        super().publish(generation)

    def live(self) -> str | None:
        self.note("live")
        return super().live()

    def generations(self) -> list[Any]:
        self.note("generations")
        return super().generations()

    def drop(self, generation: str) -> None:
        self.note("drop", generation)
        super().drop(generation)


class WatchedStaging(SqliteStaging):
    """A generation on its way into the database, whose calls are listed."""

    def __init__(self, opened: Any, generation: str, parts: Sequence[Part], note: Callable[..., None]) -> None:
        super().__init__(opened, generation, parts)
        self._note = note

    def put(self, part: str, batch: Batch) -> None:
        self._note("put", part, len(batch.rows))
        super().put(part, batch)

    def finish(self) -> None:
        self._note("finish")
        super().finish()


Pgvector, Qdrant, Opensearch = (type(kind, (Watched,), {"name": name}) for name, kind in NAMES.items())


class Servers:
    """Database files in a folder, one for each engine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self) -> Servers:
        """Create empty databases."""
        self.folder.mkdir()
        for name in NAMES:
            create_database(self.path(name))
        return self

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.db"

    def engine(self, name: str) -> SqliteEngine:
        """Return an engine over a database, whose calls are not listed."""
        return SqliteEngine(self.path(name))

    def environment(self, **places: str) -> Mapping[str, str]:
        """Return the variables that configure the engines, by default vectors in one and words in another."""
        chosen = places or {"dense": "qdrant", "lexical": "opensearch"}
        urls = {f"RETRIEVE_{name.upper()}__URL": str(self.path(name)) for name in NAMES}
        return urls | {f"RETRIEVE_ENGINES__{role.upper()}": name for role, name in chosen.items()}

    def execute(self, name: str, statement: str, *values: Any) -> list[Any]:
        """Read or change rows of a database behind the engine's back, and return those that it gives."""
        with closing(sqlite3.connect(self.path(name))) as database, database:
            database.execute("PRAGMA foreign_keys=ON")
            done = database.execute(statement, values)
            assert done.rowcount, "the statement changed nothing"
            return done.fetchall()

    def calls(self, name: str) -> list[list[Any]]:
        """Return the calls since the last look."""
        path = Path(f"{self.path(name)}{CALLS}")
        found = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    def stop(self, name: str) -> None:
        """Make a server unreachable; what it holds stays."""
        self.path(name).rename(self.folder / f"{name}.stopped")

    def start(self, name: str) -> None:
        (self.folder / f"{name}.stopped").rename(self.path(name))

    def lose(self, name: str) -> None:
        """Replace a database by an empty one."""
        for path in self.folder.glob(f"{name}.db*"):
            path.unlink()
        create_database(self.path(name))

    def keep(self, place: Path) -> None:
        """Copy all databases to another folder."""
        shutil.copytree(self.folder, place)

    def restore(self, place: Path) -> None:
        """Copy all databases from another folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(place, self.folder)


def search_in(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the program search vectors and words in an engine, or with `local` in the files."""
    for role in ("DENSE", "LEXICAL"):
        monkeypatch.setenv(f"RETRIEVE_ENGINES__{role}", place)


class Small(SqliteEngine):
    """The engine of the tests, under a name that the configuration knows."""

    name = "opensearch"


def use(engine: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the program search vectors and words in this engine."""
    search_in("opensearch", monkeypatch)
    monkeypatch.setattr(engines, "_made", lambda *_: engine)


def inject(patch: Callable[[Any, str, Any], None] = setattr) -> None:
    """Let the program make these engines."""
    patch(engines, "_ENGINES", {name: (__name__, kind) for name, kind in NAMES.items()})
    close_all()


def main(arguments: list[str]) -> int:
    """Run the program with these engines."""
    from retrieve_cli.cli.main import main as program

    inject()
    return int(program(arguments))


class Said(dict[str, Any]):
    """Content of an answer; equal to another one if numbers differ by no more than 1e-5 of their size."""

    def __eq__(self, other: object) -> bool:
        return alike(dict(self), other)

    __hash__ = None  # type: ignore[assignment]


def said(answer: Any) -> Said:
    """Return what an answer says, without times."""
    return Said({key: value for key, value in answer.items() if key not in ("timings_ms", "time")})


def alike(through: Any, local: Any) -> bool:
    """True if two answers are the same but for the last digits of numbers."""
    if isinstance(local, dict) and isinstance(through, dict):
        return through.keys() == local.keys() and all(alike(through[name], local[name]) for name in local)
    if isinstance(local, list) and isinstance(through, list):
        return len(through) == len(local) and all(map(alike, through, local))
    if isinstance(local, float):
        return bool(through == pytest.approx(local, rel=1e-5, abs=1e-6))
    return bool(through == local)


def close_all() -> None:
    """Close the connections of all engines; they are made again when they are needed."""
    for made in engines._kept.values():
        made.close()
    engines._kept.clear()
