"""The warm process of an index of five tools, and of any other."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from warm_samples import Warm

Make = Callable[..., Warm]


@pytest.fixture
def warm_of() -> Iterator[Make]:
    """Starts warm processes, and ends them."""
    begun: list[Warm] = []

    def make(folder: Path, *words: object, **env: str) -> Warm:
        begun.append(Warm(folder, *words, **env))
        return begun[-1]

    yield make
    for process in begun:
        process.end()


@pytest.fixture
def warm(index: Path, warm_of: Make) -> Warm:
    """The warm process of an index of five tools."""
    return warm_of(index.parent)
