"""`retrieve query` answered by the warm process: the same bytes and exit codes as without it."""

import os
import pty
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from samples import TOOLS, write_catalog
from warm_samples import Warm, command, lines, start

COMMANDS: list[list[str]] = [
    ["segment lungs"],
    ["segment lungs", "--json"],
    ["segment lungs", "--format", "jsonl"],
    ["segment lungs", "--format", "table"],
    ["segment lungs", "--format", "csv"],
    ["segment lungs", "--format", "md"],
    ["segment lungs", "--format", "trec"],
    ["segment lungs", "--format", "prompt", "--max-tokens", "40"],
    ["segment lungs", "--format", "prompt-table"],
    ["segment lungs", "-l"],
    ["segment lungs", "--explain"],
    ["segment lungs", "--color", "always", "-k", "2"],
    ["segment lungs", "--format", "table", "--color", "always"],
    ["brain", "--mode", "bm25", "--filter", "license=MIT", "--json"],
    ["brain", "--retrievers", "bm25,dense", "--no-rerank", "--no-expand"],
    ["zzz", "--mode", "bm25", "--exit-status"],
    ["zzz", "--mode", "bm25"],
    ["brain", "-v"],
    ["brain", "--save-run"],
    ["brain", "--deadline-ms", "5000", "--json"],
    ["brain", "-k", "0"],
    ["brain", "--filter", "licence=MIT"],
    ["brain", "--filter", "licence=MIT", "--json"],
    ["brain", "--modee", "bm25"],
    ["brain", "--config", "nowhere.yaml"],
    ["brain", "--mode", "splade"],
    ["brain", "--docs-dir", "."],
    ["--help"],
    [],
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """One warm process for all commands that change nothing."""
    folder = tmp_path_factory.mktemp("warm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        write_catalog(folder / "tools.jsonl", TOOLS)
        assert command("build", "--catalog", "tools.jsonl", folder=folder).code == 0
        process = Warm(folder)
    yield process
    process.end()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_leaves_the_same_either_way(shared: Warm, words: list[str]) -> None:
    warm, cold = shared.both("query", *words)
    assert warm == cold
    assert cold.code != 1


@pytest.mark.parametrize("words", [["-"], ["-", "--json"], ["-", "--stream", "--json"], ["--stream", "--format", "md"]])
def test_a_batch_and_a_stream_leave_the_same_either_way(shared: Warm, words: list[str]) -> None:
    queries = lines("brain", {"id": "q2", "query": "cells", "filters": ["license=MIT"]}, "{oops", "lungs")
    warm, cold = shared.both("query", *words, stdin=queries)
    assert warm == cold
    assert cold.code == 8


def test_the_alias_and_the_variables_of_the_caller_count(shared: Warm) -> None:
    warm, cold = shared.both("search", "brain", "--json", env={"RETRIEVE_SEARCH__K": "1", "NO_COLOR": "1"})
    assert warm == cold
    assert len(cold.json["results"]) == 1


def test_a_configuration_counts_as_it_is_now_and_where_the_caller_is(shared: Warm, tmp_path: Path) -> None:
    artifacts = shared.folder / "artifacts"
    for text in ("search: {k: 1}", "search: {k: 3}", "search: {kk: 3}", "dense: {search: exact}", "bm25: {k1: 2}"):
        (tmp_path / "config.yaml").write_text(text)
        here = Warm.__new__(Warm)
        here.folder = tmp_path
        warm, cold = here.both("query", "brain", "--artifacts", artifacts, "--json")
        assert warm == cold


def test_bytes_that_are_no_text_and_closed_streams_do_no_harm(shared: Warm) -> None:
    for script in ('"$@" 0<&-', '"$@" 1>&-', '"$@" 2>&-', '"$@" >/dev/full', '"$@" | head -c 10'):
        for words in (["brain\udcff"], ["-"], ["brain", "-k", "0"]):
            outcomes = []
            for warm in (True, False):
                process = start("query", *words, warm=warm, folder=shared.folder)
                arguments: Any = process.args
                process.kill()
                process.communicate()
                env = dict(os.environ) if warm else {**os.environ, "RETRIEVE_QUERY__SERVER": "never"}
                shell = ["bash", "-c", script, "bash", *map(os.fsencode, arguments)]
                done = subprocess.run(shell, input=b"cells\n", cwd=shared.folder, env=env, capture_output=True)
                outcomes.append((done.returncode, done.stdout, done.stderr))
            assert outcomes[0] == outcomes[1], (script, words)


@pytest.mark.parametrize("words", [[], ["--format", "table"], ["--explain", "-k", "1"]], ids=" ".join)
def test_a_terminal_is_found_and_styled_by_the_answering_process(shared: Warm, words: list[str]) -> None:
    seen = []
    for warm in (True, False):
        ours, theirs = pty.openpty()
        process = start("query", "brain", *words, warm=warm, folder=shared.folder, stdout=theirs, env={"TERM": "xterm"})
        os.close(theirs)
        text = b""
        try:
            while piece := os.read(ours, 4096):
                text += piece
        except OSError:  # the end of a terminal
            pass
        process.communicate()
        os.close(ours)
        assert process.returncode == 0
        seen.append(text)
    assert seen[0] == seen[1]
    assert b"\x1b[" in seen[0]


def test_a_folder_of_a_long_name_has_a_warm_process(shared: Warm, tmp_path: Path, warm_of) -> None:
    long = tmp_path / ("x" * 80) / ("y" * 80)
    shutil.copytree(shared.folder / "artifacts", long / "artifacts", ignore=shutil.ignore_patterns("serve-*"))
    for folder, artifacts in ((tmp_path, long / "artifacts"), (long, Path("artifacts"))):
        process = warm_of(folder, "--artifacts", artifacts)
        warm, cold = process.both("query", "brain", "--artifacts", artifacts)
        assert warm == cold
        process.end()
