"""Failed assertions of the engine suite are explained as those of test files; servers that several files use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from engines.injected import Servers
    from engines.pgvector_server import PostgresServer

for name in ("suite",):
    pytest.register_assert_rewrite(f"engines.{name}")


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Servers:
    """Databases in place of servers, which the program uses: vectors live in one engine, words in another."""
    from engines.injected import Servers, inject

    inject(monkeypatch.setattr)
    made = Servers(tmp_path / "servers").create()
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server of PostgreSQL with pgvector."""
    from engines.pgvector_server import running

    with running() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    """An empty database."""
    postgres.start()
    return postgres.database()
