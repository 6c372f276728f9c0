"""`retrieve query - --stream`: each line is answered as it arrives, in order, whatever the others are."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from program.asking import indexed, refused
from samples import TOOLS, Program
from waiting import PATIENCE_S

Stdin = Callable[[str | bytes], None]


class Stream:
    """A running `retrieve query - --stream --json`, line by line."""

    def __init__(self, *words: str) -> None:
        command = [sys.executable, "-m", "retrieve_cli", "query", "-", "--stream", "--json", "-k", "2", *words]
        pipe = subprocess.PIPE
        heeded = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job would ignore
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(os.environ))
        signal.signal(signal.SIGINT, heeded)
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def ask(self, line: str) -> Any:
        """Send a line and read the line that answers it, while stdin stays open."""
        self.stdin.write(line.encode() + b"\n")
        self.stdin.flush()
        ready, _, _ = select.select([self.stdout], [], [], PATIENCE_S)
        assert ready, "no answer while stdin is open"
        return json.loads(self.stdout.readline())

    def end(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, errors.decode()


@pytest.fixture
def stream(index: Path) -> Iterator[Stream]:
    running = Stream()
    yield running
    running.process.kill()
    running.process.communicate()


def test_each_line_is_answered_before_the_next_is_written(stream: Stream) -> None:
    assert stream.ask("brain")["query_id"] == "1"
    assert stream.ask('{"id": "q2", "query": "cells"}')["results"][0]["doc_id"] == "cells"
    assert stream.end() == (0, "")


def test_a_bad_line_is_answered_by_its_error_and_the_stream_goes_on(stream: Stream) -> None:
    assert stream.ask("{oops")["error"]["kind"] == "usage"
    bad = stream.ask('{"id": "x", "query": "cells", "filters": ["licence=MIT"]}')
    assert (bad["query_id"], "license" in bad["error"]["hint"]) == ("x", True)
    assert stream.ask("cells")["results"]
    assert stream.end() == (8, "")


def test_a_line_too_long_is_named_and_not_kept(stream: Stream) -> None:
    assert "longer than 1 MB" in stream.ask("y" * 3_000_000)["error"]["message"]
    assert stream.ask("cells")["query_id"] == "2"
    assert stream.end() == (8, "")


def test_an_interruption_ends_a_stream_without_a_word(stream: Stream) -> None:
    stream.ask("brain")
    stream.process.send_signal(signal.SIGINT)
    assert stream.end() == (130, "")


def test_a_line_is_answered_from_the_generation_that_is_current_then(stream: Stream, retrieve: Program) -> None:
    before = stream.ask("zebrafish embryos")
    added = {"id": "zebra", "name": "ZebraTrack", "description": "Tracks zebrafish embryos."}
    indexed(retrieve, [*TOOLS, added])
    after = stream.ask("zebrafish embryos")
    assert before["generation"] != after["generation"]
    assert after["results"][0]["doc_id"] == "zebra"
    assert stream.end() == (0, "")


def test_a_stream_answers_as_a_batch_does_and_jsonl_is_json(index: Path, retrieve: Program, stdin: Stdin) -> None:
    lines = 'brain\n{"query": "cells", "filters": ["license=MIT"]}\n{\n\nlungs\n'
    outputs = []
    for words in (["-", "--json"], ["-", "--format", "jsonl"], ["-", "--stream", "--json"], ["--stream", "--json"]):
        stdin(lines)
        done = retrieve("query", *words)
        assert done.code == 8
        outputs.append([{**json.loads(line), "timings_ms": None} for line in done.out.splitlines()])
    assert [answer.get("query") for answer in outputs[0]] == ["brain", "cells", None, "lungs"]
    assert all(output == outputs[0] for output in outputs)


@pytest.mark.parametrize("words", [["-"], ["-", "--stream"]], ids=str)
def test_an_error_of_the_flags_ends_the_command_and_no_line_is_answered(
    index: Path, retrieve: Program, stdin: Stdin, words: list[str]
) -> None:
    for flags in (["--filter", "licence=MIT"], ["--doc-id", "lung"], ["-k", "0"]):
        stdin("brain\ncells\n")
        assert json.loads(refused(retrieve, "query", *words, "--json", *flags))["error"]["code"] == 2


def test_a_stream_of_a_folder_needs_no_index(retrieve: Program, stdin: Stdin) -> None:
    Path("notes").mkdir()
    Path("notes/lungs.md").write_text("# Lungs\n\nSegments lungs.\n")
    stdin("lungs\nsegments\n")
    done = retrieve("query", "--docs-dir", "notes", "--stream", "-l")
    assert (done.code, done.out) == (0, "lungs.md\nlungs.md\n")


def test_exit_codes_of_a_stream_are_those_of_all_its_answers(
    index: Path, catalog: Path, retrieve: Program, stdin: Stdin
) -> None:
    for lines, code in (("zzz\nbrain\n", 0), ("zzz\nyyy\n", 3)):
        stdin(lines)
        assert retrieve("query", "--stream", "--mode", "bm25", "--exit-status").code == code
    catalog.write_text(catalog.read_text().replace("brain MRI", "brain CT"))
    stdin("brain\nzzz\n")
    assert retrieve("query", "--stream", "--mode", "bm25", "--strict-fresh").code == 10
