"""The log of the inbox: acknowledged changes stay, torn lines go, and a rewritten log says the same."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from retrieve_cli.errors import IndexCorrupt, Locked, RetrieveError
from retrieve_cli.storage import inbox as inboxes
from retrieve_cli.storage.inbox import Change, Inbox
from retrieve_cli.storage.lock import hold_briefly


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path / "inbox")


def put(name: str, text: str = "", tenant: str | None = None) -> Change:
    return Change(name, tenant, json.dumps({"id": name, "text": text or name}).encode())


def contents(inbox: Inbox) -> list[tuple[str, int, str]]:
    """Ids, numbers and texts, as a reader without memory of the log sees them."""
    return [(entry.id, entry.sequence, json.loads(entry.document)["text"]) for entry in Inbox(inbox.folder).snapshot()]


def test_a_later_entry_replaces_the_earlier_one_and_a_tombstone_removes_it(inbox: Inbox) -> None:
    first = inbox.write([put("a"), put("b"), put("a", "again")])
    assert [(outcome.kind, outcome.sequence) for outcome in first] == [("added", 1), ("added", 2), ("replaced", 3)]
    assert contents(inbox) == [("b", 2, "b"), ("a", 3, "again")]
    assert inbox.write([Change("b", None, None)]) == [("removed", 4)]
    assert contents(inbox) == [("a", 3, "again")]
    assert Inbox(inbox.folder).sequence == 4


def test_the_same_document_again_changes_nothing(inbox: Inbox) -> None:
    inbox.write([put("a")])
    size = inbox.path.stat().st_size
    assert inbox.write([put("a")]) == [("unchanged", 1)]
    assert inbox.path.stat().st_size == size


def test_a_tenant_neither_replaces_nor_removes_the_document_of_another(inbox: Inbox) -> None:
    inbox.write([put("a", tenant="one")])
    assert inbox.write([put("a", "other", tenant="two"), Change("a", "two", None)]) == [("taken", 0), ("missing", 0)]
    assert contents(inbox) == [("a", 1, "a")]


def test_a_document_of_a_tenant_stays_its_own_whoever_replaces_it(inbox: Inbox) -> None:
    inbox.write([put("a", tenant="one")])
    inbox.write([put("a", "corrected")])
    entry = inbox.entry("a")
    assert entry is not None
    assert (entry.tenant, json.loads(entry.document)["text"]) == ("one", "corrected")


@pytest.mark.parametrize("torn", [b'{"sequence":2,"id":"b"', b"\0" * 100, b"{", '{"sequence":2,"id":"ä'.encode()[:-1]])
def test_a_torn_last_line_is_ignored_and_removed_by_the_next_writer(inbox: Inbox, torn: bytes) -> None:
    inbox.write([put("a")])
    with inbox.path.open("ab") as file:
        file.write(torn)
    assert contents(inbox) == [("a", 1, "a")]
    assert Inbox(inbox.folder).write([put("c")]) == [("added", 2)]
    assert contents(inbox) == [("a", 1, "a"), ("c", 2, "c")]
    assert len(inbox.path.read_bytes().splitlines()) == 3


@pytest.mark.parametrize("torn", [b"", b'{"inbox":1', b"\0\0\0"])
def test_a_log_that_was_never_begun_is_begun_by_the_next_writer(inbox: Inbox, torn: bytes) -> None:
    inbox.folder.mkdir()
    inbox.path.write_bytes(torn)
    assert inbox.sequence == 0
    assert inbox.write([put("a")]) == [("added", 1)]
    assert contents(inbox) == [("a", 1, "a")]


@pytest.mark.parametrize(
    "line",
    [
        b"\0\0\0\0\n",
        b'{"sequence":1,"id":"a","tenant":null,"document":{}}\n',
        b'{"sequence":9,"id":7,"tenant":null}\n',
        b'{"sequence":true,"id":"x","tenant":null}\n',
        b'{"sequence":9,"id":"x","tenant":[],"document":{}}\n',
        b'{"sequence":9,"id":"x","tenant":null,"document":"text"}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_damaged_line_stops_readers_and_writers_until_it_is_set_aside(inbox: Inbox, line: bytes) -> None:
    inbox.write([put("a")])
    with inbox.path.open("ab") as file:
        file.write(line)
    damaged = inbox.path.read_bytes()
    for reads in (contents, lambda inbox: inbox.write([put("c")]), lambda inbox: inbox.entry("a")):
        with pytest.raises(IndexCorrupt, match="line 3") as stopped:
            reads(Inbox(inbox.folder))
        assert "retrieve doctor --repair" in stopped.value.hint
    assert inbox.path.read_bytes() == damaged
    repaired = Inbox(inbox.folder).repair()
    assert repaired is not None
    assert (repaired.kept, [damage.line for damage in repaired.damaged]) == (1, [3])
    assert repaired.aside.read_bytes() == line
    assert Inbox(inbox.folder).repair() is None
    assert inbox.write([put("c")]) == [("added", 2)]
    assert contents(inbox) == [("a", 1, "a"), ("c", 2, "c")]


@pytest.mark.parametrize("tenant", [None, "one"])
def test_every_flipped_bit_stops_readers_and_a_repair_loses_no_other_document(inbox: Inbox, tenant: str | None) -> None:
    inbox.write([put("a", tenant=tenant), put("b", tenant=tenant)])
    inbox.write([put("c", tenant=tenant), Change("b", None, None)])
    whole, before = inbox.path.read_bytes(), contents(inbox)
    for place in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        inbox.path.write_bytes(flipped)
        with pytest.raises(IndexCorrupt):
            contents(inbox)
        if place % 7 == 0 and whole[place // 8] != ord("\n"):  # without its line feed, a line is one with the next
            assert Inbox(inbox.folder).repair() is not None
            left = contents(inbox)
            line = whole[: place // 8].count(b"\n")
            assert {name for name, _, _ in left} >= {"a", "c"} - {["", "a", "b", "c", "b"][line]}
            assert set(left) <= {*before, ("b", 2, "b")}  # whose tombstone was damaged


def test_lines_that_are_gone_swapped_or_doubled_stop_readers(inbox: Inbox) -> None:
    inbox.write([put("a"), put("b"), put("c")])
    header, *lines = inbox.path.read_bytes().splitlines(keepends=True)
    for others in ([lines[0], lines[2]], [lines[1], lines[2]], [lines[1], lines[0], lines[2]], [*lines, lines[2]]):
        inbox.path.write_bytes(header + b"".join(others))
        with pytest.raises(IndexCorrupt):
            contents(inbox)


@pytest.mark.parametrize("header", [b'{"inbox":3,"sequence":0,"rewritten":0}\n', b"[]\n", b"x" * 5000 + b"\n"])
def test_a_file_that_is_not_an_inbox_is_left_alone(inbox: Inbox, header: bytes) -> None:
    inbox.folder.mkdir()
    inbox.path.write_bytes(header)
    with pytest.raises(IndexCorrupt, match="is not an inbox"):
        inbox.write([put("a")])
    assert inbox.path.read_bytes() == header


def test_the_log_is_rewritten_once_dead_entries_outweigh(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inboxes, "_MOST_DEAD", 4)
    other = Inbox(inbox.folder)
    for number in range(40):
        inbox.write([put("a", f"version {number}"), put("b", f"version {number}", tenant="one")])
        assert other.sequence == 2 * number + 2
    inbox.write([Change("b", None, None)])
    lines = inbox.path.read_bytes().count(b"\n")
    assert lines <= 1 + 2 + 5
    assert contents(inbox) == [("a", 79, "version 39")]
    assert [entry.id for entry in other.snapshot()] == ["a"]
    assert other.write([put("c")]) == [("added", 82)]


def test_numbers_go_on_after_everything_was_removed_and_rewritten(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inboxes, "_MOST_DEAD", 0)
    inbox.write([put("a")])
    inbox.write([Change("a", None, None)])
    assert inbox.path.read_bytes().count(b"\n") == 1
    assert Inbox(inbox.folder).sequence == 2
    assert Inbox(inbox.folder).write([put("a")]) == [("added", 3)]


def test_a_snapshot_stays_as_it_was_while_the_log_is_rewritten(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox.write([put("a"), put("b")])
    snapshot = inbox.snapshot()
    monkeypatch.setattr(inboxes, "_MOST_DEAD", 0)
    inbox.write([put("a", "new"), put("b", "new"), put("c")])
    assert [(entry.id, json.loads(entry.document)["text"]) for entry in snapshot] == [("a", "a"), ("b", "b")]


def test_a_full_disk_leaves_the_log_as_it_was(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox.write([put("a")])
    before = inbox.path.read_bytes()

    def full(descriptor: int, content: bytes, start: int) -> None:
        os.pwrite(descriptor, content[:10], start)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(inboxes, "_write_all", full)
        with pytest.raises(RetrieveError, match="No space left"):
            inbox.write([put("b")])
    assert inbox.path.read_bytes() == before
    assert inbox.write([put("b")]) == [("added", 2)]


def test_a_writer_does_not_wait_for_ever(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox.write([put("a")])
    monkeypatch.setattr(inboxes, "_WAIT", 0.05)
    with hold_briefly(inbox.folder / "lock", wait=1), pytest.raises(Locked):
        inbox.write([put("b")])


_WRITER = """
import json, sys
from pathlib import Path
from retrieve_cli.storage.inbox import Change, Inbox
inbox, name = Inbox(Path(sys.argv[1])), sys.argv[2]
for number in range(int(sys.argv[3])):
    document = json.dumps({"id": f"{name}{number}", "text": "x" * 3000}).encode()
    (outcome,) = inbox.write([Change(f"{name}{number}", None, document)])
    print(outcome.sequence, flush=True)
"""


def _writer(inbox: Inbox, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WRITER, str(inbox.folder), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_append_side_by_side(inbox: Inbox) -> None:
    writers = [_writer(inbox, name, 60) for name in "ab"]
    printed = [int(line) for writer in writers for line in writer.communicate()[0].split()]
    assert sorted(printed) == list(range(1, 121))
    assert {name for name, _, _ in contents(inbox)} == {f"{name}{number}" for name in "ab" for number in range(60)}


def test_nothing_that_was_acknowledged_is_lost_by_a_killed_process(inbox: Inbox) -> None:
    for round_ in range(3):
        with _writer(inbox, f"{round_}-", 100_000) as writer:
            assert writer.stdout is not None
            acknowledged = [int(writer.stdout.readline()) for _ in range(20)]
            writer.send_signal(signal.SIGKILL)
            acknowledged += [int(line) for line in writer.stdout.read().splitlines()]
        kept = {sequence for _, sequence, _ in contents(inbox)}
        assert set(acknowledged) <= kept
    assert inbox.write([put("after")])[0].kind == "added"
