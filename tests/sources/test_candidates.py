"""Candidates of an answer as records of a catalog, and records that an index prints, built again.

The published retrieval pipeline, "Candidate Schema": `"keywords": ["segmentation", …], "license": "Apache-2.0",
"supporting_data": {"modalities": ["CT", "MRI"], "dimensions": ["3D"], "formats": ["DICOM", "NIfTI"], "demo_url": …},
"retrieval_score": 0.85`.
"""

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from samples import Program, write_catalog

from retrieve_cli.cli.main import main
from retrieve_cli.contracts import Field, Record
from retrieve_cli.operations import views
from retrieve_cli.sources.fields import FieldMap, record_from
from retrieve_cli.storage.generation import open_generation
from retrieve_cli.storage.records.rows import content_of
from retrieve_cli.storage.store import Store

KNOWN = FieldMap.of({})
CANDIDATE: dict[str, Any] = {
    "name": "TotalSegmentator",
    "description": "Automated multi-organ segmentation for CT and MRI",
    "url": "https://github.com/wasserth/TotalSegmentator",
    "keywords": ["segmentation", "medical-imaging", "CT", "MRI"],
    "license": "Apache-2.0",
    "supporting_data": {
        "modalities": ["CT", "MRI"],
        "dimensions": ["3D"],
        "formats": ["DICOM", "NIfTI"],
        "demo_url": "https://huggingface.co/spaces/x",
    },
    "retrieval_score": 0.85,
}
SCHEMA_ORG = {
    **{key: CANDIDATE[key] for key in ("name", "description", "url", "keywords", "license")},
    "supportingData": {
        "imagingModality": ["CT", "MRI"],
        "hasDimensionality": 3,
        "datasetFormat": ["dcm", "nii.gz"],
    },
    "runnableExample": "https://huggingface.co/spaces/x",
}


def read(item: dict[str, Any], fields: FieldMap = KNOWN) -> Record:
    made = record_from(item, fields, source="c.jsonl", line=1)
    assert isinstance(made, Record), made
    return made


def shown(record: Record) -> list[Any]:
    return [record.name, record.description, record.url, record.keywords, record.license, record.supporting_data,
            record.text, record.fields]  # fmt: skip


def test_a_candidate_is_the_record_of_its_schema_org_spelling() -> None:
    assert shown(read(CANDIDATE)) == shown(read(SCHEMA_ORG))
    assert read(CANDIDATE).text.endswith("format:DICOM format:NIfTI format:CT format:MRI format:3D")


def test_what_an_answer_says_of_a_candidate_is_not_of_the_record() -> None:
    first, later = (
        read({**CANDIDATE, "rank": rank, "score": 1 / rank, "retrieval_score": 1 / rank}) for rank in (1, 2)
    )
    assert content_of(first).digest == content_of(later).digest
    assert not {"rank", "score", "retrieval_score"} & first.metadata.keys()
    assert first.unread == ()
    assert read({"name": "N", "score": 3}).metadata == {"score": 3}  # a field of a catalog's own


def test_license_and_demo_are_taken_from_supporting_data_if_they_are_nowhere_else() -> None:
    data = {"license": "https://opensource.org/licenses/MIT", "demo_url": "see the site"}
    made = read({"name": "N", "supporting_data": data})
    assert (made.license, made.supporting_data["demo_url"]) == ("MIT", None)
    assert read({"name": "N", "license": "ISC", "supporting_data": data}).license == "ISC"


# --------------------------------------------------------------------------------- keys with text that no field reads

WORDS = "counts the cells of each frame"


@pytest.mark.parametrize(
    ("value", "counts"),
    [(WORDS, True), ([WORDS], True), ("肺の各葉を胸部の画像から分割", True), ("napari", False),
     ("https://x.org/a b c d e f", False), ("2024-05-01 12:00:00", False), (5, False),
     ({"name": WORDS}, False), (None, False)],
)  # fmt: skip
def test_a_key_that_no_field_reads_is_unread_if_it_has_text(value: object, counts: bool) -> None:
    item = {"name": "N", "details": value, "metadata": {"notes": WORDS}, "description": WORDS, "text": WORDS}
    assert read(item).unread == (("details",) if counts else ())
    assert read(item, FieldMap.of({"details": ("details", 1.0)})).unread == ()
    assert read(item, FieldMap.of({"details": ("details", 0.0)})).unread == ()
    assert read(item, FieldMap.of({}, ["details"])).unread == ()


