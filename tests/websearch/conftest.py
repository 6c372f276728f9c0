"""Fixtures: the fakes of all providers, and an environment without credentials and proxies."""

from collections.abc import Iterator

import pytest
from websearch.fakes.server import Fakes, faking

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
KEYS = ("TAVILY_API_KEY", "SERPER_API_KEY", "SERPAPI_API_KEY", "NCBI_API_KEY", "NCBI_EMAIL", "S2_API_KEY")
"""Variables that the providers use."""


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXIES, *(name.upper() for name in PROXIES), *KEYS):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    """Fakes of all origins that the files of `providers/` name, each on a port of its own."""
    with faking() as made:
        yield made
