"""`retrieve snapshot`: a generation as one file, carried to another machine, where it answers the same."""

import hashlib
import json
import os
import tarfile
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard
from program.asking import answered, indexed, refused
from samples import TOOLS, Program, write_catalog
from told_servers import Answer, Server, running

from retrieve_cli.storage.inbox import Change, Inbox, Upload

QUERIES = ("segment lungs", "brain [INCLUDE:align]", "count cells in microscopy", "format:DICOM tools")


def answers(retrieve: Program, artifacts: Path) -> list[Any]:
    """What an index answers, to the byte but for the times that it took."""
    found = [answered(retrieve, query, "--artifacts", artifacts, "--explain") for query in QUERIES]
    return [json.dumps({key: value for key, value in each.items() if key != "timings_ms"}) for each in found]


def created(retrieve: Program, *arguments: object) -> Any:
    """The report of `snapshot create`."""
    return reported(retrieve, "create", *arguments)


def reported(retrieve: Program, *arguments: object) -> Any:
    """The report of a command of `retrieve snapshot`."""
    done = retrieve("snapshot", *arguments, "--json")
    assert done.code == 0, done.err
    return done.json


def renamed(catalog: Path, number: int) -> None:
    """Write the catalog with another name of the first tool."""
    write_catalog(catalog, [*TOOLS[1:], {**TOOLS[0], "name": f"LungMapper {number}"}])


