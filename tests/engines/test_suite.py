"""The engine suite on the small engine of the tests."""

from collections.abc import Callable
from pathlib import Path

import pytest
from engines.sqlite_engine import SqliteEngine, create_database
from engines.suite import EngineSuite


class TestSqlite(EngineSuite):
    @pytest.fixture
    def new_engine(self, tmp_path: Path) -> Callable[[], SqliteEngine]:
        create_database(tmp_path / "server.db")
        return lambda: SqliteEngine(tmp_path / "server.db")

    def unreachable(self) -> SqliteEngine:
        return SqliteEngine(Path("nowhere.db"))

    def kill_server(self) -> None:
        for file in Path().glob("server.db*"):
            file.unlink()
