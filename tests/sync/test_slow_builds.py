"""A build that will take more than two minutes says so, with the files that most of its text is in."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from samples import Program

from retrieve_cli.contracts.progress import Task
from retrieve_cli.ingest import encoding_queue
from retrieve_cli.ingest.embedding import VectorEncoding
from retrieve_cli.ingest.report import slow


def test_the_largest_files_and_their_share_are_named() -> None:
    files = Counter(
        {f"small{number}.md": 10 for number in range(46)} | {f"large{number}.pdf": 90 for number in range(6)}
    )
    said = slow(400, files)
    assert said.startswith(
        "embedding takes about 7 minutes; 6 files of 52 are 54 % of the text (large0.pdf 9 %, large1"
    )
    assert slow(130, Counter({"tools.jsonl": 5})) == "embedding takes about 2 minutes"


@pytest.mark.parametrize(("speed", "told"), [(0.01, 1), (100.0, 0)])
def test_a_slow_build_is_told_once_when_its_speed_is_known(
    tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, speed: float, told: int
) -> None:
    """The speed is set by the clock of the task: `speed` texts a second."""

    def encode(self: VectorEncoding, keys: Sequence[bytes], texts: Sequence[str], task: Task) -> None:
        for number in range(1, len(keys) + 1):
            task.began = encoding_queue.time.monotonic() - max(number / speed, encoding_queue._MEASURED_S)
            task.advance()
        real(self, keys, texts, Task("encoding", "chunks"))

    real = VectorEncoding.encode
    monkeypatch.setattr(VectorEncoding, "encode", encode)
    (tmp_path / "docs").mkdir()
    for number in range(4):
        (tmp_path / "docs" / f"{number}.md").write_text("zebras and lions " * (number + 1))
    done = retrieve("build", "docs")
    assert done.code == 0
    assert done.err.count("embedding takes about") == told
    assert ("4 files of 4 are 100 % of the text (3.md 40 %" in done.err) is bool(told)
