"""A build goes on whatever a document does to its parser, and leaves no process behind however it ends."""

import json
import os
import signal
from pathlib import Path

import pytest
from samples import Program
from sources.formats.sandbox.conftest import children, ended, start
from sources.formats.sandbox.odd_parsers import write
from waiting import PATIENCE_S, until

from retrieve_cli.sources.formats import formats

LENIENT = ("--max-fail", "100")
ONE = {"RETRIEVE_PARSING__WORKERS": "1"}


def rejected() -> dict[str, str]:
    """Return the reasons of the quarantine file by the name of the file."""
    lines = Path("artifacts/quarantine.jsonl").read_text().splitlines()
    return {value["source"]: value["reason"] for value in map(json.loads, lines)}


@pytest.fixture
def odd(retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program in this process, with a parser that does what a file says."""
    parser = formats.FORMATS["rst"]._replace(module="sources.formats.sandbox.odd_parsers", distributions=())
    monkeypatch.setitem(formats.FORMATS, "rst", parser)
    return retrieve


def test_documents_that_end_their_readers_are_rejected_and_the_others_are_indexed(
    odd: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = Path("docs")
    for number in range(12):
        write(docs, f"{number:02}.rst", "say", f"lungs {number}")
    write(docs, "03-a.rst", "kill", int(signal.SIGSEGV), page=12)
    write(docs, "05-a.rst", "spin", page=2)
    write(docs, "07-a.rst", "eat", 2000, page=7)
    write(docs, "09-a.rst", "reject", "it is encrypted")
    monkeypatch.setenv("RETRIEVE_PARSING__CPU_S", "1")
    monkeypatch.setenv("RETRIEVE_PARSING__MEMORY_MB", "300")
    done = odd("build", "--docs-dir", docs, *LENIENT)
    assert done.code == 8, done.err
    assert rejected() == {
        "03-a.rst": "the reader ended on page 12 (signal SIGSEGV); a larger parsing.memory_mb may help",
        "05-a.rst": "the reader ended on page 2 (more than 1 s of CPU time); parsing.cpu_s sets the limit",
        "07-a.rst": "the reader ended on page 7 (out of memory: limit 300 MB); parsing.memory_mb sets the limit",
        "09-a.rst": "it is encrypted; a hint",
    }
    out = odd("inspect", "records", "--json", "--limit", "0").out
    assert [out.count(f'"{number:02}.rst"') > 0 for number in range(12)] == [True] * 12


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_the_end_of_a_build_ends_its_readers_at_once(pipe: Path, number: signal.Signals, code: int) -> None:
    docs = Path("docs")
    write(docs, "a.rst", "read", str(pipe))
    built = start("build", "--docs-dir", docs, **ONE)
    with pipe.open("w"):
        (child,) = children(built.pid)
        built.send_signal(number)
        _, err = built.communicate(timeout=PATIENCE_S)
        until(lambda: ended(child), "the end of the reader")
    assert built.returncode == code, err
    assert not Path("artifacts/current").exists()
    if number != signal.SIGKILL:
        assert "interrupted" in err or "ended" in err or "terminated" in err


def test_a_pipe_a_link_and_a_device_named_as_documents_are_not_waited_for(retrieve) -> None:
    docs = Path("docs")
    write(docs, "a.md", "say")
    os.mkfifo(docs / "pipe.pdf")
    (docs / "zero.pdf").symlink_to("/dev/zero")
    done = retrieve("build", "--docs-dir", docs, *LENIENT)
    assert done.code == 8
    assert rejected() == {"pipe.pdf": "it cannot be read: it is a named pipe, not a regular file"}
    assert "symbolic link (zero.pdf)" in done.err
    Path("following.yaml").write_text("docs: {follow_links: true}\n")
    done = retrieve("build", "--docs-dir", docs, *LENIENT, "--config", "following.yaml")
    assert rejected()["zero.pdf"] == "it cannot be read: it is a device, not a regular file"


def test_every_key_of_parsing_reaches_the_parsers(odd: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    write(Path("docs"), "a.rst", "limits")
    write(Path("docs"), "b.rst", "say", "x" * 30_000)
    for key, value in {"MAX_MB": "0.02", "MEMORY_MB": "400", "CPU_S": "11"}.items():
        monkeypatch.setenv(f"RETRIEVE_PARSING__{key}", value)
    odd("build", "--docs-dir", "docs", *LENIENT)
    (records,) = Path("artifacts/generations").glob("*/chunks.jsonl")
    limits = json.loads(json.loads(records.read_text().splitlines()[0])["text"])
    assert limits.items() >= {"max_bytes": 20971, "memory_bytes": 400 << 20, "cpu_s": 11.0}.items()
    assert list(rejected()) == ["b.rst"]
