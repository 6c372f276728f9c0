"""Killed anywhere between a build or sync and its engines: no answer mixes generations, the next run completes it."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from engines.injected import CALLS, Servers, alike, inject
from profiles import SEED
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
        """Return an answer through the engines, or from local files; None if there is no index."""
        for name, value in self.servers.environment().items():
            self.monkeypatch.setenv(name, "local" if local and "_ENGINES_" in name else value)
        self.monkeypatch.setenv("RETRIEVE_FUSION__METHOD", "rrf")  # z-scores of engines come from the list
        done = self.retrieve(*QUERY)
        if done.code == 4:
            return None
        assert done.code == 0, done.err
        return {key: done.json[key] for key in ("generation", "results", "total_matches", "strategies_used", "related")}

    def keep(self, name: str) -> None:
        """Keep a copy of everything under a name."""
        if self.artifacts.exists():
            shutil.copytree(self.artifacts, self.folder / f"{name}-artifacts")
        self.servers.keep(self.folder / f"{name}-servers")

    def restore(self, name: str) -> None:
        shutil.rmtree(self.artifacts, ignore_errors=True)
        if (kept := self.folder / f"{name}-artifacts").exists():
            shutil.copytree(kept, self.artifacts)
        self.servers.restore(self.folder / f"{name}-servers")

    def holds(self, allowed: set[str | None]) -> None:
        """Check that what is current answers through the engines as from local files, from one generation."""
        remote, local = self.answer(local=False), self.answer(local=True)
        assert alike(remote, local)
        assert (remote and remote["generation"]) in allowed
        if remote:
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


@dataclass(frozen=True)
class Story:
    """A command that is killed, and what the index is before and after it."""

    command: tuple[object, ...]
    before: str | None
    after: str
    next: Mapping[int, str]
    """Ids of the generations that the next run publishes, by the version that its source has then."""


def prepared_build(place: Place) -> Story:
    source = place.write(1)
    place.keep("template")
    ids = published(place, "build", "--catalog", source, versions_=(1, 4))
    return Story(("build", "--catalog", source), None, ids[1], ids)


def prepared_sync(place: Place) -> Story:
    source = place.write(1)
    assert place.run("build", "--catalog", source).wait() == 0
    place.write(2)
    assert place.run("sync").wait() == 0
    before = live(place.artifacts)
    place.keep("template")
    return Story(("sync",), before, (ids := published(place, "sync", versions_=(3, 4, 2)))[3], ids)


def published(place: Place, *command: object, versions_: Sequence[int]) -> dict[int, str]:
    """Return the ids of generations of some versions, each published by a command that is not killed."""
    ids = {}
    for version in versions_:
        place.restore("template")
        place.write(version)
        assert place.run(*command).wait() == 0
        ids[version] = live(place.artifacts)
    return ids


def places_of(place: Place, story: Story, kills: int) -> Iterator[Fault]:
    """Yield places: before calls of the engines, before any change of the disk, at any moment; a third of each."""
    first = min(story.next)

    def counted(fault: Fault) -> Any:
        place.restore("template")
        place.write(3 if story.before else first)
        return place.run(*story.command, fault=fault).counted

    calls, steps = counted(Fault(within=CALLS)).steps, counted(Fault()).steps
    moments = counted(Fault(call=-1)).calls
    assert calls >= 12
    assert steps > calls + 30
    chosen = random.Random(f"engines {SEED} {story.command[0]}")
    numbers = {CALLS: spread(calls, kills // 3), "": spread(steps, kills // 3)}
    faults = [Fault(step=step, within=within) for within, some in numbers.items() for step in some]
    yield from faults
    for _ in range(kills - len(faults)):
        yield Fault(call=chosen.randint(1, moments))


def spread(count: int, most: int) -> list[int]:
    """Return numbers from 1 to `count` at even distances, the last one among them: all, if these are not too many."""
    if count <= most:
        return [*range(1, count + 1)]
    return sorted({round(count - at * count / most) for at in range(most)} - {0})


def killed(place: Place, story: Story, faults: Iterator[Fault]) -> int:
    """Kill the command at each place, look at what answers then, run it again; return how often it was killed."""
    number = 0
    first = 3 if story.before else 1
    for number, fault in enumerate(faults, 1):
        place.restore("template")
        place.write(first)
        assert place.run(*story.command, fault=fault).wait() == -signal.SIGKILL, fault
        place.holds({story.before, story.after})
        version = list(story.next)[number % len(story.next)]
        between = live(place.artifacts) if (place.artifacts / "current").exists() else None
        place.write(version)
        assert place.run(*story.command).wait() == 0
        wanted = story.next[version]
        assert live(place.artifacts) == wanted
        place.holds({wanted})
        for name in ("qdrant", "opensearch"):
            staged = place.servers.engine(name).generations()
            assert all(each.complete for each in staged), fault
            assert place.servers.engine(name).live() == wanted
            assert {each.generation for each in staged} >= {wanted} | ({between} - {None})
            assert len(staged) <= 3
    return number


@pytest.mark.parametrize("prepared", [prepared_build, prepared_sync])
def test_a_publication_killed_anywhere_never_mixes_generations(
    place: Place, prepared: Callable[[Place], Story]
) -> None:
    story = prepared(place)
    assert killed(place, story, places_of(place, story, MANY)) == MANY
