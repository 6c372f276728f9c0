"""Servers on loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sources.servers import Endpoint, Site, running


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where a fetched catalog goes."""
    return tmp_path / "tools.jsonl"


@pytest.fixture
def site() -> Iterator[Site]:
    """A web server that answers as it is told."""
    yield from running(Site())


@pytest.fixture
def elsewhere() -> Iterator[Site]:
    """Another one."""
    yield from running(Site())


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """A SPARQL endpoint."""
    yield from running(Endpoint())


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is asked directly, whatever the machine's proxies."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
