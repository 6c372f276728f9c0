"""Files of the inbox: stored with their documents, and removed once nobody needs them."""

import hashlib
from io import BytesIO
from pathlib import Path

import pytest
from samples import TOOLS, Program, write_catalog

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage import database
from retrieve_cli.storage.inbox import Change, Inbox, StoredFile, Upload


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path)


def upload(content: bytes, name: str = "a.pdf") -> Upload:
    return Upload(BytesIO(content), name)


def put(inbox: Inbox, name: str, content: bytes) -> StoredFile:
    """Store a file as a document."""
    inbox.write([Change(name, None, b"{}", upload(content))])
    entry = inbox.changes().entry(name)
    assert entry is not None
    assert entry.file is not None
    return entry.file


def content_of(inbox: Inbox, file: StoredFile) -> bytes:
    with inbox.changes().file(file) as content:
        return content.read()


def names(inbox: Inbox) -> set[str]:
    with database.writing(inbox.path) as connection:
        return {name for (name,) in connection.execute("SELECT sha1 FROM files")}


def damage(inbox: Inbox, content: bytes) -> None:
    with database.writing(inbox.path) as connection:
        connection.execute("UPDATE files SET content = ?", (content,))


def test_a_file_is_stored_with_its_document(inbox: Inbox) -> None:
    file = put(inbox, "a", b"content")
    assert file == StoredFile("a.pdf", hashlib.sha1(b"content", usedforsecurity=False).hexdigest(), 7)
    assert content_of(inbox, file) == b"content"
    assert inbox.changes().file_head(file, 3) == b"con"


def test_the_same_file_again_is_no_change_and_a_damaged_file_comes_back(inbox: Inbox) -> None:
    file = put(inbox, "a", b"content")
    damage(inbox, b"CONTENT")
    with pytest.raises(IndexCorrupt, match="differs from the sent file"):
        content_of(inbox, file)
    assert inbox.write([Change("a", None, b"{}", upload(b"content"))]) == [("unchanged", 1)]
    assert content_of(inbox, file) == b"content"


def test_an_upload_that_is_not_stored_leaves_nothing(inbox: Inbox) -> None:
    inbox.write([Change("a", "one", b"{}")])
    assert inbox.write([Change("a", "two", b"{}", upload(b"content"))]) == [("taken", 0)]
    assert names(inbox) == set()


def test_a_file_is_removed_by_the_publication_after_the_last_document_that_names_it(inbox: Inbox) -> None:
    first, second = put(inbox, "a", b"first"), put(inbox, "b", b"second")
    put(inbox, "c", b"second")
    inbox.tidy(oldest=2)
    assert names(inbox) == {first.sha1, second.sha1}
    inbox.write([Change("a", None, None), Change("b", None, None)])
    assert content_of(inbox, first) == b"first", "the current generation may still show it"
    inbox.tidy(oldest=2)
    assert names(inbox) == {second.sha1}


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
    own.write([Change("noses", None, b"{}", upload(content, "noses.md"))])
    name = upload(content).stored.sha1
    before = Path("artifacts/current").read_text()
    damage(own, content.replace(b"whales", b"wwales"))
    for words in (("sync",), ("inspect", "verify")):
        done = retrieve(*words)
        assert (done.code, name in done.out + done.err) == (5, True)
    assert any(check["name"] == "inbox" and name in check["message"] for check in failing(retrieve))
    assert Path("artifacts/current").read_text() == before
    assert own.write([Change("noses", None, b"{}", upload(content, "noses.md"))])[0].kind == "unchanged"
    assert not any(check["name"] == "inbox" for check in failing(retrieve))
    assert retrieve("sync").code == 0
    assert "noses" in retrieve("query", "whales").out


def failing(retrieve: Program) -> list[dict[str, str]]:
    """Return the checks of the doctor that do not hold."""
    return [check for check in retrieve("doctor", "--json").json["checks"] if check["status"] == "fail"]
