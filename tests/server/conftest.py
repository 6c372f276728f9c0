"""An index of the sample tools and a server of it, one of each for a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import Server, built, started


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifacts of an index of the sample tools."""
    return built(tmp_path_factory.mktemp("index"))


@pytest.fixture(scope="module")
def server(artifacts: Path) -> Iterator[Server]:
    """A server of the module's index."""
    with started(artifacts, cwd=artifacts.parent, RETRIEVE_ENCODER__KIND="hashed") as running:
        yield running
