"""A named pipe, a device or a folder in the place of any file of the artifacts folder: a code, and no waiting."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from samples import TOOLS, Program, write_catalog
from stalls import ending
from sync.state import live

COMMANDS = (
    ("query", "lungs"),
    ("query", "lungs", "--deadline-ms", "5000", "--save-run"),
    ("inspect", "status"),
    ("inspect", "verify"),
    ("inspect", "history"),
    ("doctor",),
    ("sync",),
    ("build", "--catalog", "tools.jsonl"),
)
KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "zeros": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
}


@pytest.fixture
def used(index: Path, retrieve: Program) -> Path:
    """An index that was synced, asked and logged: every file that an artifacts folder has."""
    write_catalog(Path("tools.jsonl"), [*TOOLS, {"id": "new", "name": "Denoise", "description": "Less noise."}])
    Path("config.yaml").write_text("log: {queries: true}\n")
    assert retrieve("sync").code == 0
    assert retrieve("query", "lungs", "--save-run", "--deadline-ms", "5000").code == 0
    (index / "calibration.json").write_text('{"schema_version": 1, "calibrations": []}')
    return index


def places(artifacts: Path) -> list[str]:
    files = (path for path in artifacts.rglob("*") if path.is_file())
    names = sorted(str(path.relative_to(artifacts)) for path in files)
    return [*names, ".current.new", ".quarantine.jsonl.new"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_command_waits_for_what_is_not_a_regular_file(
    used: Path, retrieve: Program, kind: str, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(used, whole)
    current = f"generations/{live(used)}/"
    for number, name in enumerate(places(whole)):
        for command in COMMANDS if name.startswith(current) else COMMANDS[number % 2 :: 2]:
            shutil.rmtree(used)
            shutil.copytree(whole, used)
            (used / name).unlink(missing_ok=True)
            KINDS[kind](used / name)
            with ending(waiting=True):
                done = retrieve(*command)
            assert done.code in (0, 1, 2, 5), (name, command, done)
            assert "this is a bug" not in done.err, (name, command, done.err)
            if command[0] == "query" and name in (f"{current}manifest.json", f"{current}dense.faiss", "current"):
                assert done.code == 5, (name, command, done)


def test_the_program_mends_its_index_whatever_stands_in_place_of_a_file(used: Path, retrieve: Program) -> None:
    for name in ("manifest.json", "bm25.pkl"):
        path = used / "generations" / live(used) / name
        path.unlink()
        os.mkfifo(path)
        with ending(waiting=True):
            assert retrieve("build", "--catalog", "tools.jsonl").code == 0
            assert retrieve("query", "lungs").code == 0


@pytest.mark.parametrize("name", ["lock", ".current.new", ".quarantine.jsonl.new", "runs/queries.jsonl"])
def test_nothing_is_written_through_a_link_that_an_index_from_somebody_else_holds(
    used: Path, retrieve: Program, name: str
) -> None:
    victim = Path("victim")
    victim.write_text("precious")
    (used / name).unlink(missing_ok=True)
    (used / name).symlink_to(victim.resolve())
    with ending(waiting=True):
        for command in COMMANDS:
            done = retrieve(*command)
            assert "this is a bug" not in done.err, done.err
    assert victim.read_text() == "precious"
    assert retrieve("query", "lungs").code == 0
