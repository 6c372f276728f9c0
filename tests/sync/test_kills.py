"""Killed anywhere, or on a full disk: the current index answers as before or as after, and the next sync succeeds.

A build, syncs with and without merges, additions in process, a compaction, a rollback: with HYPOTHESIS_PROFILE=nightly
before each of their steps, which are some 300, otherwise before a third of them.
"""

import gc
import random
import shutil
import signal
from collections.abc import Collection, Iterator
from math import ceil
from pathlib import Path

import pytest
from profiles import NIGHTLY, SEED
from samples import Program, write_catalog
from sync.forks import Fault, Forks
from sync.state import Publish, live, mounted, records, versions

import retrieve_cli
from retrieve_cli.storage.inbox import Inbox
from retrieve_cli.storage.store import Store

PARTS = 6 if NIGHTLY else 2
SMALL, ADD = "sync.tasks:small_batches", "sync.tasks:add"
BATCH = 16


def holds(retrieve: Program, artifacts: Path, allowed: set[str | None]) -> None:
    """Whatever happened, what is live is whole and one of the states that may be."""
    answer = retrieve("query", "segment lungs", "--json")
    if answer.code == 4:
        assert None in allowed
        return
    assert answer.code == 0, answer.err
    assert answer.json["generation"] in allowed
    assert len(versions(answer.json)) == 1
    assert retrieve("inspect", "verify").code == 0
    assert live(artifacts) == answer.json["generation"]


def nothing_is_left(artifacts: Path) -> None:
    """No scratch folder, no half-written file, no folder that no kept generation needs."""
    assert not list(artifacts.rglob(".*"))
    assert not list(artifacts.rglob("*.new"))
    needed = {name for kept in Store(artifacts).kept() for name in (kept.manifest.id, *kept.manifest.segments)}
    assert {folder.name for folder in (artifacts / "generations").iterdir()} == needed


# ------------------------------------------------------------------------------------------ before every step

steps_in_parts = pytest.mark.parametrize("part", range(PARTS))
"""Every n-th of the steps, so that the parts together are all of them."""


def chosen(kinds: list[str]) -> list[int]:
    """A third of the steps of each kind, drawn by TEST_SEED; of a night, every step."""
    if NIGHTLY:
        return list(range(1, len(kinds) + 1))
    place = random.Random(f"steps {SEED}")
    of_kinds = [[step for step, kind in enumerate(kinds, 1) if kind == one] for one in sorted(set(kinds))]
    return sorted(step for steps in of_kinds for step in place.sample(steps, ceil(len(steps) / 3)))


def killed_before_each_step(
    command: tuple[object, ...],
    artifacts: Path,
    former: Path | None,
    retrieve: Program,
    forks: Forks,
    part: int,
    *,
    posted: Collection[str] = (),
) -> int:
    """Kills a command before the chosen steps of a part, over a copy of a former index or none; returns its steps.

    Whenever it is killed, the index is as before or as after and no document of the inbox is lost, and the same command
    then comes to the same end, with the `posted` documents in the inbox.
    """
    restore(artifacts, former)
    kinds = forks.start(*command).counted.kinds
    after, kept = live(artifacts), len(Store(artifacts).kept())
    for step in chosen(kinds)[part::PARTS]:
        restore(artifacts, former)
        before = documents(artifacts)
        assert forks.start(*command, fault=Fault(step=step)).wait() == -signal.SIGKILL
        holds(retrieve, artifacts, {live(former) if former else None, after})
        assert documents(artifacts) >= before
        gc.collect()  # the queries ran in this process, which would still read
        assert retrieve(*command).code == 0
        assert documents(artifacts) >= set(posted)
        assert live(artifacts) == after
        nothing_is_left(artifacts)
        assert len(Store(artifacts).kept()) == kept
    return len(kinds)


def restore(artifacts: Path, former: Path | None) -> None:
    """Put a copy of a former index, or none, in the place of an index."""
    shutil.rmtree(artifacts, ignore_errors=True)
    if former:
        shutil.copytree(former, artifacts)


def documents(artifacts: Path) -> set[str]:
    """The ids of the documents of the inbox."""
    return {entry.id for entry in Inbox(artifacts).snapshot()}


@pytest.fixture
def edited(artifacts: Path, source: Path, publish: Publish, tmp_path: Path) -> Path:
    """An index of several segments, away from its place, whose catalog has an edit that is not published."""
    changed = records(0)
    for number in (3, 30, 44):  # a few records at a time, so that each sync adds a segment
        changed[number] |= {"description": f"segment lungs version0 edited{number}"}
        publish(changed)
    write_catalog(source, [*changed[1:], {**changed[0], "name": "moved"}])
    former = artifacts.rename(tmp_path / "former")
    assert len(Store(former).kept()) > 3, "one is there for its rows"
    return former


