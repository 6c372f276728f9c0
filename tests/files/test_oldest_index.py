"""An index of the oldest version that is read (schema 2, its first build): kept, and upgraded by a sync."""

import json
import shutil
from pathlib import Path

import pytest
from samples import Program

from retrieve_cli.storage.manifest import SCHEMA_VERSION

KEPT = Path(__file__).parent / "oldest_index"
OLDEST = "0c839cba15f4"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """The kept index beside its sources, in the working folder."""
    shutil.copytree(KEPT, tmp_path, dirs_exist_ok=True)
    return tmp_path / "index"


def test_an_index_of_the_oldest_version_answers_and_is_upgraded_by_a_sync(index: Path, retrieve: Program) -> None:
    manifest = json.loads((index / "generations" / OLDEST / "manifest.json").read_text())
    assert manifest["schema_version"] == SCHEMA_VERSION, "another version needs an index of its own here"
    asked = ("query", "zebras at dawn", "--artifacts", index, "--json")
    before = retrieve(*asked).json
    assert before["generation"] == OLDEST
    assert before["results"][0]["id"] == "zebras.md#1"
    assert retrieve("inspect", "verify", "--artifacts", index).code == 0
    report = retrieve("sync", "--artifacts", index, "--json").json
    assert (report["status"], report["kept"] + report["changed"], report["removed"]) == ("published", 4, 0)
    after = retrieve(*asked).json
    assert after["generation"] not in (OLDEST, "")
    assert [result["id"] for result in after["results"]] == [result["id"] for result in before["results"]]
    fresh = retrieve("build", "--artifacts", index.with_name("fresh"), "--json").json
    assert after["generation"] == fresh["generation"], "the newest version, as a build from scratch makes it"
    assert retrieve("sync", "--rollback", "--artifacts", index).code == 0
    assert retrieve(*asked).json["generation"] == OLDEST