def damage(path: Path, at: int) -> None:
    """Turn a bit of a file around."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_restored_index_answers_the_same_bytes_where_its_sources_are_not(
    index: Path, catalog: Path, retrieve: Program, tmp_path: Path
) -> None:
    file = Path(created(retrieve)["file"])
    assert file.name.startswith(f"{(index / 'current').read_text().strip()}-")
    elsewhere = tmp_path / "elsewhere" / "artifacts"
    reported(retrieve, "restore", file, "--artifacts", elsewhere)
    assert answers(retrieve, elsewhere) == answers(retrieve, index)
    catalog.unlink()
    gone = answers(retrieve, elsewhere)
    assert gone == answers(retrieve, index)
    assert '"freshness": "deleted"' in gone[0]
    assert retrieve("inspect", "verify", "--artifacts", elsewhere).code == 0
    assert retrieve("inspect", "history", "--artifacts", elsewhere, "--json").json[0]["sequence"] == 1


def test_a_restore_looks_at_no_source(retrieve: Program) -> None:
    """A snapshot may come from anybody, and names paths of the machine that it was made on."""
    tools = [{**TOOLS[0], "id": f"t{number}", "description": "word " * 100} for number in range(1000)]
    catalog = indexed(retrieve, tools)
    file = created(retrieve)["file"]
    catalog.unlink()
    done = retrieve("snapshot", "restore", file, "--artifacts", "b")
    assert (done.code, done.err) == (0, "")


def test_a_calibration_comes_along(retrieve: Program, tmp_path: Path) -> None:
    topics, acts = ("lung", "brain", "cell", "liver", "bone", "skin"), ("segment", "count", "align", "track", "find")
    tools = [
        {"id": f"{act}-{topic}", "name": f"{act} {topic}", "description": f"To {act} the {topic}."}
        for act in acts
        for topic in topics
    ]
    gold = [{"query": f"{act} the {topic}", "relevant": [f"{act}-{topic}"]} for act in acts for topic in topics]
    indexed(retrieve, tools)
    done = retrieve("eval", "--gold", write_catalog(tmp_path / "gold.jsonl", gold), "--calibrate")
    assert done.code == 0, done.err
    snapshot = created(retrieve)
    assert "calibration.json" in snapshot["members"]
    assert reported(retrieve, "restore", snapshot["file"], "--artifacts", "b")["calibrations"] == 1
    first, second = answers(retrieve, Path("artifacts")), answers(retrieve, Path("b"))
    assert first == second
    assert '"confidence"' in first[0]


def posted(artifacts: Path, count: int, *, first: int = 0) -> None:
    """Add documents one at a time, as a server does, one of them as a file."""
    inbox = Inbox(artifacts)
    upload = Upload(BytesIO(b"# Nose\n\nSegments noses.\n"), "nose.md")
    for number in range(first, first + count):
        text = {"id": f"post{number}", "title": f"nose {number}", "text": "Segments the nose."}
        inbox.write(
            [
                Change(
                    f"post{number}",
                    None,
                    json.dumps({} if number == 0 else text).encode(),
                    upload if number == 0 else None,
                )
            ]
        )


def test_posted_documents_survive_a_restore_elsewhere_under_a_configuration_that_lists_sources(
    index: Path, catalog: Path, retrieve: Program, tmp_path: Path
) -> None:
    posted(index, 30)
    assert retrieve("sync", "--json").json["added"] == 30
    snapshot = created(retrieve)
    assert "inbox.db" in snapshot["members"]
    Path("config.yaml").write_text(json.dumps({"sources": [{"kind": "catalog", "path": str(catalog)}]}))
    place = ("--artifacts", tmp_path / "elsewhere")
    assert reported(retrieve, "restore", snapshot["file"], *place)["documents"] == 30
    for _ in range(2):
        done = retrieve("sync", "--json", *place)
        assert done.code == 0, done.err
        assert (done.json["added"], done.json["changed"], done.json["removed"]) == (0, 0, 0)
    assert len(retrieve("inspect", "records", "--json", "--limit", "0", *place).json["records"]) == 35
    posted(tmp_path / "elsewhere", 1, first=30)
    assert retrieve("sync", "--json", *place).json["added"] == 1


def test_a_restore_keeps_what_was_posted_since_and_refuses_to_lose_documents_of_another_inbox(
    index: Path, retrieve: Program, tmp_path: Path
) -> None:
    posted(index, 3)
    assert retrieve("sync").code == 0
    file = created(retrieve)["file"]
    posted(index, 2, first=3)
    reported(retrieve, "restore", file)
    assert retrieve("sync", "--json").json["added"] == 2
    other = tmp_path / "other"
    indexed(retrieve, TOOLS[:2], "--artifacts", other)
    posted(other, 1, first=7)
    before = (other / "current").read_text()
    done = retrieve("snapshot", "restore", file, "--artifacts", other)
    assert (done.code, "lacks a document of the inbox" in done.err) == (2, True), done.err
    assert (other / "current").read_text() == before
    assert [entry.id for entry in Inbox(other).snapshot()] == ["post7"]


def test_an_archive_is_read_by_the_usual_tools(index: Path, retrieve: Program, tmp_path: Path) -> None:
    file = created(retrieve)["file"]
    with zstandard.open(file, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        archive.extractall(tmp_path / "out", filter="data")
    manifest = json.loads((tmp_path / "out" / "generation" / "manifest.json").read_text())
    files = {path.name for path in (tmp_path / "out" / "generation").iterdir()}
    assert manifest["files"].keys() == files - {"manifest.json"}
    for name, entry in manifest["files"].items():
        assert hashlib.sha1((tmp_path / "out" / "generation" / name).read_bytes()).hexdigest() == entry["sha1"]


def test_no_secret_and_no_configuration_is_in_a_snapshot(catalog: Path, retrieve: Program) -> None:
    for place in running(SimpleNamespace(server=Server(lambda _: Answer(catalog.read_bytes())))):
        url = f"http://127.0.0.1:{place.server.server_port}/tools.jsonl?sig=topsecret"
        Path("config.yaml").write_text(
            f"sources: [{{kind: http, url: '{url}'}}]\n"
            "rerank: {base_url: 'https://example.org/v1?sig=hunter2', api_key_env: RERANK_KEY}\n"
        )
        assert retrieve("build").code == 0
    file = created(retrieve)["file"]
    with zstandard.open(file, "rb") as stream:
        content = stream.read()
    assert b"tools.jsonl?\\u2026" in content
    assert not any(secret in content for secret in (b"topsecret", b"hunter2", b"RERANK_KEY"))


def test_nothing_is_overwritten_without_force(index: Path, retrieve: Program) -> None:
    Path("mine.tar.zst").write_bytes(b"my own")
    assert "--force" in refused(retrieve, "snapshot", "create", "mine.tar.zst")
    assert Path("mine.tar.zst").read_bytes() == b"my own"
    assert retrieve("snapshot", "create", "mine.tar.zst", "--force").code == 0
    assert retrieve("snapshot", "verify", "mine.tar.zst").code == 0
    assert retrieve("snapshot", "create", "mine.tar.zst").code == 2


def test_an_older_generation_is_chosen_by_its_id(index: Path, catalog: Path, retrieve: Program) -> None:
    old = (index / "current").read_text().strip()
    write_catalog(catalog, TOOLS[:3])
    assert retrieve("sync").code == 0
    snapshot = created(retrieve, "--generation", old[:6])
    assert snapshot["generation"] == old
    assert retrieve("snapshot", "create", "--generation", "ffff").code == 2
    reported(retrieve, "restore", snapshot["file"])
    assert (index / "current").read_text().strip() == old


def test_a_damaged_generation_is_replaced_by_its_sound_snapshot(index: Path, retrieve: Program) -> None:
    snapshot = created(retrieve)
    damaged = index / "generations" / snapshot["generation"] / "chunks.jsonl"
    damage(damaged, 5)
    assert retrieve("inspect", "verify").code == 5
    assert retrieve("snapshot", "create", "other.tar.zst").code == 5
    assert not Path("other.tar.zst").exists()
    reported(retrieve, "restore", snapshot["file"])
    assert retrieve("inspect", "verify").code == 0


def test_a_timer_writes_what_is_new_and_deletes_the_oldest(
    index: Path, catalog: Path, retrieve: Program, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    assert retrieve("snapshot", "create", folder, "--keep", 2).code == 2
    folder.mkdir()
    (folder / "notes.tar.zst").write_bytes(b"not ours")
    (folder / "0123456789ab-cdef01.tar.zst").write_bytes(b"not ours either")
    files = []
    for number in range(4):
        renamed(catalog, number)
        retrieve("sync")
        first = created(retrieve, folder, "--keep", 2)
        again = created(retrieve, folder, "--keep", 2)
        assert (first["status"], again["status"], again["removed"]) == ("written", "unchanged", [])
        files.append(first["file"])
    assert first["removed"] == [files[1]]
    others = {str(folder / name) for name in ("notes.tar.zst", "0123456789ab-cdef01.tar.zst")}
    assert {str(path) for path in folder.iterdir()} == {*others, *files[2:]}


def test_list_names_snapshots_with_sizes_and_dates(index: Path, retrieve: Program) -> None:
    snapshot = created(retrieve)
    Path("broken.tar.zst").write_bytes(b"what is this")
    found = reported(retrieve, "list")
    sound, broken = found["snapshots"]
    assert (sound["file"], sound["bytes"]) == (snapshot["file"], Path(snapshot["file"]).stat().st_size)
    assert (sound["generation"], sound["records"]) == (snapshot["generation"], 5)
    assert "not a sound snapshot" in broken["fault"]
    shown = retrieve("snapshot", "list").out
    assert snapshot["file"] in shown
    assert snapshot["created"][:10] in shown
    assert retrieve("snapshot", "list", "nowhere").code == 2


def test_what_is_no_file_is_a_usage_error(index: Path, retrieve: Program, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("nothing.tar.zst", str(tmp_path), "pipe"):
        assert retrieve("snapshot", "verify", name).code == 2
        assert retrieve("snapshot", "restore", name).code == 2
    assert retrieve("snapshot", "create", "nowhere/x.tar.zst").code == 2
    assert retrieve("snapshot", "create", "pipe", "--force").code == 2
    assert retrieve("snapshot", "create", "x.tar.zst", "--keep", 3).code == 2
    assert retrieve("snapshot", "create", "--keep", 0).code == 2
    assert retrieve("snapshot", "create", "--artifacts", "empty").code == 4


def test_another_writer_keeps_a_restore_out(index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    from retrieve_cli.storage.store import Store

    monkeypatch.setenv("RETRIEVE_SYNC__WAIT", "0")
    file = created(retrieve)["file"]
    with Store(index).writer():
        assert retrieve("snapshot", "restore", file).code == 7
        assert created(retrieve, "during.tar.zst")["status"] == "written"
