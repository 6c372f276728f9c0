"""Snapshots killed anywhere, or on a full disk: the index is as before or as after, and the next run succeeds."""

import json
import shutil
import signal
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pytest
from samples import Program
from sync.forks import Fault, Forks
from sync.state import Publish, live
from sync.test_kills import chosen, killed_before_each_step, small_disk, steps_in_parts

from retrieve_cli.storage.inbox import Change, Inbox, Upload

__all__ = ["small_disk"]


POSTED = ("nose", "ear", "eye")


def posted(artifacts: Path, names: Sequence[str], *, file: bool = False) -> None:
    """Add documents one at a time, as a server does; the last one as a file."""
    inbox = Inbox(artifacts)
    for name in names:
        upload = None
        if file and name == names[-1]:
            upload = Upload(BytesIO(f"# {name}\n\nSegments it.\n".encode()), f"{name}.md")
        inbox.write([Change(name, None, json.dumps({"title": name, "text": "segment it"}).encode(), upload)])


@pytest.fixture
def snapshot(artifacts: Path, publish: Publish, retrieve: Program) -> Path:
    """A snapshot of an index with posted documents that has changed since."""
    posted(artifacts, POSTED, file=True)
    assert retrieve("sync").code == 0
    assert retrieve("snapshot", "create", "kept.tar.zst").code == 0
    publish(1)
    return Path("kept.tar.zst").resolve()


@steps_in_parts
def test_a_restore_killed_before_any_of_its_steps(
    artifacts: Path, snapshot: Path, publish: Publish, retrieve: Program, forks: Forks, tmp_path: Path, part: int
) -> None:
    older = live(artifacts)
    posted(artifacts, ["later"])
    for version in (2, 3):  # what the snapshot holds is gone by then, and one generation is removed
        assert publish(version) != older
    command, former = ("snapshot", "restore", snapshot), artifacts.rename(tmp_path / "former")
    names = [*POSTED, "later"]
    assert killed_before_each_step(command, artifacts, former, retrieve, forks, part, posted=names) > 15


@steps_in_parts
def test_a_restore_of_a_lost_inbox_killed_before_any_of_its_steps(
    artifacts: Path, snapshot: Path, retrieve: Program, forks: Forks, tmp_path: Path, part: int
) -> None:
    (artifacts / "inbox.db").unlink()
    assert "the inbox is behind the index" in retrieve("sync").err
    command, former = ("snapshot", "restore", snapshot), artifacts.rename(tmp_path / "former")
    assert killed_before_each_step(command, artifacts, former, retrieve, forks, part, posted=POSTED) > 40


@steps_in_parts
def test_a_first_restore_killed_before_any_of_its_steps(
    artifacts: Path, snapshot: Path, retrieve: Program, forks: Forks, part: int
) -> None:
    command = ("snapshot", "restore", snapshot)
    assert killed_before_each_step(command, artifacts, None, retrieve, forks, part, posted=POSTED) > 30


def test_a_snapshot_killed_before_any_of_its_steps(
    artifacts: Path, retrieve: Program, forks: Forks, tmp_path: Path
) -> None:
    folder = tmp_path / "snapshots"
    folder.mkdir()
    kinds = forks.start("snapshot", "create", folder).counted.kinds
    (whole,) = folder.iterdir()
    before = {path: path.read_bytes() for path in artifacts.rglob("*") if path.is_file()}
    for step in chosen(kinds):
        whole.unlink(missing_ok=True)
        fault = Fault(step=step)
        assert forks.start("snapshot", "create", folder, fault=fault).wait() == -signal.SIGKILL
        if whole.exists():  # all of it or nothing
            assert retrieve("snapshot", "verify", whole).code == 0
        assert {path: path.read_bytes() for path in artifacts.rglob("*") if path.is_file()} == before
        assert retrieve("snapshot", "create", folder).code == 0
        assert list(folder.iterdir()) == [whole]


@pytest.mark.parametrize("step", [4])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_asked_to_end_a_restore_leaves_nothing(
    artifacts: Path, snapshot: Path, forks: Forks, tmp_path: Path, number: signal.Signals, code: int, step: int
) -> None:
    before = live(artifacts)
    fault = Fault(step=step, within=".scratch-", number=number)
    asked = forks.start("snapshot", "restore", snapshot, "--artifacts", tmp_path / "new", fault=fault)
    assert asked.wait() == code, asked.err
    assert not (tmp_path / "new").exists()
    asked = forks.start("snapshot", "create", tmp_path, fault=Fault(step=1, within=".snapshot.new", number=number))
    assert asked.wait() == code, asked.err
    assert [path.name for path in tmp_path.glob("*.tar.zst*")] == [snapshot.name]
    assert not list(tmp_path.glob(".*.new"))
    assert live(artifacts) == before


def test_a_full_disk_is_reported_and_leaves_no_index(small_disk: Path, snapshot: Path, retrieve: Program) -> None:
    place = ("--artifacts", small_disk / "artifacts")
    assert retrieve("snapshot", "restore", snapshot, *place).code == 0
    shutil.rmtree(small_disk / "artifacts")
    for left in range(0, 500_000, 20_000):
        ballast = small_disk / "ballast"
        ballast.unlink(missing_ok=True)
        ballast.write_bytes(b"x" * max(0, shutil.disk_usage(small_disk).free - left))
        done = retrieve("snapshot", "restore", snapshot, *place)
        assert done.code in (0, 1), done.err
        if done.code == 0:
            break
        assert "are free" in done.err or "No space left on device" in done.err
        assert not (small_disk / "artifacts" / "current").exists()
        assert not list(small_disk.rglob(".scratch-*"))
    assert left >= 50_000
    assert done.code == 0


def test_files_that_may_not_grow_are_no_snapshot(artifacts: Path, snapshot: Path, forks: Forks, tmp_path: Path) -> None:
    before = live(artifacts)
    failures = 0
    for limit in range(0, 100_000, 8000):
        made = forks.start(limit, "snapshot", "create", "x.tar.zst", call="sync.tasks:limited")
        restored = forks.start(limit, "snapshot", "restore", snapshot, "--artifacts", "new", call="sync.tasks:limited")
        codes = (made.wait(), restored.wait())
        assert set(codes) <= {0, 1}, (made.err, restored.err)
        for child, code in zip((made, restored), codes, strict=True):
            assert code == 0 or "File too large" in child.err or "No usable temporary directory" in child.err
        assert (tmp_path / "x.tar.zst").exists() is (codes[0] == 0)
        assert (tmp_path / "new").exists() is (codes[1] == 0)
        assert not list(tmp_path.glob(".*.new"))
        if codes == (0, 0):
            break
        failures += 1
        (tmp_path / "x.tar.zst").unlink(missing_ok=True)
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
    assert failures > 1
    assert live(artifacts) == before
