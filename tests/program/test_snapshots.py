"""`retrieve snapshot`: a generation as one file, carried to another machine, where it answers the same."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from program.asking import answered, indexed, refused
from samples import TOOLS, Program, write_catalog

QUERIES = ("segment lungs", "brain [INCLUDE:align]", "count cells in microscopy", "format:DICOM tools")
SECRETS = ("hunter2", "sig=topsecret", "s3cr3t")


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
    assert file == Path(f"{(index / 'current').read_text().strip()}.tar.zst")
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


def test_documents_filters_and_groups_come_along(retrieve: Program) -> None:
    Path("docs/munich").mkdir(parents=True)
    Path("docs/munich/munich.md").write_text("# Munich\n\n## Transport\n\nTrams.\n\n## Heating\n\nWarm wells.\n")
    retrieve("build", "--docs-dir", "docs")
    reported(retrieve, "restore", created(retrieve)["file"], "--artifacts", "b")
    query = ("query", "trams", "--filter", "group=munich", "--chunks", "-k1")
    for arguments in (("inspect", "files", "--json"), query):
        first, second = (retrieve(*arguments, "--artifacts", place).out for place in ("artifacts", "b"))
        assert first == second != ""


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


def test_an_archive_is_read_by_the_usual_tools(index: Path, retrieve: Program, tmp_path: Path) -> None:
    import tarfile

    import zstandard

    file = created(retrieve)["file"]
    with zstandard.open(file, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        archive.extractall(tmp_path / "out", filter="data")
    done = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path / "out", capture_output=True)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "out" / "generation" / "manifest.json").read_text())
    files = {path.name for path in (tmp_path / "out" / "generation").iterdir()}
    assert manifest["files"].keys() == files - {"manifest.json"}


def test_no_secret_is_in_a_snapshot(catalog: Path, retrieve: Program, tmp_path: Path) -> None:
    Path("config.yaml").write_text(
        f"# the old one was https://me:hunter2@example.org/\nsources:\n- {{kind: catalog, path: {catalog}}}\n"
        "search: {k: 4}\nrerank:\n  base_url: https://example.org/v1?sig=topsecret\n  api_key_env: RERANK_KEY\n"
    )
    assert retrieve("build").code == 0
    file = created(retrieve)["file"]
    other = tmp_path / "other.yaml"
    reported(retrieve, "restore", file, "--artifacts", "b", "--write-config", other)
    import zstandard

    with zstandard.open(file, "rb") as stream:
        content = stream.read()
    assert not any(secret.encode() in content for secret in SECRETS)
    text = other.read_text()
    assert "k: 4" in text
    assert "api_key_env: RERANK_KEY" in text
    assert retrieve("query", "brain", "--artifacts", "b", "--config", other, "--no-rerank").code == 0


def test_keys_of_plug_ins_and_addresses_anywhere_are_taken_out(tmp_path: Path) -> None:
    from retrieve_cli.operations.snapshots.form import config_text, without_secrets

    (tmp_path / "c.yaml").write_text(
        "plugins:\n  mine: {api_key: s3cr3t, address: 'https://me:hunter2@example.org/', size: 3}\n"
        "  other: {max_tokens: 9, tokenizer: words, deep: [{password: s3cr3t}]}\n"
        'sources:\n- {kind: http, url: "https:\\u002f/example.org/c?sig=topsecret"}\n'
    )
    text = config_text(tmp_path / "c.yaml").decode()
    assert not any(secret in text for secret in SECRETS)
    assert "size: 3" in text
    assert "tokenizer: words" in text
    origin = {"origin": {"kind": "http", "url": "https://example.org/c?sig=topsecret", "path": "/data/a?b"}}
    assert without_secrets(origin)["origin"] == {**origin["origin"], "url": "https://example.org/c?…"}


def test_a_configuration_without_secrets_is_kept_as_it_was_written(index: Path, retrieve: Program) -> None:
    text = "# Few answers, from both retrievers.\nsearch:\n  k: 3   # not ten\n"
    Path("config.yaml").write_text(text)
    file = created(retrieve)["file"]
    Path("config.yaml").unlink()
    done = retrieve("snapshot", "restore", file)
    assert "search.k" in done.err
    assert "--write-config" in done.err
    assert not Path("config.yaml").exists()  # it is data from somewhere: nobody is configured by it unasked
    assert retrieve("snapshot", "restore", file, "--write-config", "config.yaml").code == 0
    assert Path("config.yaml").read_text() == text
    assert "exists already" in refused(retrieve, "snapshot", "restore", file, "--write-config", "config.yaml")
    assert reported(retrieve, "restore", file)["configuration_differs"] == []


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
    assert created(retrieve, "--generation", old[:6])["generation"] == old
    assert retrieve("snapshot", "create", "--generation", "ffff").code == 2
    assert reported(retrieve, "restore", f"{old}.tar.zst")["status"] == "current"
    assert (index / "current").read_text().strip() == old


def test_a_damaged_generation_is_replaced_by_its_sound_snapshot(index: Path, retrieve: Program) -> None:
    snapshot = created(retrieve)
    damaged = index / "generations" / snapshot["generation"] / "chunks.jsonl"
    damage(damaged, 5)
    assert retrieve("inspect", "verify").code == 5
    assert retrieve("snapshot", "create", "other.tar.zst").code == 5
    assert not Path("other.tar.zst").exists()
    assert reported(retrieve, "restore", snapshot["file"])["status"] == "published"
    assert retrieve("inspect", "verify").code == 0


def test_a_restore_keeps_as_many_generations_as_a_sync_does(index: Path, catalog: Path, retrieve: Program) -> None:
    file = created(retrieve)["file"]
    for number in (1, 2, 3):
        renamed(catalog, number)
        assert retrieve("sync").code == 0
    assert not (index / "generations" / Path(file).name[:12]).exists()
    assert retrieve("snapshot", "restore", file).code == 0
    kept = retrieve("inspect", "history", "--json").json
    assert len(kept) == 3
    assert kept[0]["live"]
    assert kept[0]["generation"] == Path(file).name[:12]
    write_catalog(catalog, TOOLS)
    assert retrieve("sync", "--json").json["status"] == "unchanged"


def test_a_timer_writes_what_is_new_and_deletes_the_oldest(
    index: Path, catalog: Path, retrieve: Program, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    assert retrieve("snapshot", "create", "--to", folder).code == 2
    folder.mkdir()
    (folder / "notes.tar.zst").write_bytes(b"not ours")
    (folder / "0123456789ab.tar.zst").write_bytes(b"not ours either")
    ids = []
    for number in range(4):
        renamed(catalog, number)
        retrieve("sync")
        first = created(retrieve, "--to", folder, "--keep", 2)
        again = created(retrieve, "--to", folder, "--keep", 2)
        assert (first["status"], again["status"], again["removed"]) == ("written", "unchanged", [])
        ids.append(first["generation"])
    assert first["removed"] == [str(folder / f"{ids[1]}.tar.zst")]
    names = {path.name for path in folder.iterdir()}
    assert names == {"notes.tar.zst", "0123456789ab.tar.zst", f"{ids[2]}.tar.zst", f"{ids[3]}.tar.zst"}


def test_snapshots_of_another_index_are_not_deleted(index: Path, retrieve: Program) -> None:
    indexed(retrieve, TOOLS[:2], "--artifacts", "b")
    other = created(retrieve, "--artifacts", "b", "--keep", 1)
    assert created(retrieve, "--keep", 1)["removed"] == []
    assert Path(other["file"]).exists()


def test_another_configuration_of_the_same_generation_gets_a_name_of_its_own(index: Path, retrieve: Program) -> None:
    first = created(retrieve)
    Path("config.yaml").write_text("search: {k: 3}\n")
    second = created(retrieve)
    assert second["status"] == "written"
    assert Path(second["file"]).name.startswith(first["generation"] + "-")
    assert created(retrieve)["file"] == second["file"]
    assert retrieve("snapshot", "verify", first["file"]).code == 0


def test_a_snapshot_that_was_damaged_is_noticed_by_the_next_one(index: Path, retrieve: Program) -> None:
    file = Path(created(retrieve)["file"])
    damage(file, file.stat().st_size // 2)
    assert retrieve("snapshot", "create").code == 5
    assert retrieve("snapshot", "create", "--force").code == 0
    assert retrieve("snapshot", "verify", file).code == 0


def test_list_names_snapshots_and_generations_with_sizes_and_dates(index: Path, retrieve: Program) -> None:
    snapshot = created(retrieve)
    Path("broken.tar.zst").write_bytes(b"what is this")
    found = reported(retrieve, "list")
    sound, broken = found["snapshots"]
    assert (sound["file"], sound["bytes"]) == (snapshot["file"], Path(snapshot["file"]).stat().st_size)
    assert (sound["generation"], sound["records"]) == (snapshot["generation"], 5)
    assert "not a sound snapshot" in broken["fault"]
    (generation,) = found["generations"]
    assert generation["current"]
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


def test_memory_does_not_grow_with_the_index(retrieve: Program, index: Path, tmp_path: Path) -> None:
    import tracemalloc

    from retrieve_cli.storage.store import Store

    store = Store(index)
    with store.writer(), store.scratch() as scratch:
        folder, manifest, _ = store.open()
        for path in folder.iterdir():
            if path.name in manifest.files:
                shutil.copy(path, scratch)
        with (scratch / "more.bin").open("wb") as file:
            for number in range(64):
                file.write(bytes([number]) * (3 << 20))
        rows = {name: entry.rows for name, entry in manifest.files.items() if entry.rows is not None}
        sealed = store.seal(scratch, recipe=manifest.recipe, sources=manifest.sources, rows=rows)
        store.publish(scratch, sealed, manifest.built)
    for arguments in (("create", "x.tar.zst"), ("verify", "x.tar.zst"), ("restore", "x.tar.zst", "--artifacts", "b")):
        tracemalloc.start()
        assert retrieve("snapshot", *arguments).code == 0
        assert tracemalloc.get_traced_memory()[1] < 96 << 20, arguments  # a small file is read with a buffer of 64
        tracemalloc.stop()
