"""A document is parsed in another process: its end, whatever the reason, rejects that document and no other."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sources.formats.sandbox.asking import MB, answer, reason_of, request, text_of
from sources.formats.sandbox.builds import ended, heeding_interrupts
from sources.formats.sandbox.odd_parsers import RICH
from waiting import PATIENCE_S, until

from retrieve_cli.errors import RetrieveError
from retrieve_cli.sources.formats.processes import messages
from retrieve_cli.sources.formats.processes.pool import ParserPool


def test_a_document_arrives_as_its_parser_made_it(pool: ParserPool, tmp_path: Path) -> None:
    assert pool.begin(request(tmp_path, "rich")).result() == RICH


@pytest.mark.parametrize(
    ("do", "argument", "page", "reason"),
    [
        ("kill", signal.SIGSEGV, 12, "the reader ended on page 12 (signal SIGSEGV)"),
        ("kill", signal.SIGKILL, 3, "the reader ended on page 3 (signal SIGKILL)"),
        ("abort", "free(): invalid pointer", 2, "the reader ended on page 2 (signal SIGABRT: free(): invalid pointer)"),
        ("exit", 3, 0, "the reader ended (exit code 3)"),
        ("eat", 900, 7, "the reader ended on page 7 (out of memory: limit 256 MB); parsing.memory_mb sets the limit"),
        ("eat in c", 900, 8,
         "the reader ended on page 8 (out of memory: limit 256 MB); parsing.memory_mb sets the limit"),
        ("reject", "it is encrypted", 0, "it is encrypted; a hint"),
        ("reject", "\x1b[2Jcleared", 0, "\ufffd[2Jcleared; a hint"),
        ("recurse", None, 0, "it is nested too deeply"),
        ("fail", "no such key", 0, "it cannot be processed (LookupError: no such key); please report it"),
    ],
)  # fmt: skip
def test_a_document_that_ends_its_reader_is_rejected_with_reason_and_page_and_the_next_one_is_read(
    pool: ParserPool, tmp_path: Path, do: str, argument: object, page: int, reason: str
) -> None:
    assert reason_of(pool, request(tmp_path, do, argument, page=page)) == reason
    assert text_of(pool, request(tmp_path, "say", "well")) == "well"


@pytest.mark.parametrize(
    ("form", "size", "content", "reason"),
    [
        (messages.DOCUMENT, 1, "too long", ""),
        (messages.DOCUMENT, 2**63, "", ""),
        (messages.DOCUMENT, 2, "{}", ": too short"),
        (messages.REJECTED, 4, "null", ""),
        ("?", 0, "", ""),
        ("?" * messages.LONGEST_HEAD, 0, "", ""),
    ],
)
def test_an_answer_that_a_document_forged_rejects_it_and_its_process_answers_no_more(
    alone: ParserPool, tmp_path: Path, form: str, size: int, content: str, reason: str
) -> None:
    forged = answer(form, 1, content.encode(), size=size)
    said = reason_of(alone, request(tmp_path, "answer", [forged, 30]))
    assert said == f"the reader ended (an answer that makes no sense{reason})"
    assert text_of(alone, request(tmp_path, "say", "well")) == "well"


def test_an_answer_to_no_request_is_not_taken_for_one_to_the_next(
    alone: ParserPool, tmp_path: Path, readable: Path
) -> None:
    forged = answer(messages.REJECTED, 2)
    pipes = [readable / "answered", readable / "forged"]
    for pipe in pipes:
        os.mkfifo(pipe)
    assert text_of(alone, request(tmp_path, "answer later", [forged, *map(str, pipes)])) == "None"
    for pipe in pipes:
        pipe.open("w").close()  # opens once the document has opened it
    assert text_of(alone, request(tmp_path, "say", "well")) == "well"


def test_a_document_may_take_so_much_cpu_time_and_so_much_time(pool: ParserPool, tmp_path: Path, monkeypatch) -> None:
    cpu = reason_of(pool, request(tmp_path, "spin", page=4, cpu_s=0.2))
    assert cpu == "the reader ended on page 4 (more than 0.2 s of CPU time); parsing.cpu_s sets the limit"
    monkeypatch.setattr(
        "retrieve_cli.sources.formats.processes.process._WALL_PER_CPU", 0
    )  # so that CPU time is no limit
    monkeypatch.setattr("retrieve_cli.sources.formats.processes.process._WALL_S", 0.4)
    wall = reason_of(pool, request(tmp_path, "sleep", 100, page=5, cpu_s=20.0))
    assert wall == "the reader ended on page 5 (no end within 0 s); parsing.cpu_s sets the limit"


def test_the_kernel_ends_a_process_that_takes_too_much_cpu_time_if_nobody_watches_it(
    pool: ParserPool, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("retrieve_cli.sources.formats.processes.process._Watch.exceeded", lambda watch: None)
    reason = reason_of(pool, request(tmp_path, "spin", cpu_s=0.1))
    assert reason == "the reader ended (more than 0.1 s of CPU time); parsing.cpu_s sets the limit"


def test_a_process_is_used_for_many_files_until_it_holds_much_memory(alone: ParserPool, tmp_path: Path) -> None:
    first = {text_of(alone, request(tmp_path, "pid")) for _ in range(5)}
    assert len(first) == 1
    assert {text_of(alone, request(tmp_path, "hold", 100))} == first
    assert {text_of(alone, request(tmp_path, "pid"))} != first


def test_all_processes_work_at_the_same_time_and_results_belong_to_their_files(
    fresh: ParserPool, tmp_path: Path, readable: Path
) -> None:
    """The first file waits for the second one's reader, which only another process can be."""
    fifo = readable / "fifo"
    os.mkfifo(fifo)
    names = [f"{number}.odd" for number in range(9)]
    asked = [request(tmp_path, "read", str(fifo), name=names[0]), request(tmp_path, "pid", name=names[1])]
    asked += [request(tmp_path, "say", name, name=name) for name in names[2:]]
    readings = [fresh.begin(one) for one in asked]
    second = readings[1].result().text
    fifo.write_text("freed")
    assert readings[0].result().text == "read of 0.odd: freed"
    assert second.startswith("pid of 1.odd")
    assert [reading.result().text for reading in readings[2:]] == [f"say of {name}: {name}" for name in names[2:]]


