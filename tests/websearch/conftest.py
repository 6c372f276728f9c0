"""Fixtures: the fakes of all providers, and an environment without credentials and proxies."""

from collections.abc import Iterator
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from raw_servers import Server, serving
from websearch.echoing import titles
from websearch.fakes.server import Fakes, faking
from websearch.taped import Taped

from retrieve_cli.assemble import websearch as parts
from retrieve_cli.config import plugins
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.websearch import Page

TOYS = Path(__file__).parent.parent / "program" / "toys"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
KEYS = ("TAVILY_API_KEY", "SERPER_API_KEY", "SERPAPI_API_KEY", "NCBI_API_KEY", "NCBI_EMAIL", "S2_API_KEY")
"""Variables that the providers use."""


def written(name: str) -> Taped:
    """Return the exchanges of a file that follows the documentation; skip the test if they were recorded."""
    taped = Taped(name)
    if taped.file["recorded"]:
        pytest.skip("its exchanges were recorded: the results in them are others")
    return taped


@pytest.fixture
def taped(request: pytest.FixtureRequest) -> Taped:
    """Return the written exchanges of the provider that a module is about: its `PROVIDER`."""
    return written(request.module.PROVIDER)


@pytest.fixture
def page(request: pytest.FixtureRequest, taped: Taped) -> Page:
    """Return the answer of that provider to the question of its file."""
    return parts.provider(request.module.PROVIDER, Settings()).search(taped.query, taped)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXIES, *(name.upper() for name in PROXIES), *KEYS, "ECHO_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on loopback that answers with titles."""
    with serving(titles) as server:
        yield server


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    """Fakes of all origins that the files of `providers/` name, each on a port of its own."""
    with faking() as made:
        yield made


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plug-ins that are installed: a provider, a reranker, and one that cannot be loaded."""
    monkeypatch.syspath_prepend(TOYS)
    places = {"library": "library:PROVIDER", "shortest": "parts:RERANKER", "gone": "no_such:PART"}
    points = [EntryPoint(name, place, plugins.GROUP) for name, place in places.items()]
    monkeypatch.setattr(metadata, "entry_points", lambda *, group: points if group == plugins.GROUP else [])
    plugins.installed.cache_clear()
    plugins.load.cache_clear()
    yield
    plugins.installed.cache_clear()
    plugins.load.cache_clear()
