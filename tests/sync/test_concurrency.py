"""Two writers at once, ten readers during eight publications: nobody fails, nobody sees a mixture."""

import gc
import os
import shutil
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from samples import Program, write_catalog
from sync.forks import Child, Forks
from sync.state import live, records, versions
from waiting import PATIENCE_S, until

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Request
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store


def said(child: Child, line: str) -> None:
    """Wait until a process has printed this line."""
    until(lambda: line in child.out.splitlines() or child.ended(), line)
    assert line in child.out.splitlines(), child.err


def test_ten_readers_during_eight_publications(artifacts: Path, source: Path, retrieve: Program, forks: Forks) -> None:
    versions_of_all = (records(version) for version in range(1, 9))
    during(versions_of_all, ("segment lungs word3", 10), source, retrieve, forks)
    assert retrieve("sync").code == 0
    assert [kept.manifest.id for kept in Store(artifacts).kept()] == [live(artifacts)]


def test_ten_readers_while_segments_are_added_and_merged(
    artifacts: Path, source: Path, retrieve: Program, forks: Forks
) -> None:
    """Two records change each time, far from one another."""

    def clocks(version: int) -> list[dict[str, Any]]:
        first, *others, last = records(0)
        clock = {"description": f"clock version{version}"}
        return [{**first, **clock}, *others, {**last, **clock}]

    write_catalog(source, clocks(0))
    assert retrieve("sync").code == 0
    during(map(clocks, range(1, 17)), ("clock", 2), source, retrieve, forks)
    assert retrieve("sync", "--compact").code == 0
    assert [folder.name for folder in (artifacts / "generations").iterdir()] == [live(artifacts)]


def during(
    catalogs: Iterable[list[dict[str, Any]]],
    query: tuple[str, int],
    source: Path,
    retrieve: Program,
    forks: Forks,
) -> None:
    """Publish catalogs one after another, each in the place of the one before, while ten processes ask for a text with
    so many results."""
    (source.parent / "config.yaml").write_text("store: {keep: 1}\nsearch: {mode: bm25}")
    stop = source.parent / "stop"
    readers = [forks.start("artifacts", stop, *query, call="sync.tasks:read", nice=10) for _ in range(10)]
    for reader in readers:
        said(reader, "ready")
    for catalog in catalogs:
        write_catalog(source, catalog)
        assert retrieve("sync", "--json").json["status"] == "published"
    stop.touch()
    reads, seen = 0, 0
    for reader in readers:
        assert reader.wait() == 0, reader.err
        counts = [int(word) for word in reader.out.split()[-2:]]
        reads, seen = reads + counts[0], max(seen, counts[1])
    assert reads >= 30
    assert seen > 1


def test_two_syncs_at_once_take_turns(artifacts: Path, source: Path, retrieve: Program, forks: Forks) -> None:
    for version in range(1, 4):
        write_catalog(source, records(version))
        both = [forks.start("sync", "--json"), forks.start("sync", "--json")]
        done = [child.json for child in both]
        assert [child.wait() for child in both] == [0, 0]
        assert sorted(each["status"] for each in done) == ["published", "unchanged"]
        assert {each["generation"] for each in done} == {live(artifacts)}
        assert retrieve("inspect", "verify").code == 0


def test_who_will_not_wait_is_told_who_writes(artifacts: Path, retrieve: Program) -> None:
    with Store(artifacts).writer():
        at_once = retrieve("sync", "--no-wait", "--json")
        after = retrieve("sync", "--wait", "0.2")
        looked = retrieve("sync", "--dry-run")
    assert (at_once.code, after.code, looked.code) == (7, 7, 0)
    assert at_once.json["status"] == "failed"
    assert "pid" in after.err
    assert retrieve("sync", "--no-wait").code == 0


def test_who_waits_goes_on_when_the_other_ends(artifacts: Path, source: Path, forks: Forks) -> None:
    write_catalog(source, records(1))
    with Store(artifacts).writer():
        other = forks.start("sync", "-v", "--wait", int(PATIENCE_S))
        until(lambda: "waiting for another writer" in other.err or other.ended(), "a sync that waits")
    assert other.wait() == 0, other.err
    assert "published" in other.out


def test_the_lock_of_a_dead_writer_is_free(artifacts: Path, source: Path, retrieve: Program, forks: Forks) -> None:
    holder = forks.start(artifacts, call="sync.tasks:hold")
    said(holder, "holding")
    assert retrieve("sync", "--no-wait").code == 7
    holder.send(signal.SIGKILL)
    assert holder.wait() == -signal.SIGKILL
    assert str(holder.pid) in (artifacts / "lock").read_text()
    write_catalog(source, records(1))
    assert retrieve("sync", "--no-wait").code == 0
    assert (artifacts / "lock").read_text() == ""


def test_a_generation_that_somebody_reads_is_not_removed(
    artifacts: Path, source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_STORE__KEEP", "1")
    opened = Opened.of(Store(artifacts), Settings())
    first = live(artifacts)
    for version in (1, 2):
        write_catalog(source, records(version))
        gc.collect()  # the syncs before ran in this process
        assert retrieve("sync").code == 0
    history = retrieve("inspect", "history", "--json").json
    assert [each["generation"] for each in history] == [live(artifacts), first]
    assert all(segment.folder.is_dir() for segment in opened.generation.segments)
    [answer] = Searcher(opened).answer([Request("segment lungs")])
    assert answer.generation == first
    del opened, answer
    gc.collect()
    assert retrieve("sync").code == 0
    assert [folder.name for folder in (artifacts / "generations").iterdir()] == [live(artifacts)]


def test_a_generation_removed_under_its_reader(artifacts: Path, retrieve: Program) -> None:
    opened = Opened.of(Store(artifacts), Settings())
    shutil.rmtree(artifacts / "generations" / live(artifacts))
    [answer] = Searcher(opened).answer([Request("segment lungs")])
    assert len(answer.results) == 10
    gone = retrieve("query", "lungs")
    assert gone.code == 5
    assert "which does not exist" in gone.err


def test_a_folder_that_cannot_be_listed_is_read_all_the_same(
    artifacts: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = os.open

    def refuse(path: object, flags: int, *rest: int, **more: int) -> int:
        if flags & os.O_DIRECTORY and live(artifacts) in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return honest(path, flags, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    assert retrieve("query", "lungs").code == 0


def test_versions_would_show_a_mixture(artifacts: Path, retrieve: Program) -> None:
    assert versions(retrieve("query", "segment lungs", "--json").json) == {"version0"}
