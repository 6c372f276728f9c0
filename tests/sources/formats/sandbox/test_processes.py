"""A document is read in another process: its end, whatever the reason, rejects that document and no other."""

import json
import os
import signal
import socket
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sources.formats.sandbox.conftest import ended
from sources.formats.sandbox.odd_parsers import FORBIDDEN, MB, POINT, RICH, framed, reason_of, request, text_of
from waiting import until

from retrieve_cli.assemble.documents import has_networkless_parsers
from retrieve_cli.errors import RetrieveError
from retrieve_cli.sources.formats.processes.pool import ParserPool

OUT_OF_MEMORY = "(out of memory: limit 256 MB); parsing.memory_mb sets the limit"


def test_a_document_arrives_as_its_parser_made_it(pool: ParserPool, tmp_path: Path) -> None:
    assert pool.begin(request(tmp_path, "rich")).result() == RICH


@pytest.mark.parametrize("draws", [False, True], ids=["parsed", "drawn"])
@pytest.mark.parametrize(
    ("do", "argument", "reason"),
    [
        ("kill", signal.SIGSEGV, "the reader ended on page 7 (signal SIGSEGV); a larger parsing.memory_mb may help"),
        ("kill", signal.SIGKILL, "the reader ended on page 7 (signal SIGKILL)"),
        ("exit", 3, "the reader ended on page 7 (exit code 3)"),
        ("eat", 900, f"the reader ended on page 7 {OUT_OF_MEMORY}"),
        ("eat in c", 900, "the reader ended on page 7 (signal SIGSEGV); a larger parsing.memory_mb may help"),
        ("spin", None, "the reader ended on page 7 (more than 0.2 s of CPU time); parsing.cpu_s sets the limit"),
        ("reject", "it is encrypted", "it is encrypted; a hint"),
        ("reject", "\x1b[2Jcleared", "\ufffd[2Jcleared; a hint"),
        ("recurse", None, "it is nested too deeply"),
        ("fail", "no such key", "it cannot be processed (LookupError: no such key); please report it"),
    ],
)
def test_a_document_that_ends_its_reader_is_rejected_with_reason_and_page_and_the_next_one_is_read(
    pool: ParserPool, tmp_path: Path, do: str, argument: object, reason: str, *, draws: bool
) -> None:
    pages = tuple(range(1, 8)) if draws else None
    asked = request(tmp_path, do, argument, page=7, cpu_s=0.2 if do == "spin" else 20)._replace(pages=pages)
    assert reason_of(pool, asked) == reason
    assert text_of(pool, request(tmp_path, "say", "well")) == "well"
    assert pool.begin(request(tmp_path, "say")._replace(pages=(1,))).result() == POINT


