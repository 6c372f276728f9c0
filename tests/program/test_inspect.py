"""`retrieve inspect`."""

import json
from pathlib import Path

import pytest
from samples import Program


def test_status_names_recipe_sources_and_files(index: Path, retrieve: Program) -> None:
    status = retrieve("inspect", "status", "--json").json
    assert status["generation"] == (index / "current").read_text().strip()
    assert (status["records"], status["chunks"]) == (5, 5)
    assert {"sources", "chunking", "encoder", "bm25", "dense", "columns", "graph"} == status["recipe"].keys()
    assert {"license", "group", "format"} <= set(status["filters"]["fields"])
    assert status["filters"]["omitted"] == {"supportingData": 1}  # objects in a list
    files = {"dense.faiss", "bm25.pkl", "chunks.jsonl", "records.jsonl", "offsets.pkl", "columns.pkl"}
    assert files == status["files"].keys()


def test_records_pass_every_filter(index: Path, retrieve: Program) -> None:
    found = retrieve("inspect", "records", "--filter", "group=neuroimaging", "--filter", "license=mit", "--json").json
    assert [record["id"] for record in found["records"]] == ["brain"]
    assert (found["matched"], found["total"]) == (1, 5)


def test_a_filter_reaches_lists_and_nested_fields(index: Path, retrieve: Program) -> None:
    found = retrieve("inspect", "records", "--filter", "formats=DICOM", "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["id"] for line in found] == ["lungs"]


def test_limit_cuts_the_list_and_says_how_many_there_are(index: Path, retrieve: Program) -> None:
    done = retrieve("inspect", "records", "--limit", 2)
    assert "2 of 5 records" in done.err
    assert "LungMapper" in done.out
    assert "WarpAlign" not in done.out
    assert "WarpAlign" in retrieve("inspect", "records", "--limit", 0).out


@pytest.mark.parametrize(("filter_", "hint"), [("licence=MIT", "license"), ("license", "license=MIT")])
def test_a_filter_that_cannot_be_meant_is_refused(index: Path, retrieve: Program, filter_: str, hint: str) -> None:
    done = retrieve("inspect", "records", "--filter", filter_)
    assert done.code == 2
    assert hint in done.err


def test_a_record_shows_what_was_indexed_and_with_which_weights(index: Path, retrieve: Program) -> None:
    record = retrieve("inspect", "record", "lungs", "--json").json
    assert record["text"].startswith("LungMapper: Segments lungs and lobes in chest CT volumes.")
    assert record["text"].endswith("format:DICOM format:3D")
    assert record["fields"]["name"] == 2.0
    assert [chunk["id"] for chunk in record["chunks"]] == ["lungs#0"]


def test_a_chunk_shows_its_terms_and_what_was_embedded(index: Path, retrieve: Program) -> None:
    chunk = retrieve("inspect", "chunk", "lungs#0", "--json").json
    assert "format:dicom" in chunk["terms"]
    assert chunk["embedded"].startswith("LungMapper: ")
    assert (chunk["source"], chunk["start_line"]) == ("tools.jsonl", 1)


@pytest.mark.parametrize(
    ("what", "id_", "hint"),
    [("record", "lung", "lungs"), ("chunk", "lungs", "#0"), ("chunk", "lungs#7", "inspect record lungs")],
)
def test_an_unknown_id_gets_the_nearest_one(index: Path, retrieve: Program, what: str, id_: str, hint: str) -> None:
    done = retrieve("inspect", what, id_)
    assert done.code == 2
    assert hint in done.err


def test_verify_passes_a_sound_index(index: Path, retrieve: Program) -> None:
    assert retrieve("inspect", "verify", "--json").json["ok"] is True


@pytest.mark.parametrize("name", ["dense.faiss", "bm25.pkl", "chunks.jsonl", "records.jsonl", "offsets.pkl"])
def test_verify_names_the_file_with_a_flipped_bit(index: Path, retrieve: Program, name: str) -> None:
    generation = (index / "current").read_text().strip()
    path = index / "generations" / generation / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    done = retrieve("inspect", "verify", "--json")
    assert done.code == 5
    assert list(done.json["faults"]) == [name]


def test_text_output_is_readable_as_yaml(index: Path, retrieve: Program) -> None:
    import yaml

    assert yaml.safe_load(retrieve("inspect", "record", "brain").out)["name"] == "BrainStrip"
