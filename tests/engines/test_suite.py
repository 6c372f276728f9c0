"""The engine suite on the small engine of the tests."""

from collections.abc import Callable
from pathlib import Path

import pytest
from engines.sqlite_engine import SqliteEngine, create_database
from engines.suite import EngineSuite


class TestSqlite(EngineSuite):
    @pytest.fixture
    def new_engine(self, tmp_path: Path) -> Callable[[], SqliteEngine]:
        if not (tmp_path / "server.db").exists():
            create_database(tmp_path / "server.db")
        return lambda: SqliteEngine(tmp_path / "server.db")

    def unreachable(self) -> SqliteEngine:
        return SqliteEngine(Path("nowhere.db"))


class TestSqliteTerms(EngineSuite):
    """As an engine that takes BM25 as term weights."""

    @pytest.fixture
    def new_engine(self, tmp_path: Path) -> Callable[[], SqliteEngine]:
        create_database(tmp_path / "server.db")
        return lambda: SqliteEngine(tmp_path / "server.db", words="terms")
