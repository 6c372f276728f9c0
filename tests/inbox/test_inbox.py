"""The inbox: acknowledged changes stay, one moment is read at a time, and damage is never taken for content."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from retrieve_cli.errors import IndexCorrupt, Locked, UsageError
from retrieve_cli.storage import database, inbox as inboxes
from retrieve_cli.storage.inbox import Change, Inbox


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path)


def put(name: str, text: str = "", tenant: str | None = None) -> Change:
    return Change(name, tenant, json.dumps({"id": name, "text": text or name}).encode())


def contents(inbox: Inbox) -> list[tuple[str, int, str]]:
    """Return ids, numbers and texts."""
    return [(entry.id, entry.sequence, json.loads(entry.document)["text"]) for entry in inbox.snapshot()]


def test_a_later_document_replaces_the_earlier_one_and_a_removal_has_a_number_of_its_own(inbox: Inbox) -> None:
    first = inbox.write([put("a"), put("b"), put("a", "again")])
    assert [(outcome.kind, outcome.sequence) for outcome in first] == [("added", 1), ("added", 2), ("replaced", 3)]
    assert contents(inbox) == [("b", 2, "b"), ("a", 3, "again")]
    assert inbox.write([Change("b", None, None)]) == [("removed", 4)]
    assert contents(inbox) == [("a", 3, "again")]
    assert inbox.write([Change("a", None, None), Change("a", None, None)]) == [("removed", 5), ("missing", 0)]
    assert Inbox(inbox.path.parent).write([put("a")]) == [("added", 6)]


def test_the_same_document_again_changes_nothing(inbox: Inbox) -> None:
    inbox.write([put("a")])
    assert inbox.write([put("a")]) == [("unchanged", 1)]
    assert inbox.sequence == 1


def test_a_tenant_neither_replaces_nor_removes_the_document_of_another(inbox: Inbox) -> None:
    inbox.write([put("a", tenant="one")])
    assert inbox.write([put("a", "other", tenant="two"), Change("a", "two", None)]) == [("taken", 0), ("missing", 0)]
    assert contents(inbox) == [("a", 1, "a")]


def test_a_document_of_a_tenant_stays_its_own_whoever_replaces_it(inbox: Inbox) -> None:
    inbox.write([put("a", tenant="one")])
    inbox.write([put("a", "corrected")])
    entry = inbox.changes().entry("a")
    assert entry is not None
    assert (entry.tenant, json.loads(entry.document)["text"]) == ("one", "corrected")


def test_a_snapshot_stays_as_it_was_whatever_is_written_meanwhile(inbox: Inbox) -> None:
    inbox.write([put("a"), put("b")])
    snapshot = inbox.snapshot()
    inbox.write([put("a", "new"), Change("b", None, None), put("c")])
    assert (snapshot.sequence, len(snapshot)) == (2, 2)
    assert [(entry.id, json.loads(entry.document)["text"]) for entry in snapshot] == [("a", "a"), ("b", "b")]


def test_changes_that_fail_together_change_nothing(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox.write([put("a")])
    monkeypatch.setattr(inboxes, "LINE", 100)
    with pytest.raises(UsageError, match="the document 'c' has"):
        inbox.write([put("b"), put("c", "x" * 100)])
    assert contents(inbox) == [("a", 1, "a")]


@pytest.mark.parametrize("tenant", [None, "one"])
def test_a_flipped_bit_stops_readers_or_changes_nothing(inbox: Inbox, tenant: str | None) -> None:
    inbox.write([put("a", tenant=tenant), put("b", tenant=tenant)])
    inbox.write([put("c", tenant=tenant), Change("b", None, None)])
    whole, before = inbox.path.read_bytes(), contents(inbox)
    used = [place for place, byte in enumerate(whole) if byte]
    stopped = 0
    for place in random.Random(1).sample(used, 250):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        inbox.path.write_bytes(flipped)
        try:
            assert contents(inbox) == before
        except IndexCorrupt:
            stopped += 1
    assert stopped > 100


def other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE VIEW documents AS SELECT 1 AS sequence")


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b'{"inbox":2,"sequence":0}\n' * 300),
        other_database,
        lambda path: path.symlink_to(path.with_name("elsewhere")),
        os.mkfifo,
        Path.mkdir,
    ],
    ids=["text", "another database", "link", "pipe", "folder"],
)
def test_what_is_not_an_inbox_is_left_alone(inbox: Inbox, make: object) -> None:
    assert callable(make)
    make(inbox.path)
    before = inbox.path.read_bytes() if inbox.path.is_file() else b""
    for use in (contents, lambda inbox: inbox.write([put("c")]), lambda inbox: inbox.sequence):
        with pytest.raises(IndexCorrupt):
            use(inbox)
    assert (inbox.path.read_bytes() if inbox.path.is_file() else b"") == before
    assert not inbox.path.with_name("elsewhere").exists()


def test_a_writer_does_not_wait_for_ever(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox.write([put("a")])
    monkeypatch.setattr(database, "_WAIT_S", 0.05)
    with database.writing(inbox.path), pytest.raises(Locked):
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
    command = [sys.executable, "-c", _WRITER, str(inbox.path.parent), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_write_side_by_side(inbox: Inbox) -> None:
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
