"""Long work says how far it is: bars on a terminal, lines elsewhere, nothing where nobody wants to read them."""

import errno
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from progress_samples import counts, start, texts, use
from samples import ROOT, TOOLS, Program, write_catalog
from splade_models import save_masked
from waiting import PATIENCE_S

from retrieve_cli.cli import progress
from retrieve_cli.contracts.progress import seconds_left

COUNT = 60


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_masked(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def model(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small model that encodes."""
    use(tiny, monkeypatch)
    return tiny


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_catalog(tmp_path / "tools.jsonl", texts(COUNT))


@pytest.fixture
def built(source: Path, retrieve: Program) -> Path:
    """That catalog, indexed."""
    assert retrieve("build", "--catalog", source).code == 0
    return source


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    lines = [{"query": f"segment lungs {number}", "relevant": [f"t{number}"]} for number in range(40)]
    return write_catalog(tmp_path / "gold.jsonl", lines)


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for every count."""
    monkeypatch.setattr(progress, "INTERVAL", 0.0)


def grows(found: list[tuple[int, int]], total: int) -> None:
    done = [count for count, _ in found]
    assert done == sorted(done)
    assert len(set(done)) > 2
    assert found[-1] == (total, total)


# ------------------------------------------------------------------------------------------------------- lines


def test_a_build_counts_records_and_chunks_up_to_totals_that_are_known_from_the_start(
    model: Path, source: Path, retrieve: Program
) -> None:
    said = retrieve("build", "--catalog", source).err
    grows(counts(said, "reading tools.jsonl"), COUNT)
    encoded = counts(said, "encoding")
    grows(encoded, COUNT)
    assert {total for _, total in encoded} == {COUNT}
    assert len(encoded) > 30, "the texts of one batch are counted one by one"


def test_a_sync_that_is_asked_to_talk_counts_and_verifies(model: Path, built: Path, retrieve: Program) -> None:
    write_catalog(built, texts(COUNT + 5))
    assert retrieve("sync").err == ""
    write_catalog(built, texts(COUNT + 10))
    said = retrieve("sync", "-v", "--verify").err
    assert counts(said, "comparing tools.jsonl")[-1] == (COUNT + 10, COUNT + 10)
    assert {total for _, total in counts(said, "encoding")} == {5, COUNT + 10}, "the change, and then all of it"
    assert "verifying the index: " in said


@given(st.lists(st.tuples(st.integers(1, 400), st.floats(1.0, 3.0)), min_size=1, max_size=60), st.floats(0.0, 60.0))
def test_an_estimate_of_time_comes_after_two_seconds_and_is_at_most_three_times_the_truth(
    steps: list[tuple[int, float]], loading: float
) -> None:
    """Each step is a size and how many times longer than alone it takes on a busy machine; the longest come first."""
    steps = sorted(steps, reverse=True)
    moments = [(loading, 0)]
    for size, slowness in steps:
        time, done = moments[-1]
        moments.append((time + size * slowness / 100, done + size))
    whole, end = moments[-1][1], moments[-1][0]
    for last in range(2, len(moments)):
        left, now = seconds_left(moments[1 : last + 1], whole), moments[last][0]
        if now - moments[1][0] < 2.0:
            assert left is None
        else:
            assert left is not None
            assert left <= 3.0 * (end - now) + 1e-6


def test_an_evaluation_counts_its_runs_and_their_queries(built: Path, gold: Path, retrieve: Program) -> None:
    said = retrieve("eval", "--gold", gold).err
    grows(counts(said, "searching"), 40)
    grows(counts(said, "timing"), 40)
    said = retrieve("eval", "--gold", gold, "--with", "fusion.method=rrf").err
    for name in (r"run 1 of 2 \(as configured\)", r"run 2 of 2 \(fusion.method=rrf\)"):
        grows(counts(said, f"{name}, searching"), 40)


@pytest.mark.parametrize("flag", ["--json", "-q"])
def test_programs_and_those_who_want_quiet_are_told_nothing(
    source: Path, gold: Path, retrieve: Program, flag: str
) -> None:
    assert retrieve("build", "--catalog", source, flag).err == ""
    assert retrieve("eval", "--gold", gold, flag).err == ""


def test_a_build_on_a_pipe_never_loads_rich(catalog: Path) -> None:
    code = (
        "import sys; from retrieve_cli.cli import progress; progress.INTERVAL = 0.0\n"
        "from retrieve_cli.cli.main import main\n"
        f"assert main(['build', '--catalog', {str(catalog)!r}]) == 0\n"
        "assert not [name for name in sys.modules if name.split('.')[0] == 'rich']"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "reading tools.jsonl: 5 of 5 records" in done.stderr


# ---------------------------------------------------------------------------------------------------- terminals


def shown(terminal: int) -> Iterator[str]:
    """What a process writes to a terminal until it ends."""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError as error:
            if error.errno == errno.EIO:
                return
            raise
        if not piece:
            return
        yield piece.decode("utf-8", "replace")


def on_terminal(pause: float, *arguments: object) -> tuple[str, str]:
    """What a run shows on a terminal, and what it prints on stdout, which is none."""
    terminal, end = pty.openpty()
    environment = {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    running = start(pause, *arguments, stderr=end, environment=environment)
    os.close(end)
    seen = "".join(shown(terminal))
    os.close(terminal)
    out, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, seen
    return seen, out.decode()


def uncoloured(seen: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", seen)


def test_on_a_terminal_a_bar_grows_to_its_total_and_is_removed(model: Path, source: Path, gold: Path) -> None:
    seen, out = on_terminal(0.05, "build", "--catalog", source)
    found = re.findall(rf"encoding [^\r\n]*?(\d+)/({COUNT}) chunks", uncoloured(seen))
    grows([(int(done), int(total)) for done, total in found], COUNT)
    assert re.search(r"\d/s .*\d:\d\d left", seen)
    assert "━" in seen
    assert re.search(r"\r\x1b\[2K\x1b\[\?25h\r[^━]*$", seen), "no bar is left, and the cursor is shown"
    assert out.count("\n") == 1
    seen, out = on_terminal(0.02, "eval", "--gold", gold)
    assert re.search(r"timing [^\r\n]*?40/40", uncoloured(seen))
    assert out.startswith("metric")


# --------------------------------------------------------------------------------------------------------- tasks


def test_names_from_outside_do_not_drive_the_terminal(retrieve: Program) -> None:
    assert retrieve("build", "--catalog", write_catalog(Path("a\x1b[2Jb.jsonl"), TOOLS)).err.count("\x1b") == 0
