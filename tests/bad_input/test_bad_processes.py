"""What needs a process: two writers, death in the middle, closed and full streams, full and read-only disks."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bad_input.speech import said, shell, unforeseen
from samples import Program
from sync.state import mounted


@pytest.mark.parametrize(
    "line",
    [
        "retrieve query lungs | true", "retrieve query lungs --json | true", "retrieve query lungs 2>&1 | true",
        "retrieve inspect status | true", "retrieve inspect records | head -1", "retrieve --help | true",
        "retrieve query --help | true", "retrieve build --catalog tools.jsonl | true",
        "retrieve query - --json < many | head -1", "retrieve query - < many | head -1",
        "retrieve query - --format trec < many | head -1",
    ],
)  # fmt: skip
def test_a_reader_that_has_seen_enough_ends_the_program_quietly(index: Path, line: str) -> None:
    Path("many").write_text("lungs\n" * 400)
    done = shell(line)
    assert done.code == 0, done
    assert "rror" not in done.err


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("retrieve query - <&-", 2), ("retrieve query - --json <&-", 2), ("retrieve query lungs <&-", 0),
        ("retrieve query lungs >&-", (0, 1)), ("retrieve query lungs 2>&-", 0),
        ("retrieve query lungs >&- 2>&-", (0, 1)),
        ("retrieve build --catalog tools.jsonl 2>&-", 0), ("retrieve query '' 2>&-", 2),
        ("retrieve --help >&-", (0, 1)),
    ],
)  # fmt: skip
def test_a_stream_that_is_closed_is_no_accident(index: Path, line: str, code: int | tuple[int, ...]) -> None:
    done = shell(line)
    assert not unforeseen(done.out + done.err), done
    assert done.code in (code if isinstance(code, tuple) else (code,)), done
    assert "error:" not in done.out, "stdout carries data only"


@pytest.mark.parametrize("words", ["query lungs", "query lungs --json", "inspect status", "--help"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_output_that_cannot_be_written_is_an_error(index: Path, words: str) -> None:
    done = shell(f"retrieve {words} > /dev/full")
    assert done.code == 1
    assert "No space left" in done.err
    assert not unforeseen(done.err)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes of its own."""
    yield from mounted(tmp_path / "disk", "2m")


def test_a_disk_without_a_byte_left_still_answers(disk: Path, catalog: Path, retrieve: Program) -> None:
    assert retrieve("build", "--catalog", catalog, "--artifacts", disk / "a").code == 0
    with (disk / "fill").open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    said(retrieve("build", "--catalog", catalog, "--artifacts", disk / "a"), 1)
    assert retrieve("query", "lungs", "--artifacts", disk / "a", "-l").out.startswith("lungs")


def test_a_disk_that_is_read_only_answers_and_does_not_build(disk: Path, catalog: Path, retrieve: Program) -> None:
    assert retrieve("build", "--catalog", catalog, "--artifacts", disk / "a").code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, capture_output=True)
    assert retrieve("query", "lungs", "--artifacts", disk / "a", "-l").out.startswith("lungs")
    assert retrieve("inspect", "verify", "--artifacts", disk / "a").code == 0
    assert "--artifacts" in said(retrieve("build", "--catalog", catalog, "--artifacts", disk / "a"), 1)
