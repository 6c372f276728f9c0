"""Whatever is damaged, nothing wrong is served or carried on, and a sync writes it anew."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from samples import Program, write_catalog
from sync.state import Fresh, Publish, live, records

FILES = ["records.jsonl", "chunks.jsonl", "offsets.pkl", "columns.pkl", "dense.faiss", "bm25.pkl"]


def flip(path: Path, where: float) -> None:
    """Another bit at a share of a file."""
    data = bytearray(path.read_bytes())
    data[int(where * (len(data) - 1))] ^= 0x10
    path.write_bytes(data)


def is_healed(retrieve: Program, artifacts: Path, wanted: str, *command: object) -> None:
    """The index is as wanted after a sync, or another command."""
    done = retrieve(*(command or ("sync",)), "-v")
    assert done.code == 0, done.err
    assert live(artifacts) == wanted
    assert retrieve("inspect", "verify").code == 0
    assert retrieve("sync", "--verify").code == 0


@pytest.mark.parametrize("where", [0.3, 1.0])
@pytest.mark.parametrize("name", FILES)
def test_a_bit_flipped_in_any_file_of_a_segment_is_carried_into_no_other(
    artifacts: Path, source: Path, fresh: Fresh, publish: Publish, retrieve: Program, name: str, where: float
) -> None:
    older = live(artifacts)
    publish([*records(0)[1:], {"id": "new", "name": "new"}])
    wanted, current = live(fresh()), live(artifacts)
    flip(artifacts / "generations" / older / name, where)
    verified = retrieve("inspect", "verify")
    assert verified.code == 5
    assert name in verified.out
    assert retrieve("sync", "--compact").code in (0, 5)
    assert live(artifacts) in (current, wanted)
    assert retrieve("query", "lungs").code in (0, 5)
    is_healed(retrieve, artifacts, wanted, "build", "--catalog", source)


@pytest.mark.parametrize("manifest", ["{", '{"schema_version": 99}'])
def test_an_unreadable_manifest_is_left_aside(
    artifacts: Path, publish: Publish, retrieve: Program, manifest: str
) -> None:
    """Where another generation still says what the source was, that is enough."""
    first = live(artifacts)
    second = publish(1)
    (artifacts / "generations" / second / "manifest.json").write_text(manifest)
    assert retrieve("query", "lungs").code == 5
    is_healed(retrieve, artifacts, second)
    assert (artifacts / "generations" / first).is_dir()
    assert list((artifacts / "generations").glob(f"{second}.damaged-*")), "nothing is deleted"


@pytest.mark.parametrize("manifest", ["{", '{"schema_version": 99}'])
def test_without_any_manifest_left_the_way_back_is_named(artifacts: Path, retrieve: Program, manifest: str) -> None:
    (artifacts / "generations" / live(artifacts) / "manifest.json").write_text(manifest)
    done = retrieve("sync", "--json")
    assert done.code == 5
    assert "retrieve build" in json.loads(done.err)["error"]["hint"]
    assert done.json["status"] == "failed"


@pytest.mark.parametrize(
    "part",
    ['"x": "\\ud800"', '"sequence": 1e999'],
)
def test_a_manifest_with_what_json_cannot_say_again(
    artifacts: Path, source: Path, retrieve: Program, part: str
) -> None:
    wanted = live(artifacts)
    Path("config.yaml").write_text(f"sources: [{{kind: catalog, path: {source.name}}}]")
    path = artifacts / "generations" / wanted / "manifest.json"
    path.write_text(path.read_text().replace('"built": {', f'"built": {{{part},'))
    assert retrieve("query", "lungs").code in (0, 5)
    assert retrieve("inspect", "history", "--json").code == 0
    is_healed(retrieve, artifacts, wanted)


def test_a_generation_in_the_folder_of_another(artifacts: Path, publish: Publish, retrieve: Program) -> None:
    first = live(artifacts)
    generations = artifacts / "generations"
    shutil.copytree(generations / first, generations / "aaaaaaaaaaaa")
    second = publish(1)
    assert {each["generation"] for each in retrieve("inspect", "history", "--json").json} == {first, second}
    assert retrieve("sync", "--rollback", "aaaa").code == 5
    assert live(artifacts) == second
    for path in (generations / first).iterdir():
        shutil.copy(path, generations / second)
    assert retrieve("query", "lungs").code == 5
    is_healed(retrieve, artifacts, second)


@pytest.mark.parametrize("name", ["bm25.pkl", "offsets.pkl", "records.jsonl", "chunks.jsonl", "dense.faiss"])
def test_a_difference_from_a_damaged_generation(
    artifacts: Path, publish: Publish, retrieve: Program, name: str
) -> None:
    first = live(artifacts)
    publish(1)
    path = artifacts / "generations" / first / name
    data = path.read_bytes()
    for at in range(0, len(data), max(1, len(data) // 8)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :])
        assert retrieve("inspect", "diff", "--query", "segment lungs").code in (0, 5)


@pytest.mark.parametrize("content", ["0123456789ab\n", "../..", None])
def test_a_current_that_points_nowhere_or_is_lost(artifacts: Path, retrieve: Program, content: str | None) -> None:
    wanted = live(artifacts)
    (artifacts / "current").unlink() if content is None else (artifacts / "current").write_text(content)
    assert retrieve("query", "lungs").code == 5
    is_healed(retrieve, artifacts, wanted)


def test_a_removed_generation(artifacts: Path, publish: Publish, retrieve: Program) -> None:
    wanted = publish(1)
    shutil.rmtree(artifacts / "generations" / wanted)
    assert retrieve("query", "lungs").code == 5
    is_healed(retrieve, artifacts, wanted)


def test_a_folder_that_may_only_be_read_still_answers(artifacts: Path, source: Path, retrieve: Program) -> None:
    place = str(artifacts)
    if subprocess.run(["mount", "--bind", place, place], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", place], check=True)
        write_catalog(source, records(1))
        assert retrieve("query", "lungs").code == 0
        assert retrieve("inspect", "verify").code == 0
        assert retrieve("sync", "--dry-run", "--json").json["changed"] == 60
        done = retrieve("sync", "--json")
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
    assert (done.code, done.json["status"]) == (1, "failed")
    assert "Read-only file system" in done.err
    assert "--artifacts" in done.err
    assert retrieve("sync").code == 0