def test_keys_with_text_are_named_once_with_their_count_and_the_setting(tmp_path: Path, retrieve: Program) -> None:
    odd = "\x1b[31m\u202e" + "k" * 300
    records: list[dict[str, Any]] = [
        {"id": str(at), "name": f"Tool {at}", "text": "a", "details": WORDS} for at in range(40)
    ]
    for record in records[:12]:
        record["notes"] = WORDS
    records[0][odd] = WORDS
    path = write_catalog(tmp_path / "tools.jsonl", records)
    sentence = (
        "tools.jsonl: 3 keys with text are stored but not searched: details (40 records), notes (12 records), "
        f"\ufffd[31m\ufffd{'k' * 33}… (1 record); map them in config.yaml: "
        "catalog: {fields: {details: 1, notes: 1}}"
    )
    done = retrieve("build", "--catalog", path, "--json")
    assert done.json["notices"] == [sentence]
    assert retrieve("build", "--catalog", path, "--artifacts", "other").err.count("keys with text") == 1
    Path("config.yaml").write_text("catalog: {fields: {details: 1, notes: 1}}\n")
    assert (
        retrieve("sync", "--dry-run", "--json").json["notices"][0].startswith("tools.jsonl: 1 key with text is stored")
    )
    assert retrieve("query", "counts frame", "--mode", "bm25", "--json").json["results"] == []
    assert retrieve("sync").code == 0
    assert retrieve("query", "counts frame", "--mode", "bm25", "--json").json["results"]
    write_catalog(path, [*records, {"id": "new", "name": "New", "more": WORDS}])
    assert "notices" not in retrieve("sync", "--json").json  # it has not read the other records, and counts nothing


# -------------------------------------------------------------------------------------------------------- round trip


def contents(artifacts: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Records and chunks of an index without the names of files and lines."""
    with open_generation(Store(artifacts)) as generation:
        return [without(row) for row in generation.records], [without(row) for row in generation.chunks]


def without(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in ("source", "line", "start_line", "end_line")}


def again(folder: Path, *sources: object, how: str) -> tuple[Path, Path]:
    """Build an index of the sources, and another one of the records that `inspect records` prints of the first."""
    first, second, printed = folder / "first", folder / "second", folder / "again.jsonl"
    main(["build", *map(str, sources), "--artifacts", str(first), "--quiet"])
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(["inspect", "records", how, "--artifacts", str(first)]) == 0
    printed.write_text(out.getvalue(), "utf-8")
    assert main(["build", "--catalog", str(printed), "--artifacts", str(second), "--quiet"]) == 0
    return first, second


@pytest.mark.parametrize("how", ["--json", "--format=jsonl"])
def test_the_records_that_an_index_prints_build_the_same_index(tmp_path: Path, how: str) -> None:
    """All of them: a list for people has 20."""
    long = "\n\n".join(f"Part {at}.  It segments {'lungs and lobes, ' * 40}then stops.\n * one" for at in range(9))
    records = [
        *({"id": f"t{at}", "name": f"Tool {at}", "description": WORDS, "year": at} for at in range(30)),
        {**SCHEMA_ORG, "@type": "SoftwareSourceCode", "@id": "https://x.org/a", "featureList": ["a, b", "c"]},
        {**CANDIDATE, "tenant": "a", "group": "g", "domain": "radiology", "date": "2024-05-01", "bodySite": "lung"},
        {"_id": "beir", "title": "Title: of it", "text": long, "metadata": {"domain": "d", "deep": [{"x": 1.5}]}},
        {"id": "many", "name": ["One", "Two"], "description": "short", "text": long, "license": "MIT License"},
    ]
    first, second = again(tmp_path, write_catalog(tmp_path / "tools.jsonl", records), how=how)
    assert contents(first) == contents(second)
    assert len(contents(second)[0]) == 34
    assert "spans" in contents(first)[0][-1]  # what is kept for this, and shown nowhere
    with open_generation(Store(first)) as generation:
        assert "spans" not in views.record(generation, "many")


def test_a_document_that_an_index_prints_builds_a_record_with_its_text(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "lungs.md").write_text(
        f"---\nlicense: MIT\nyear: 2024\n---\n# Lungs\n\n{WORDS}\n\n## Two\n\n{WORDS}\n"
    )
    _, second = again(tmp_path, "--docs-dir", tmp_path / "docs", how="--format=jsonl")
    [record], [chunk] = contents(second)
    assert [record[key] for key in ("id", "name", "kind", "license")] == ["lungs.md", "Lungs", "catalog", "MIT"]
    assert (record["metadata"]["year"], record["metadata"].keys()) == (2024, {"year", "modified"})
    assert chunk["text"].startswith("Lungs: # Lungs")
    assert chunk["text"].count(WORDS) == 2


def test_a_printed_record_takes_weights_and_tenants_of_the_configuration() -> None:
    row = {
        "id": "i",
        "name": "N",
        "metadata": {"owner": "a"},
        "fields": {"name": 9.0},
        "sha1": "",
        "texts": {"name": "N"},
    }
    made = read(row, FieldMap.of({"name": ("name", 3.0), "owner": ("tenant", 1.0)}))
    assert made.fields == (Field("name", "N", 3.0),)
    assert made.metadata["tenant"] == "a"