@steps_in_parts
def test_a_sync_killed_before_any_of_its_steps(
    artifacts: Path, source: Path, publish: Publish, retrieve: Program, forks: Forks, tmp_path: Path, part: int
) -> None:
    for version in (1, 2):  # as many generations as are kept, so that the sync removes one as well
        publish(version)
    write_catalog(source, records(3))
    former = artifacts.rename(tmp_path / "former")
    assert killed_before_each_step(("sync",), artifacts, former, retrieve, forks, part) > 40
    assert len(Store(artifacts).kept()) == len(Store(former).kept()) == 3


@steps_in_parts
def test_a_sync_of_one_edit_killed_before_any_of_its_steps(
    artifacts: Path, edited: Path, retrieve: Program, forks: Forks, part: int
) -> None:
    assert killed_before_each_step(("sync",), artifacts, edited, retrieve, forks, part) > 30


@steps_in_parts
def test_a_compaction_killed_before_any_of_its_steps(
    artifacts: Path, edited: Path, retrieve: Program, forks: Forks, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """Only one generation is kept, so that all older segments are removed as well."""
    monkeypatch.setenv("RETRIEVE_STORE__KEEP", "1")
    (edited.parent / "config.yaml").write_text("store: {keep: 1}")  # for processes of their own
    assert killed_before_each_step(("sync", "--compact"), artifacts, edited, retrieve, forks, part) > 30
    assert [folder.name for folder in (artifacts / "generations").iterdir()] == [live(artifacts)]


@steps_in_parts
def test_a_rollback_killed_before_any_of_its_steps(
    artifacts: Path, edited: Path, retrieve: Program, forks: Forks, part: int
) -> None:
    back = ("sync", "--rollback", Store(edited).before(live(edited)))
    assert killed_before_each_step(back, artifacts, edited, retrieve, forks, part) > 3


@steps_in_parts
def test_a_first_build_killed_before_any_of_its_steps(
    source: Path, retrieve: Program, forks: Forks, tmp_path: Path, part: int
) -> None:
    build = ("build", "--catalog", source)
    assert killed_before_each_step(build, tmp_path / "artifacts", None, retrieve, forks, part) > 30


@steps_in_parts
def test_additions_killed_before_any_of_their_steps_lose_nothing_that_was_acknowledged(
    artifacts: Path, retrieve: Program, forks: Forks, tmp_path: Path, part: int
) -> None:
    former = artifacts.rename(tmp_path / "former")
    names = ("nose", "ear")
    restore(artifacts, former)
    kinds = forks.start(artifacts, *names, call=ADD).counted.kinds
    assert len(kinds) > 30
    for step in chosen(kinds)[part::PARTS]:
        restore(artifacts, former)
        child = forks.start(artifacts, *names, call=ADD, fault=Fault(step=step))
        assert child.wait() == -signal.SIGKILL
        answer = retrieve("query", "acknowledged", "--mode", "bm25", "--json")
        assert answer.code == 0, answer.err
        assert retrieve("inspect", "verify").code == 0
        assert documents(artifacts) >= set(child.out.split())
        gc.collect()
        assert retrieve("sync").code == 0
        assert indexed(artifacts) >= documents(artifacts) >= set(child.out.split())
        assert retrieve("inspect", "verify").code == 0
        nothing_is_left(artifacts)


def indexed(artifacts: Path) -> set[str]:
    """The ids of all records of an index."""
    with retrieve_cli.open(artifacts) as index:
        return {str(record["id"]) for record in index.records()}


# ------------------------------------------------------------------------------------------- at any other moment


def killed_again_and_again(artifacts: Path, source: Path, retrieve: Program, forks: Forks, faults: list[Fault]) -> None:
    """One sync after another is killed, none of them is followed by one that is not, until the last."""
    codes = []
    for version, fault in enumerate(faults, 2):
        before = live(artifacts)
        write_catalog(source, records(version))
        codes.append(forks.start(BATCH, "sync", call=SMALL, fault=fault).wait())
        holds(retrieve, artifacts, {before, live(artifacts)})
    assert set(codes) <= {0, -signal.SIGKILL, -signal.SIGXFSZ}
    assert codes.count(0) <= len(codes) / 2
    assert retrieve("sync").code == 0
    assert retrieve("sync", "--verify").code == 0
    nothing_is_left(artifacts)


@pytest.mark.parametrize("series", range(20 if NIGHTLY else 1))
def test_syncs_killed_at_random_calls(
    artifacts: Path, source: Path, retrieve: Program, forks: Forks, series: int
) -> None:
    """Between two steps as well: while records are read, encoded, weighed and compared."""
    write_catalog(source, records(1))
    calls = forks.start(BATCH, "sync", call=SMALL, fault=Fault(call=-1)).counted.calls
    place = random.Random(f"calls {SEED} {series}")
    faults = [Fault(call=place.randint(1, calls)) for _ in range(12)]
    killed_again_and_again(artifacts, source, retrieve, forks, faults)


@pytest.mark.parametrize("series", range(20 if NIGHTLY else 1))
def test_syncs_killed_in_the_middle_of_a_write(
    artifacts: Path, source: Path, retrieve: Program, forks: Forks, series: int
) -> None:
    """The kernel ends the process when a file grows beyond a size: what it was writing is there in part."""
    sizes = sorted(size for path in artifacts.rglob("*") if path.is_file() and (size := path.stat().st_size))
    place = random.Random(f"writes {SEED} {series}")
    faults = [Fault(size=place.randint(1, place.choice(sizes))) for _ in range(12)]
    killed_again_and_again(artifacts, source, retrieve, forks, faults)


@pytest.mark.parametrize("step", [12])
def test_a_killed_first_build_goes_on_where_it_was(source: Path, retrieve: Program, forks: Forks, step: int) -> None:
    write_catalog(source, [{"id": f"t{number}", "name": f"tool {number} of its own kind"} for number in range(300)])
    fault = Fault(step=step, within="/cache/")
    assert forks.start(BATCH, "build", "--catalog", source, call=SMALL, fault=fault).wait() == -signal.SIGKILL
    done = retrieve("build", "--catalog", source, "--json").json
    assert (done["records"], done["status"]) == (300, "published")
    assert 0 < done["embedded"] <= 300 - BATCH


@pytest.mark.parametrize("step", [4])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_asked_to_end_it_leaves_no_half_state(
    artifacts: Path, source: Path, retrieve: Program, forks: Forks, number: signal.Signals, code: int, step: int
) -> None:
    before = live(artifacts)
    write_catalog(source, records(1))
    asked = forks.start("sync", fault=Fault(step=step, within=".scratch-", number=number))
    assert asked.wait() == code, asked.err
    assert "the current index is unchanged" in asked.err
    assert live(artifacts) == before
    nothing_is_left(artifacts)
    assert (artifacts / "lock").read_text() == ""
    assert retrieve("query", "lungs").code == 0


# -------------------------------------------------------------------------------------------- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte."""
    yield from mounted(tmp_path / "disk", "1m")


def test_a_disk_that_fills_up_at_any_point(small_disk: Path, source: Path, retrieve: Program) -> None:
    artifacts = small_disk / "artifacts"
    where = ("--artifacts", artifacts)
    assert retrieve("build", "--catalog", source, *where).code == 0
    before = live(artifacts)
    write_catalog(source, records(1))
    ballast = small_disk / "ballast"
    failures = 0
    for left in range(0, 500_000, 20_000):
        ballast.unlink(missing_ok=True)
        room = shutil.disk_usage(small_disk).free
        ballast.write_bytes(b"x" * max(0, room - left))
        done = retrieve("sync", *where, "--json")
        assert done.code in (0, 1), done.err
        if done.code == 0:
            break
        failures += 1
        assert done.json["status"] == "failed"
        assert "No space left on device" in done.err
        assert live(artifacts) == before
        assert retrieve("query", "lungs", *where).code == 0
        assert retrieve("inspect", "verify", *where).code == 0
    assert failures >= 5
    ballast.unlink()
    assert retrieve("sync", *where).code == 0
    assert live(artifacts) != before
    nothing_is_left(artifacts)


def test_files_that_may_not_grow(artifacts: Path, source: Path, retrieve: Program, forks: Forks) -> None:
    before = live(artifacts)
    failures = 0
    for version, limit in enumerate(range(0, 400_000, 20_000), 1):
        write_catalog(source, records(version))
        child = forks.start(limit, "sync", "--json", call="sync.tasks:limited")
        done, code = child.json, child.wait()
        if code == 0:
            break
        failures += 1
        assert (code, done["status"]) == (1, "failed")
        assert "File too large" in done["error"]["message"]
        assert live(artifacts) == before
        assert retrieve("query", "lungs").code == 0
        assert retrieve("inspect", "verify").code == 0
        nothing_is_left(artifacts)
    assert failures > 5
    assert live(artifacts) != before
    nothing_is_left(artifacts)