def test_few_documents_are_parsed_before_anybody_asks_for_them(fresh: ParserPool, tmp_path: Path) -> None:
    readings = [fresh.begin(request(tmp_path, "say", number, name=f"{number}.odd")) for number in range(40)]
    last = readings[-1].result()  # out of turn: it must not wait for those that nobody asks for
    assert last.text == "say of 39.odd: 39"
    assert sum(reading.done() for reading in readings) <= 2 * 2 + 2
    assert readings[20].result().text == "say of 20.odd: 20"


def test_a_file_that_changes_or_goes_before_it_is_read_is_rejected(pool: ParserPool, tmp_path: Path) -> None:
    asked = request(tmp_path, "say", "old")
    asked.path.write_text("new")
    assert reason_of(pool, asked) == "it changed while it was read; sync again"
    assert reason_of(pool, asked._replace(max_bytes=2)) == "it cannot be read: it has 0.0 MB; the limit is 0 MB"
    asked.path.unlink()
    assert reason_of(pool, asked) == "it cannot be read: No such file or directory"
    os.mkfifo(asked.path)
    assert reason_of(pool, asked) == "it cannot be read: it is a named pipe, not a regular file"
    asked.path.unlink()
    asked.path.symlink_to("/dev/zero")
    assert reason_of(pool, asked) == "it cannot be read: it is a device, not a regular file"


