"""The program with SQLite in place of the servers: each configured engine is a database file, named by its URL.

Every call of an engine appends a line to a file beside the database before it begins. So tests can count calls and
rows, and a process that is killed at its n-th change of the disk can be killed before any call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from engines.sqlite_engine import SqliteEngine, create_database

from retrieve_cli.assemble import engines
from retrieve_cli.storage import durable

CALLS = ".calls"
"""End of the names of the files that list the calls."""
WORDS: Mapping[str, Any] = {"pgvector": "", "qdrant": "terms", "opensearch": "text"}


class Watched(SqliteEngine):
    """An engine on a database file that lists its calls."""

    def __init__(self, settings: Any, **secrets: str) -> None:
        super().__init__(Path(settings.url), words=WORDS[self.name])
        self._calls = Path(settings.url + CALLS)
        self.sparse = self.name != "pgvector"
        self.secrets = secrets

    def note(self, call: str, *facts: object) -> None:
        """Append a call to the list."""
        durable.replace(self._calls, "".join([*_lines(self._calls), json.dumps([call, *facts]) + "\n"]))


FACTS: Mapping[str, Callable[..., Sequence[Any]]] = {
    "create": lambda collection, _: [collection],
    "upsert": lambda _, rows: [row.id for row in rows],
    "delete": lambda _, ids: ids,
    "publish": lambda *named: named,
    "drop": lambda collection: [collection],
    "search": lambda _, queries, *bounds, **options: [[name for name, _ in queries], repr(bounds[0])],
}
"""By method, the arguments of a call that the list of calls has."""


def _noted(call: str) -> Callable[..., Any]:
    def method(self: Watched, *arguments: Any, **options: Any) -> Any:
        self.note(call, *FACTS[call](*arguments, **options))
        return getattr(SqliteEngine, call)(self, *arguments, **options)

    return method


for name in FACTS:
    setattr(Watched, name, _noted(name))


class Pgvector(Watched):
    name: ClassVar[str] = "pgvector"  # type: ignore[misc]


class Qdrant(Watched):
    name: ClassVar[str] = "qdrant"  # type: ignore[misc]


class Opensearch(Watched):
    name: ClassVar[str] = "opensearch"  # type: ignore[misc]


class Servers:
    """Database files in a folder, one for each engine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self) -> Servers:
        """Create empty databases."""
        self.folder.mkdir()
        for name in WORDS:
            create_database(self.path(name))
        return self

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.db"

    def engine(self, name: str) -> SqliteEngine:
        """Return an engine over a database, whose calls are not listed."""
        return SqliteEngine(self.path(name), words=WORDS[name])

    def collections(self, name: str) -> dict[str, str]:
        """Return the markers of the collections in a database."""
        with self.engine(name)._opened() as state:
            return {collection: stored["marker"] for collection, stored in state["collections"].items()}

    def environment(self, **places: str) -> Mapping[str, str]:
        """Return the variables that configure the engines, by default vectors in one and words in another."""
        chosen = places or {"dense": "qdrant", "lexical": "opensearch"}
        urls = {f"RETRIEVE_{name.upper()}__URL": str(self.path(name)) for name in WORDS}
        return urls | {f"RETRIEVE_ENGINES__{role.upper()}": name for role, name in chosen.items()}

    def calls(self, name: str, *kinds: str) -> list[list[Any]]:
        """Return the calls since the last look, of some kinds."""
        path = Path(f"{self.path(name)}{CALLS}")
        found = [json.loads(line) for line in _lines(path)]
        path.unlink(missing_ok=True)
        return [call for call in found if call[0] in kinds or not kinds]

    def stop(self, name: str) -> None:
        """Make a server unreachable; what it holds stays."""
        self.path(name).rename(self.folder / f"{name}.stopped")

    def start(self, name: str) -> None:
        (self.folder / f"{name}.stopped").rename(self.path(name))

    def lose(self, name: str) -> None:
        """Replace a database by an empty one."""
        self.path(name).unlink()
        create_database(self.path(name))


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []


def search_in(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the program search vectors and words in an engine, or with `local` in the files."""
    for role in ("DENSE", "LEXICAL"):
        monkeypatch.setenv(f"RETRIEVE_ENGINES__{role}", place)


def inject(patch: Callable[[Any, str, Any], None] = setattr) -> None:
    """Let the program make these engines."""
    patch(engines, "_ENGINES", {name: (__name__, name.capitalize()) for name in WORDS})
    forget_all()


def main(arguments: list[str]) -> int:
    """Run the program with these engines."""
    from retrieve_cli.cli.main import main as program

    inject()
    return int(program(arguments))


def forget_all() -> None:
    """Forget all engines; they are made again when they are needed."""
    engines._kept.clear()
