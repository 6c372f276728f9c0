"""Files of the inbox: complete before an entry names them, and removed once nobody needs them."""

import hashlib
import os
import time
from pathlib import Path

import pytest
from samples import TOOLS, Program, write_catalog

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage.inbox import Change, Inbox
from retrieve_cli.storage.inbox_files import StoredFile, Upload, open_sound, path_of


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path)


def upload(inbox: Inbox, content: bytes, name: str = "a.pdf") -> Upload:
    received = Upload(inbox.folder, name)
    received.write(content)
    received.settle()
    return received


def put(inbox: Inbox, name: str, content: bytes) -> str:
    """Store a file as a document, and return its SHA-1."""
    received = upload(inbox, content)
    inbox.write([Change(name, None, b"{}", received)])
    received.close()
    return received.stored.sha1


def names(inbox: Inbox) -> list[str]:
    return sorted(path.name for path in (inbox.folder / "files").iterdir())


def test_a_stored_file_has_the_name_of_its_content_and_its_entry_names_it(inbox: Inbox) -> None:
    sha1 = put(inbox, "a", b"content")
    assert sha1 == hashlib.sha1(b"content", usedforsecurity=False).hexdigest()
    entry = inbox.changes().entry("a")
    assert entry is not None
    assert entry.file == StoredFile("a.pdf", sha1, 7)
    assert path_of(inbox.folder, sha1).read_bytes() == b"content"
    assert names(inbox) == [sha1]


def test_the_same_file_again_is_no_change_and_a_lost_file_comes_back(inbox: Inbox) -> None:
    sha1 = put(inbox, "a", b"content")
    path_of(inbox.folder, sha1).unlink()
    received = upload(inbox, b"content")
    assert inbox.write([Change("a", None, b"{}", received)]) == [("unchanged", 1)]
    received.close()
    assert names(inbox) == [sha1]


def test_an_upload_that_is_not_stored_leaves_nothing(inbox: Inbox) -> None:
    inbox.write([Change("a", "one", b"{}")])
    received = upload(inbox, b"content")
    assert inbox.write([Change("a", "two", b"{}", received)]) == [("taken", 0)]
    received.close()
    assert names(inbox) == []


def make_old(inbox: Inbox) -> None:
    """Let a day pass."""
    for path in (inbox.folder / "files").iterdir():
        os.utime(path, (time.time() - 90_000,) * 2)


def test_a_file_is_removed_a_day_after_the_last_document_that_names_it(inbox: Inbox) -> None:
    first, second = put(inbox, "a", b"first"), put(inbox, "b", b"second")
    make_old(inbox)
    inbox.tidy(oldest=2)
    assert set(names(inbox)) == {first, second}
    inbox.write([Change("a", None, None)])
    inbox.tidy(oldest=2)
    assert set(names(inbox)) == {first, second}, "its index and a snapshot may still read it"
    make_old(inbox)
    inbox.tidy(oldest=2)
    assert names(inbox) == [second]
    inbox.path.unlink()
    inbox.tidy(oldest=None)
    assert names(inbox) == [second], "a lost inbox may be put back"


def test_a_file_that_is_being_received_stays_and_that_of_a_killed_writer_goes(inbox: Inbox) -> None:
    inbox.write([])
    received = upload(inbox, b"half")
    inbox.tidy(oldest=None)
    assert len(names(inbox)) == 1
    make_old(inbox)
    inbox.tidy(oldest=None)
    assert names(inbox) == []
    received.close()


def test_a_file_whose_writer_was_killed_before_the_entry_goes(inbox: Inbox) -> None:
    inbox.write([])
    received = upload(inbox, b"content")
    received.keep()
    received.close()
    assert len(names(inbox)) == 1
    make_old(inbox)
    inbox.tidy(oldest=None)
    assert names(inbox) == []


@pytest.mark.parametrize(
    "file",
    [
        {"name": "a", "sha1": "../../keys", "size": 1},
        {"name": "a", "sha1": "0" * 40, "size": True},
        {"name": 7, "sha1": "0" * 40, "size": 1},
        "a",
    ],
)
def test_a_description_of_no_file_of_the_inbox_is_damaged(file: Json) -> None:
    assert StoredFile.of(file) is None


def test_a_damaged_file_stops_a_sync_until_it_is_sent_again(
    tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", TOOLS)).code == 0
    own = Inbox(Path("artifacts"))
    content = b"# Noses\n\nOn noses of whales.\n"
    received = upload(own, content, "noses.md")
    own.write([Change("noses", None, b"{}", received)])
    path = path_of(own.folder, received.stored.sha1)
    before = Path("artifacts/current").read_text()
    for bit in (0, 8 * 12 + 3, 8 * len(content) - 1):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(IndexCorrupt, match="differs from the sent file"):
            open_sound(path)
        for words in (("sync",), ("inspect", "verify")):
            done = retrieve(*words)
            assert (done.code, path.name in done.out + done.err) == (5, True)
        assert any(check["name"] == "inbox" and path.name in check["message"] for check in failing(retrieve))
    assert Path("artifacts/current").read_text() == before
    again = upload(own, content, "noses.md")
    assert own.write([Change("noses", None, b"{}", again)])[0].kind == "unchanged"
    assert not any(check["name"] == "inbox" for check in failing(retrieve))
    assert retrieve("sync").code == 0
    assert "noses" in retrieve("query", "whales").out


def failing(retrieve: Program) -> list[dict[str, str]]:
    """Return the checks of the doctor that do not hold."""
    return [check for check in retrieve("doctor", "--json").json["checks"] if check["status"] == "fail"]