def test_a_file_with_any_name_is_read_with_its_sidecar(pool: ParserPool, tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / os.fsdecode(b"\xff\xfe n\xc3\xa4me")
    folder.mkdir()
    monkeypatch.chdir(folder)
    asked = request(Path(), "say", "x")
    (folder / "a.txt").write_text(" and the text beside it")
    sidecar = asked._replace(sidecar=Path("a.txt"), sidecar_bytes=100)
    assert text_of(pool, sidecar) == "x and the text beside it"


def test_nothing_that_a_library_prints_reaches_the_terminal(alone: ParserPool, tmp_path: Path, capfd) -> None:
    assert text_of(alone, request(tmp_path, "print", "noise" * 100_000)) == "None"
    assert capfd.readouterr() == ("", "")


def test_a_process_knows_no_secrets_ignores_the_terminal_and_leaves_no_core(
    alone: ParserPool, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__API_KEY", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    environment = json.loads(text_of(alone, request(tmp_path, "environment")))
    state = json.loads(text_of(alone, request(tmp_path, "state")))
    assert "secret" not in environment.values()
    assert state["cwd"] == "/"
    assert state["ignored"] == ["SIGINT", "SIGHUP"]
    assert state["limits"] == {"RLIMIT_CORE": [0, 0], "RLIMIT_DATA": [256 * MB, 256 * MB]}


def test_a_closed_pool_has_no_process_and_stops_what_was_waiting(fresh: ParserPool, tmp_path: Path) -> None:
    pid = int(text_of(fresh, request(tmp_path, "pid")))
    readings = [fresh.begin(request(tmp_path, "sleep", 100, name=f"{n}.odd")) for n in range(3)]
    fresh.close()
    until(lambda: ended(pid), "the end of the reader")
    for reading in readings:
        with pytest.raises(RetrieveError, match=r"reading was stopped|the reader ended"):
            reading.result()
    assert text_of(fresh, request(tmp_path, "say", "again")) == "again"


def test_a_process_without_work_ends_and_another_one_starts(alone: ParserPool, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("retrieve_cli.sources.formats.processes.pool._IDLE_S", 0.05)
    pid = int(text_of(alone, request(tmp_path, "pid")))
    until(lambda: ended(pid), "the end of the reader")
    assert int(text_of(alone, request(tmp_path, "pid"))) != pid


def test_a_process_that_was_killed_between_two_files_costs_no_file(alone: ParserPool, tmp_path: Path) -> None:
    for _ in range(3):
        os.kill(int(text_of(alone, request(tmp_path, "pid"))), signal.SIGKILL)
    assert text_of(alone, request(tmp_path, "say", "well")) == "well"


def test_no_document_is_rejected_because_no_process_can_be_started(
    pool: ParserPool, tmp_path: Path, monkeypatch
) -> None:
    broken = ParserPool(256 * MB, workers=1)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RetrieveError, match="no process that reads documents can be started") as raised:
        broken.begin(request(tmp_path, "say")).result()
    assert raised.value.kind == "error"


PARENT = """
import sys
from pathlib import Path
from sources.formats.sandbox.asking import request, text_of
from retrieve_cli.sources.formats.processes import messages
from retrieve_cli.sources.formats.processes.pool import ParserPool
folder = Path(sys.argv[1])
pool = ParserPool(256 << 20, workers=1)
print(text_of(pool, request(folder, "pid")), flush=True)
reading = pool.begin(request(folder, "sleep", 100))
if sys.argv[2] == "wait":
    reading.result()
sys.stdin.read()
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, None])
def test_no_process_outlives_the_one_that_started_it(tmp_path: Path, end: int | None) -> None:
    words = [sys.executable, "-c", PARENT, str(tmp_path), "wait" if end else "leave"]
    paths = os.pathsep.join([str(Path(__file__).parents[3]), str(Path(__file__).parents[4])])
    environment = {**os.environ, "PYTHONPATH": paths}
    with heeding_interrupts():
        parent = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    if end is not None:
        parent.send_signal(end)
    parent.communicate(timeout=PATIENCE_S)  # ends its input, for which one without a signal waits
    until(lambda: ended(child), "the end of the reader")
