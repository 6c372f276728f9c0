"""The inbox as a source: what builds and syncs make of it, and that both make the same."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from samples import TOOLS, Program, write_catalog

from retrieve_cli.storage.inbox import Change, Inbox, sequence_of
from retrieve_cli.storage.store import Store

ARTIFACTS = Path("artifacts")


def document(name: str, text: str, **more: Any) -> bytes:
    return json.dumps({"id": name, "title": f"Title of {name}", "text": text, **more}).encode()


def put(name: str, text: str, *, tenant: str | None = None, **more: Any) -> None:
    Inbox(ARTIFACTS).write([Change(name, tenant, document(name, text, **more))])


def remove(name: str) -> None:
    Inbox(ARTIFACTS).write([Change(name, None, None)])


def current() -> str:
    return (ARTIFACTS / "current").read_text().strip()


def included() -> int:
    return sequence_of(Store(ARTIFACTS).open().manifest)


@pytest.fixture
def catalog(tmp_path: Path, retrieve: Program) -> Path:
    """A catalog that is indexed."""
    path = write_catalog(tmp_path / "tools.jsonl", TOOLS)
    assert retrieve("build", path).code == 0
    return path


def ids(retrieve: Program, text: str, *flags: str) -> list[str]:
    return [result["doc_id"] for result in retrieve("query", text, "--json", *flags).json["results"]]


def test_an_index_of_a_catalog_takes_in_the_inbox_at_the_next_sync(catalog: Path, retrieve: Program) -> None:
    put("ears", "Outlines ears in photographs.")
    assert retrieve("sync").code == 0
    assert ids(retrieve, "outlines ears")[0] == "ears"
    assert included() == 1
    record = retrieve("inspect", "record", "ears", "--json").json
    assert (record["source"], record["line"], record["name"]) == ("inbox", 1, "Title of ears")


def test_an_inbox_alone_is_a_source(retrieve: Program) -> None:
    put("ears", "Outlines ears in photographs.")
    assert retrieve("build").code == 0
    built = current()
    shutil.rmtree(ARTIFACTS / "generations")
    (ARTIFACTS / "current").unlink()
    assert retrieve("sync").code == 0
    assert current() == built


def test_a_listed_inbox_has_its_own_name_and_place(catalog: Path, retrieve: Program) -> None:
    Path("config.yaml").write_text(
        "sources: [{kind: inbox, name: notes, id_prefix: n/}, {kind: catalog, path: tools.jsonl}]"
    )
    assert retrieve("sync").code == 0, "an empty inbox is no error"
    put("ears", "Outlines ears in photographs.")
    assert retrieve("sync").code == 0
    sources = retrieve("inspect", "status", "--json").json["sources"]
    listed = [(source["kind"], source["name"], source["records"]) for source in sources]
    assert listed == [("inbox", "notes", 1), ("catalog", "tools.jsonl", 5)]
    assert ids(retrieve, "outlines ears")[0] == "n/ears"


def test_two_inboxes_are_an_error(retrieve: Program) -> None:
    Path("config.yaml").write_text("sources: [{kind: inbox}, {kind: inbox, name: other}]")
    done = retrieve("build")
    assert (done.code, "more than one inbox" in done.err) == (2, True)


def test_a_bad_document_does_not_keep_the_others_from_being_published(catalog: Path, retrieve: Program) -> None:
    put("lungs", "A document with the id of a tool.")
    put("ears", "Outlines ears in photographs.")
    done = retrieve("sync")
    assert done.code == 8
    assert "duplicate id 'lungs'" in done.err
    assert ids(retrieve, "outlines ears")[0] == "ears"
    assert retrieve("sync").code == 0, "what is known to be rejected is said once"


def test_removing_most_documents_is_no_loss_of_the_source(catalog: Path, retrieve: Program) -> None:
    for number in range(4):
        put(f"doc{number}", f"Document {number} about ears.")
    assert retrieve("sync").code == 0
    for number in range(4):
        remove(f"doc{number}")
    assert retrieve("sync").code == 0
    assert len(Store(ARTIFACTS).open().manifest.sources) == 2


def test_a_lost_inbox_is_not_published(catalog: Path, retrieve: Program) -> None:
    put("ears", "Outlines ears in photographs.")
    assert retrieve("sync").code == 0
    (ARTIFACTS / "inbox.db").unlink()
    done = retrieve("sync")
    assert (done.code, "nothing was published" in done.err) == (1, True)
    assert ids(retrieve, "outlines ears")[0] == "ears"


def test_the_tenant_of_an_entry_is_that_of_its_record(catalog: Path, retrieve: Program) -> None:
    put("a:ears", "Outlines ears in photographs.", tenant="a")
    put("b:ears", "Outlines ears of b.", tenant="b")
    put("b:eyes", "Outlines eyes.", tenant="b", tenant_id="a")
    assert retrieve("sync").code == 8
    assert ids(retrieve, "outlines ears", "--tenant", "a") == ["a:ears"]
    (rejected,) = [json.loads(line) for line in (ARTIFACTS / "quarantine.jsonl").read_text().splitlines()]
    assert rejected["reason"] == "it names the tenant 'a'; this credential is for 'b'"
    assert rejected["line"] == 3


def test_a_damaged_inbox_publishes_nothing_and_every_check_says_so(catalog: Path, retrieve: Program) -> None:
    put("ears", "Outlines ears in photographs.")
    assert retrieve("sync").code == 0
    synced, file = current(), ARTIFACTS / "inbox.db"
    sound = file.read_bytes()
    file.write_bytes(sound.replace(b"Outlines ears", b"Outlines bars"))
    for words in (("sync",), ("build",), ("sync", "--dry-run"), ("inspect", "verify"), ("snapshot", "create", "x")):
        done = retrieve(*words)
        assert (done.code, "the document 'ears' is damaged" in done.err + done.out) == (5, True), words
    assert "retrieve snapshot restore FILE" in retrieve("doctor").out
    assert ids(retrieve, "outlines ears")[0] == "ears", "the index answers"
    assert current() == synced
    file.write_bytes(sound)
    assert retrieve("inspect", "verify").code == 0


# ----------------------------------------------------------- a text is chunked as the same text of a file is

PAPER = "# Introduction\nMice sleep during the day.\n\n# Methods\nWe recorded twelve mice.\n\n# Results\nThey slept.\n"
PLAIN = "Introduction\n\nMice sleep during the day.\n\nMethods\n\nWe recorded twelve mice for a month.\n"
MIXED = f"Words before.\n\n{PAPER}\n## Sleep\n\n| hours | mice |\n|---|---|\n| 7 | 3 |\n\n```\n# no heading\n```\n"


def chunks_of(retrieve: Program, name: str) -> list[tuple[str | None, str]]:
    ids = [chunk["id"] for chunk in retrieve("inspect", "record", name, "--json").json["chunks"]]
    chunks = [retrieve("inspect", "chunk", each, "--json").json for each in ids]
    return [(chunk["section"], chunk["text"]) for chunk in chunks]


@pytest.mark.parametrize("strategy", ["auto", "section", "imrad", "window"])
def test_a_text_of_several_lines_is_chunked_as_the_same_text_of_a_file_is(
    retrieve: Program, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """Design E: "the text "Introduction ... Methods ..." yields two chunks with section "Introduction" and ..."."""
    monkeypatch.setenv("RETRIEVE_CHUNKING__STRATEGY", strategy)
    monkeypatch.setenv("RETRIEVE_CHUNKING__SIZE", "90" if strategy == "window" else "24")
    texts = {"paper": PAPER, "plain": PLAIN, "mixed": MIXED}
    Path("docs").mkdir()
    for name, text in texts.items():
        Path(f"docs/{name}.md").write_text(text)
        put(name, text)
    assert retrieve("build", "--docs-dir", "docs").code == 0
    for name in texts:
        assert chunks_of(retrieve, name) == chunks_of(retrieve, f"{name}.md"), name
    if strategy == "imrad":
        assert [section for section, _ in chunks_of(retrieve, "paper")] == ["Introduction", "Methods", "Results"]
        assert [section for section, _ in chunks_of(retrieve, "plain")] == ["Introduction", "Methods"]


def test_a_media_type_says_that_a_text_is_no_markdown(catalog: Path, retrieve: Program) -> None:
    put("paper", PAPER, media_type="text/plain")
    put("page", "<p>One</p>\n<p>Two</p>", media_type="text/html")
    assert retrieve("sync").code == 8
    assert [section for section, _ in chunks_of(retrieve, "paper")] == [None]
    (rejected,) = map(json.loads, (ARTIFACTS / "quarantine.jsonl").read_text().splitlines())
    assert "its media_type is 'text/html'; a text is text/markdown or text/plain" in rejected["reason"]