FORGED = {
    "too long": framed(b"d", 1 << 30), "a negative size": framed(b"d", -2), "nothing": framed(b""),
    "no form": framed(b"?"), "no document": framed(b"d"), "half a document": framed(b"d\xc0"),
    "a picture": framed(b"d" + POINT), "no reason": framed(b"x"), "other reasons": framed(b'x["a", 1, 2]'),
    "deep reasons": framed(b"x" + b"[" * 100_000), "rows": framed(b"rrows"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORGED)
def test_an_answer_that_a_document_forged_rejects_it_and_its_process_answers_no_more(
    alone: ParserPool, tmp_path: Path, form: str
) -> None:
    reason = reason_of(alone, request(tmp_path, "answer", FORGED[form] + framed(b"d")))
    assert reason.startswith("the reader ended (")
    assert "an answer that makes no sense" in reason or "signal SIGKILL" in reason
    assert text_of(alone, request(tmp_path, "say", "well")) == "well"


def test_a_process_that_is_not_done_in_time_is_ended(pool: ParserPool, tmp_path: Path, monkeypatch) -> None:
    text_of(pool, request(tmp_path, "say"))
    monkeypatch.setattr("retrieve_cli.sources.formats.processes.pool._WALL_PER_CPU", 0)
    monkeypatch.setattr("retrieve_cli.sources.formats.processes.pool._WALL_S", 0.4)
    reason = reason_of(pool, request(tmp_path, "sleep", 100, page=5))
    assert reason == "the reader ended on page 5 (no end within 0 s); parsing.cpu_s sets the limit"
    page = framed(b"p" + bytes(8))
    assert "no end within 0 s" in reason_of(pool, request(tmp_path, "answer", page * 10))


def test_a_process_is_used_for_many_files_until_it_holds_much_memory(alone: ParserPool, tmp_path: Path) -> None:
    first = {text_of(alone, request(tmp_path, "pid")) for _ in range(5)}
    assert len(first) == 1
    assert {text_of(alone, request(tmp_path, "hold", 100))} == first
    assert {text_of(alone, request(tmp_path, "pid"))} != first


def test_all_processes_work_at_the_same_time_and_results_belong_to_their_files(tmp_path: Path, pipe: Path) -> None:
    """The first file waits for the second one's reader, which only another process can be."""
    names = [f"{number}.odd" for number in range(9)]
    asked = [request(tmp_path, "read", str(pipe), name=names[0]), request(tmp_path, "pid", name=names[1])]
    asked += [request(tmp_path, "say", name, name=name) for name in names[2:]]
    with closing(ParserPool(256 * MB, workers=2)) as pool:
        readings = [pool.begin(one) for one in asked]
        assert readings[1].result().text.startswith("pid of 1.odd")
        pipe.write_text("freed")
        assert readings[0].result().text == "read of 0.odd: freed"
        assert [reading.result().text for reading in readings[2:]] == [f"say of {name}: {name}" for name in names[2:]]


def test_a_file_that_changes_or_goes_before_it_is_read_is_rejected(pool: ParserPool, tmp_path: Path) -> None:
    asked = request(tmp_path, "say", "old")
    asked.path.write_text("new")
    assert reason_of(pool, asked) == "it changed while it was read; sync again"
    asked.path.unlink()
    assert reason_of(pool, asked) == "it cannot be read: No such file or directory"


def test_a_file_with_any_name_is_read_with_its_sidecar(pool: ParserPool, tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / os.fsdecode(b"\xff\xfe n\xc3\xa4me")
    folder.mkdir()
    monkeypatch.chdir(folder)
    asked = request(Path(), "say", "x", name=os.fsdecode(b"\xff.odd"))
    (folder / "a.txt").write_text(" and the text beside it")
    assert text_of(pool, asked._replace(sidecar=Path("a.txt"), sidecar_bytes=100)) == "x and the text beside it"


def test_a_process_has_limits_no_secrets_no_terminal_and_prints_nothing(
    alone: ParserPool, tmp_path: Path, monkeypatch, capfd
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert text_of(alone, request(tmp_path, "print", "noise" * 100_000)) == "500000"
    state = json.loads(text_of(alone, request(tmp_path, "state")))
    assert "secret" not in state["environment"].values()
    assert (state["cwd"], state["session"]) == ("/", True)
    assert state["limits"] == {"CORE": 0, "DATA": 256 * MB, "FSIZE": 0, "NPROC": 0}
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("deed", FORBIDDEN)
def test_python_code_reaches_no_network_and_no_program_and_changes_no_file(
    pool: ParserPool, tmp_path: Path, deed: str
) -> None:
    file = tmp_path / "victim"
    file.write_text("as it was")
    said = text_of(pool, request(tmp_path, "attempt", [deed, False, str(file)]))
    assert said.startswith("rejected: PermissionError: a process that reads documents may not do this")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.odd", "victim"]
    assert file.read_text() == "as it was"


def test_native_code_reaches_no_network_and_writes_no_byte(alone: ParserPool, tmp_path: Path) -> None:
    file = tmp_path / "victim"
    file.touch()
    with socket.create_server(("127.0.0.1", 0)) as server:
        connected = text_of(alone, request(tmp_path, "attempt", ["connect", True, str(server.getsockname()[1])]))
    written = text_of(alone, request(tmp_path, "attempt", ["append", True, str(file)]))
    assert written == "rejected: OSError: [Errno 27] File too large"
    if not has_networkless_parsers():
        pytest.skip("this kernel grants no empty network")
    assert connected == "rejected: OSError: [Errno 101] Network is unreachable"


def test_a_closed_pool_has_no_process_and_stops_what_was_waiting(alone: ParserPool, tmp_path: Path) -> None:
    pid = int(text_of(alone, request(tmp_path, "pid")))
    readings = [alone.begin(request(tmp_path, "sleep", 100, name=f"{n}.odd")) for n in range(5)]
    alone.close()
    for reading in readings:
        with pytest.raises(RetrieveError, match="reading was stopped"):
            reading.result()
    until(lambda: ended(pid), "the end of the reader")
    assert text_of(alone, request(tmp_path, "say", "again")) == "again"


def test_no_document_is_rejected_because_no_process_can_be_started(tmp_path: Path, monkeypatch) -> None:
    broken = ParserPool(256 * MB, workers=1)
    for executable in ("/bin/false", "/no/such/program"):
        monkeypatch.setattr(sys, "executable", executable)
        with pytest.raises(RetrieveError, match="no process that reads documents can be started") as raised:
            broken.begin(request(tmp_path, "say")).result()
        assert raised.value.kind == "error"
