"""Killed anywhere between a sync and its engines: readers see old or new rows, and the next sync completes it."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from engines.injected import CALLS, Servers, inject
from samples import Program, succeeds, write_catalog
from sync.forks import Fault, Forks, Nursery
from sync.state import live, records

from retrieve_cli.storage import engine_record

MAIN = "engines.injected:main"
MANY = int(os.environ.get("RETRIEVE_KILLS", "0")) or 10
SIZE = 12
LOADED = ("Stemmer", "engines.injected", "retrieve_cli.cli.sync", "retrieve_cli.ingest.pushing")
"""What a child would otherwise import itself, each of them again."""


@dataclass
class Place:
    """An index in two engines, and a copy of both."""

    folder: Path
    retrieve: Program
    forks: Forks
    servers: Servers

    def run(self, *arguments: object, fault: Fault | None = None) -> Any:
        """Start the program with engines in a process that may be killed."""
        return self.forks.start(*arguments, call=MAIN, fault=fault, **self.servers.environment())

    def write(self, version: int) -> set[str]:
        """Write a catalog with three changed records, one more and one less; return the descriptions."""
        rows = records(1, SIZE)
        if version > 1:
            rows = [*rows[1:], {**records(version, SIZE)[0], "id": f"new{version}"}]
            rows[3:6] = records(version, SIZE)[4:7]
        write_catalog(self.folder / "tools.jsonl", rows)
        return {f"{row['name']}: {row['description']}" for row in rows}

    def copy(self, source: str, target: str) -> None:
        for name in ("artifacts", "servers"):
            shutil.rmtree(self.folder / f"{target}{name}", ignore_errors=True)
            shutil.copytree(self.folder / f"{source}{name}", self.folder / f"{target}{name}")

    def texts(self) -> set[str]:
        """Return the contents of all results."""
        results = succeeds(self.retrieve("query", "segment lungs", "-k", "20", "--json")).json["results"]
        return {result["content"] for result in results}

    def rows(self, name: str) -> tuple[str, int]:
        """Return the marker and the number of rows of the current collection in an engine."""
        artifacts = self.folder / "artifacts"
        held = engine_record.find(artifacts / "generations" / live(artifacts), name)
        assert held is not None
        return self.servers.collections(name)[held.name], self.servers.engine(name).count(held.name)


@pytest.fixture
def place(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    inject(monkeypatch.setattr)
    nursery = Nursery(*LOADED)
    forks = Forks(nursery, tmp_path, tmp_path_factory.mktemp("forks"))
    servers = Servers(tmp_path / "servers").create()
    for name, value in servers.environment().items():
        monkeypatch.setenv(name, value)
    yield Place(tmp_path, retrieve, forks, servers)
    forks.close()
    nursery.close()


def test_a_sync_killed_anywhere_is_completed_by_the_next(place: Place) -> None:
    old = place.write(1)
    assert place.run("build", "--catalog", place.folder / "tools.jsonl").wait() == 0
    place.copy("", "kept-")
    new = place.write(2)
    assert place.run("sync").wait() == 0
    assert place.texts() == new
    faults = []
    for within in (CALLS, ""):
        place.copy("kept-", "")
        steps = place.run("sync", fault=Fault(within=within)).counted.steps
        chosen = sorted({1 + number * (steps - 1) // (MANY // 2 - 1) for number in range(MANY // 2)})
        faults += [Fault(step=step, within=within) for step in chosen]
    for number, fault in enumerate(faults):
        place.copy("kept-", "")
        place.write(2)
        assert place.run("sync", fault=fault).wait() == -signal.SIGKILL, fault
        assert place.texts() <= old | new, fault
        final = place.write(2 + number % 2)
        assert place.run("sync").wait() == 0, fault
        assert place.texts() == final, fault
        for name in ("qdrant", "opensearch"):
            assert place.rows(name) == (live(place.folder / "artifacts"), SIZE), fault
