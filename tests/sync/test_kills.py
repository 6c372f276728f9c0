"""Killed anywhere, or on a full disk: the live index answers as before or as after, and the next sync succeeds."""

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from samples import Program, write_catalog
from sync.state import Start, live, records, summary, versions

from retrieve_cli.storage.store import Store

COUNTING = """
import os, signal, sys
last, seen = int(sys.argv[1]), 0
changing = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree", "fcntl.flock"}
def hook(event, arguments):
    global seen
    if event in changing or (event == "open" and isinstance(arguments[2], int) and arguments[2] & 3):
        seen += 1
        if seen == last:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
from retrieve_cli.cli.main import main
code = main(sys.argv[2:])
print("events", seen)
sys.exit(code)
"""
"""The program, killed just before the n-th thing that it does to the disk."""


def events(process: "subprocess.Popen[str]") -> int:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return int(out.split()[-1])


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
    """No scratch folder, no half-written file."""
    assert not list(artifacts.rglob(".*"))
    assert not list(artifacts.rglob("*.new"))


def test_a_sync_killed_before_any_of_its_steps(
    artifacts: Path, source: Path, retrieve: Program, start: Start, tmp_path: Path
) -> None:
    write_catalog(source, records(1))
    steps = events(start(0, "sync", "--json", script=COUNTING))
    assert steps > 25
    for version, step in enumerate(range(1, steps + 1), 2):
        before = live(artifacts)
        write_catalog(source, records(version))
        after = retrieve("build", "--catalog", source, "--artifacts", tmp_path / "fresh", "--json").json["generation"]
        killed = start(step, "sync", script=COUNTING)
        killed.communicate(timeout=120)
        assert killed.returncode == -signal.SIGKILL
        holds(retrieve, artifacts, {before, after})
        assert retrieve("sync").code == 0
        assert live(artifacts) == after
        nothing_is_left(artifacts)
        assert len(Store(artifacts).kept()) <= 3


def test_a_first_build_killed_before_any_of_its_steps(
    source: Path, retrieve: Program, start: Start, tmp_path: Path
) -> None:
    artifacts = tmp_path / "artifacts"
    after = retrieve("build", "--catalog", source, "--artifacts", tmp_path / "fresh", "--json").json["generation"]
    steps = events(start(0, "build", "--catalog", source, script=COUNTING))
    for step in range(1, steps + 1, 2):
        shutil.rmtree(artifacts)
        killed = start(step, "build", "--catalog", source, script=COUNTING)
        killed.communicate(timeout=120)
        assert killed.returncode == -signal.SIGKILL
        holds(retrieve, artifacts, {None, after})
        assert retrieve("build", "--catalog", source).code == 0
        assert live(artifacts) == after
        nothing_is_left(artifacts)


def test_a_sync_killed_at_random_moments(artifacts: Path, source: Path, retrieve: Program, start: Start) -> None:
    clock = random.Random(0)
    write_catalog(source, records(1, 3000))
    begun = time.monotonic()
    assert summary(start("sync", "--json"))["status"] == "published"
    usual = time.monotonic() - begun
    for version in range(2, 52):
        before = live(artifacts)
        write_catalog(source, records(version, 3000))
        process = start("sync")
        time.sleep(clock.uniform(0.2, 1.0) * usual)
        process.kill()
        process.communicate()
        after = live(artifacts)
        holds(retrieve, artifacts, {before, after})
    assert retrieve("sync").code == 0
    assert retrieve("sync", "--verify").code == 0
    nothing_is_left(artifacts)


def test_a_killed_first_build_goes_on_where_it_was(
    source: Path, retrieve: Program, start: Start, tmp_path: Path
) -> None:
    many = [{"id": f"t{number}", "name": f"tool {number} of its own kind"} for number in range(9000)]
    write_catalog(source, many)
    process = start("build", "--catalog", source)
    cache = tmp_path / "artifacts" / "cache"
    while not list(cache.glob("*.embeddings/[0-9a-f]*.pkl")):
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.communicate()
    done = retrieve("build", "--catalog", source, "--json").json
    assert (done["records"], done["status"]) == (9000, "published")
    assert 0 < done["embedded"] <= 9000 - 2048


INTERRUPTIBLE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from retrieve_cli.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The program, heeding interruptions even where these tests run in the background."""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_asked_to_end_it_leaves_no_half_state(
    artifacts: Path, source: Path, retrieve: Program, start: Start, number: signal.Signals, code: int
) -> None:
    before = live(artifacts)
    write_catalog(source, [{"id": f"t{n}", "name": f"tool {n} " * 30} for n in range(4000)])
    process = start("sync", script=INTERRUPTIBLE)
    while not list((artifacts / "generations").glob(".scratch-*/chunks.jsonl")):
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert "the live index is as it was" in err
    assert live(artifacts) == before
    nothing_is_left(artifacts)
    assert (artifacts / "lock").read_text() == ""
    assert retrieve("query", "lungs").code == 0


# -------------------------------------------------------------------------------------------- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte; skipped where the test may not mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "small", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


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


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), -1))
from retrieve_cli.cli.main import main
sys.exit(main(sys.argv[2:]))
"""
"""The program, none of whose files may grow beyond a size."""


def test_files_that_may_not_grow(artifacts: Path, source: Path, retrieve: Program, start: Start) -> None:
    before = live(artifacts)
    failures = 0
    for version, limit in enumerate(range(0, 400_000, 10_000), 1):
        write_catalog(source, records(version))
        process = start(limit, "sync", "--json", script=LIMITED)
        done, code = summary(process), process.returncode
        if code == 0:
            break
        failures += 1
        assert (code, done["status"]) == (1, "failed")
        assert "File too large" in done["error"]
        assert live(artifacts) == before
        assert retrieve("query", "lungs").code == 0
        assert retrieve("inspect", "verify").code == 0
        nothing_is_left(artifacts)
    assert failures > 5
    assert live(artifacts) != before
    nothing_is_left(artifacts)
