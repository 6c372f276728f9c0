"""Fixtures: the fakes of all providers, and an environment without credentials and proxies."""

from collections.abc import Iterator

import pytest
from websearch.fakes.server import Fakes, faking
from websearch.taped import Taped

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
KEYS = ("TAVILY_API_KEY", "SERPER_API_KEY", "SERPAPI_API_KEY", "NCBI_API_KEY", "NCBI_EMAIL", "S2_API_KEY")
"""Variables that the providers use."""


def written(name: str) -> Taped:
    """Return the exchanges of a file that follows the documentation; skip the test if they were recorded."""
    taped = Taped(name)
    if taped.file["recorded"]:
        pytest.skip("its exchanges were recorded: the results in them are others")
    return taped


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXIES, *(name.upper() for name in PROXIES), *KEYS):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    """Fakes of all origins that the files of `providers/` name, each on a port of its own."""
    with faking() as made:
        yield made
