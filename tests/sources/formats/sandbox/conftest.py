"""Pools of processes that tests share."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sources.formats.sandbox.asking import MB

from retrieve_cli.sources.formats.processes.pool import ParserPool


@pytest.fixture
def readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, which parsers that start from now on may read."""
    folder = tmp_path / "readable"
    (folder / "some.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.fixture(scope="module")
def pool() -> Iterator[ParserPool]:
    """One process with little memory, used for all files of a module."""
    with closing(ParserPool(256 * MB, workers=1)) as made:
        yield made


@pytest.fixture
def alone() -> Iterator[ParserPool]:
    """One process that has done nothing yet."""
    with closing(ParserPool(256 * MB, workers=1)) as made:
        yield made


@pytest.fixture
def fresh() -> Iterator[ParserPool]:
    """A pool that has done nothing yet, of two processes."""
    with closing(ParserPool(256 * MB, workers=2)) as made:
        yield made
