"""Killed anywhere between a sync and its engines: no answer mixes generations, the next run completes it."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from engines.injected import CALLS, Servers, alike, inject
from samples import Program, write_catalog
from sync.forks import Fault, Forks, Nursery
from sync.state import live, records, versions

MAIN = "engines.injected:main"
KILLS = int(os.environ.get("RETRIEVE_KILLS", "0"))
QUERY = ("query", "segment lungs", "-k", "20", "--json")
MANY = KILLS or 12
SIZE = 24
"""Records of a version."""

LOADED = (
    "Stemmer",
    "engines.injected",
    "numpy.ma",
    "retrieve_cli.sources.chunking.section",
    "retrieve_cli.sources.chunking.window",
    "retrieve_cli.api.building",
    "retrieve_cli.cli.build",
    "retrieve_cli.cli.sync",
    "retrieve_cli.engines.index",
    "retrieve_cli.retrieval.graph.directory",
    "retrieve_cli.ingest.pushing",
    "retrieve_cli.ingest.schedule",
    "retrieve_cli.retrieval.retrievers.bm25",
    "retrieve_cli.retrieval.retrievers.dense",
    "retrieve_cli.sources.catalogs.linked_catalog",
)
"""What a child would otherwise import itself, each of them again."""


@dataclass
class Place:
    """An index whose parts are in two engines."""

    folder: Path
    retrieve: Program
    forks: Forks
    servers: Servers
    monkeypatch: pytest.MonkeyPatch

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    def run(self, *arguments: object, fault: Fault | None = None) -> Any:
        """Start the program with engines in a process that may be killed."""
        return self.forks.start(*arguments, call=MAIN, fault=fault, **self.servers.environment())

    def write(self, version: int) -> Path:
        return write_catalog(self.folder / "tools.jsonl", records(version, SIZE))

    def answer(self, *, local: bool) -> Any:
        """Return an answer through the engines, or from local files."""
        for name, value in self.servers.environment().items():
            self.monkeypatch.setenv(name, "local" if local and "_ENGINES_" in name else value)
        self.monkeypatch.setenv("RETRIEVE_FUSION__METHOD", "rrf")  # z-scores of engines come from the list
        done = self.retrieve(*QUERY)
        assert done.code == 0, done.err
        return {key: done.json[key] for key in ("generation", "results", "total_matches", "strategies_used", "related")}

    def keep(self, name: str) -> None:
        """Keep a copy of everything under a name."""
        shutil.copytree(self.artifacts, self.folder / f"{name}-artifacts")
        self.servers.keep(self.folder / f"{name}-servers")

    def prepare(self, version: int) -> None:
        """Restore the copy, with another version of the source."""
        shutil.rmtree(self.artifacts)
        shutil.copytree(self.folder / "template-artifacts", self.artifacts)
        self.servers.restore(self.folder / "template-servers")
        self.write(version)

    def holds(self, allowed: set[str]) -> None:
        """Check that what is current answers through the engines as from local files, from one generation."""
        remote, local = self.answer(local=False), self.answer(local=True)
        assert alike(remote, local)
        assert remote["generation"] in allowed
        assert len(versions(remote)) == 1
        assert live(self.artifacts) == remote["generation"]
        assert remote["strategies_used"] == ["bm25", "dense"]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    place = Nursery(*LOADED)
    yield place
    place.close()


@pytest.fixture
def place(
    nursery: Nursery,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    retrieve: Program,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Place]:
    inject(monkeypatch.setattr)
    forks = Forks(nursery, tmp_path, tmp_path_factory.mktemp("forks"))
    yield Place(tmp_path, retrieve, forks, Servers(tmp_path / "servers").create(), monkeypatch)
    forks.close()


def faults(place: Place) -> Iterator[Fault]:
    """Yield places in a sync: before calls of the engines, and before any change of the disk; half of each."""
    for within in (CALLS, ""):
        place.prepare(3)
        steps = place.run("sync", fault=Fault(within=within)).counted.steps
        assert steps >= 12
        yield from (Fault(step=step, within=within) for step in spread(steps, MANY // 2))


def spread(count: int, most: int) -> list[int]:
    """Return numbers from 1 to `count` at even distances, the last one among them: all, if these are not too many."""
    if count <= most:
        return [*range(1, count + 1)]
    return sorted({round(count - at * count / most) for at in range(most)} - {0})


def test_a_sync_killed_anywhere_never_mixes_generations(place: Place) -> None:
    assert place.run("build", "--catalog", place.write(1)).wait() == 0
    place.write(2)
    assert place.run("sync").wait() == 0
    before, after = live(place.artifacts), {}
    place.keep("template")
    for version in (3, 4, 2):
        place.prepare(version)
        assert place.run("sync").wait() == 0
        after[version] = live(place.artifacts)
    number = 0
    for number, fault in enumerate(faults(place), 1):
        place.prepare(3)
        assert place.run("sync", fault=fault).wait() == -signal.SIGKILL, fault
        place.holds({before, after[3]})
        version, between = list(after)[number % len(after)], live(place.artifacts)
        place.write(version)
        assert place.run("sync").wait() == 0
        assert live(place.artifacts) == after[version]
        place.holds({after[version]})
        for name in ("qdrant", "opensearch"):
            engine = place.servers.engine(name)
            staged = engine.generations()
            assert all(each.complete for each in staged), fault
            assert engine.live() == after[version]
            assert {each.generation for each in staged} >= {after[version], between}
            assert len(staged) <= 3
    assert number == MANY
