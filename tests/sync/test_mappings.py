"""A catalog with keys of its own: mapped by hand, renamed, or inferred, the index is the same to the byte."""

import csv
import json
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from samples import Program
from sync.state import contents, live

from retrieve_cli.contracts import Record
from retrieve_cli.sources.catalogs.inferred import infer
from retrieve_cli.sources.fields import FieldMap, record_from

RAW: list[dict[str, Any]] = [
    {
        "Package": f"tool-{number}",
        "Summary": f"Segments the {organ} in volumes, number {number}",
        "Homepage": f"https://x.org/{organ}",
        "Tag": [organ, "volume"],
        "License": "MIT",
        "Version": f"{number}.{number}.1",
        "Released": f"2020-01-{number:02}",
        "deep": {"Package": "not this"},
    }
    for number, organ in enumerate(["lung", "brain", "heart", "liver", "skin"] * 3, 1)
]
MAPPING = {"Package": "name", "Summary": "description", "Homepage": "url", "Tag": "keywords", "License": "license"}


def renamed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {MAPPING.get(key, key): value for key, value in row.items()}


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    def cell(value: object) -> object:
        return json.dumps(value) if isinstance(value, list) else value

    flat = [{key: cell(value) for key, value in row.items() if key != "deep"} for row in rows]
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(flat[0]))
        table.writeheader()
        table.writerows(flat)


@pytest.mark.parametrize(("name", "write"), [("tools.jsonl", write_lines), ("tools.csv", write_csv)])
def test_mapped_renamed_and_inferred_keys_give_the_same_records(
    name: str, write: Callable[..., None], tmp_path: Path, retrieve: Program
) -> None:
    for folder, rows in (("raw", RAW), ("renamed", map(renamed, RAW))):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / name, rows)
    inferred = retrieve("build", f"raw/{name}", "--artifacts", "inferred")
    assert inferred.code == 0, inferred.err
    shown = inferred.err.partition("catalog:\n")[2]
    for key, field in MAPPING.items():
        assert f"    {key}: {field}\n" in shown
    assert retrieve("build", f"renamed/{name}", "--artifacts", "other").code == 0
    (tmp_path / "config.yaml").write_text(json.dumps({"catalog": {"fields": MAPPING}}))
    assert retrieve("build", f"raw/{name}", "--artifacts", "mapped").code == 0
    assert artifacts_of("inferred") == artifacts_of("other") == artifacts_of("mapped")


def artifacts_of(folder: str) -> dict[str, bytes]:
    """Every file of the index, except the one that has the digests of lines."""
    files = contents(Path(folder))
    return {name: content for name, content in files.items() if name != "offsets.pkl"}


def test_a_sync_of_a_table_reads_changed_rows_alone_and_infers_again(tmp_path: Path, retrieve: Program) -> None:
    write_csv(tmp_path / "tools.csv", RAW)
    assert retrieve("build", "tools.csv").code == 0
    assert retrieve("sync", "--json").json["status"] == "unchanged"
    write_csv(tmp_path / "tools.csv", [*RAW[:4], {**RAW[4], "Summary": "Finds moles"}, *RAW[5:]])
    (answer,) = retrieve("query", "moles tool-5", "-k", 1, "--json").json["results"]
    assert answer["freshness"] != "fresh"
    (answer,) = retrieve("query", "tool-1", "-k", 1, "--json").json["results"]
    assert answer["freshness"] == "fresh"
    done = retrieve("sync", "--json")
    assert (done.json["changed"], done.json["embedded"]) == (1, 1)
    assert retrieve("build", "tools.csv", "--artifacts", "again").code == 0
    assert retrieve("sync", "--compact").code == 0
    assert live(Path("artifacts")) == live(Path("again"))
    write_csv(
        tmp_path / "tools.csv",
        [{"Title" if key == "Package" else key: each for key, each in row.items()} for row in RAW],
    )
    notices = retrieve("sync", "--json").json["notices"]
    assert notices[-2:] == [
        "tools.csv: its keys are read as other fields than in the last generation",
        "tools.csv: key: Title (before: key: Package), so records have new ids",
    ]


def test_a_build_that_inferred_keys_names_those_that_no_field_reads(tmp_path: Path, retrieve: Program) -> None:
    write_csv(tmp_path / "tools.csv", [{**row, "Maintainer": "Somebody of a team"} for row in RAW])
    said = retrieve("build", "tools.csv").err
    assert "map them in config.yaml: Maintainer: 1, below the lines above" in said  # alone it would end the inference


def test_a_dry_run_of_a_sync_prints_a_mapping_as_lines(tmp_path: Path, retrieve: Program) -> None:
    write_csv(tmp_path / "tools.csv", RAW)
    assert retrieve("build", "tools.csv").code == 0
    write_csv(tmp_path / "tools.csv", RAW[:-1])
    said = retrieve("sync", "--dry-run").err
    assert "\n    Package: name\n" in said
    assert "\ufffd" not in said


def test_a_catalog_without_any_text_names_its_keys_and_the_setting(tmp_path: Path, retrieve: Program) -> None:
    write_lines(tmp_path / "t.jsonl", [{"a1": number, "b2": [number]} for number in range(3)])
    done = retrieve("build", "t.jsonl")
    assert done.code == 8
    assert "its keys are 'a1', 'b2'; catalog.fields in config.yaml" in done.err


# ------------------------------------------------------------------------------------------ one object


def read(item: Mapping[str, Any], mapping: Mapping[str, Any]) -> Record:
    fields = FieldMap.of({key: to if isinstance(to, tuple) else (to, None) for key, to in mapping.items()})
    record = record_from(item, fields, source="c", line=1)
    assert isinstance(record, Record), record
    return record


def test_a_mapping_keeps_the_weight_of_a_known_field_and_some_fields_are_never_text() -> None:
    item = {"a": "Name", "b": "words", "c": "i7", "d": "https://x.org", "e": "MIT", "f": "g", "g": "t", "h": "own"}
    mapping = {"a": "name", "b": ("description", 3.0), "c": ("id", 1.0), "d": "url", "e": "license", "f": "group"}
    record = read(item, {**mapping, "g": "tenant", "h": "remarks"})
    assert {field.name: field.weight for field in record.fields} == {"name": 2.0, "description": 3.0, "remarks": 1.0}
    assert (record.id, record.url, record.license, record.group) == ("i7", "https://x.org", "MIT", "g")
    assert record.metadata == {"tenant": "t", "remarks": "own"}


@pytest.mark.parametrize(
    ("item", "mapping", "text"),
    [
        ({"a": "A", "b": "B"}, {"b": "description", "a": "description"}, "B\nA"),
        ({"a": "A", "description": "D", "name": "N"}, {"a": "description"}, "N: A\nD"),
        ({"a": " ", "b": "B", "text": "T"}, {"a": "name", "b": "name"}, "B: T"),
        ({"a": "x, y", "b": ["z"], "name": "N"}, {"a": "keywords", "b": "keywords"}, "N\nKeywords: x, y, z"),
        ({"meta": {"title": "T"}, "text": "D"}, {"meta.title": "name"}, "T: D"),
    ],
)
def test_keys_of_one_field_are_collected_or_the_first_with_a_value_counts(
    item: dict[str, Any], mapping: dict[str, str], text: str
) -> None:
    assert read(item, mapping).text == text


def test_keys_that_name_different_tenants_reject_a_record() -> None:
    fields = FieldMap.of({"owner": ("tenant", None)})
    for own in ({"tenant": "a"}, {"tenant_id": "a"}):
        assert "tenant" in str(record_from({"name": "N", "owner": "b", **own}, fields, source="c", line=1))
    assert read({"name": "N", "tenant": "a", "owner": "a"}, {"owner": "tenant"}).metadata["tenant"] == "a"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5) | st.sampled_from(['"a":', "a", "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from('ab"é'), inner, max_size=3),
    max_leaves=6,
)

# ------------------------------------------------------------------------------------------ inference

PROSE = [f"A program that does {verb} with files of a kind" for verb in "sort merge split count draw find".split()]


@pytest.mark.parametrize(
    ("rows", "mapping"),
    [
        ([{"toolName": "A b", "long_description": "c"}], {"toolName": "name", "long_description": "description"}),
        ([{"Titel": "A", "Beschreibung": "B", "Schlagwörter": ["x"]}],
         {"Titel": "name", "Beschreibung": "description", "Schlagwörter": "keywords"}),
        ([{"Package": "A", "author_name": "B", "tool_id": "7"}], {"Package": "name"}),
        ([{"xa": f"n{number}", "xb": text, "xc": "https://x.org", "xd": "2020-01-02", "xe": ["u", "v"]}
          for number, text in enumerate(PROSE)],
         {"xa": "name", "xb": "description", "xe": "keywords", "xc": "url"}),
        ([{"xn": 1000 + number, "xv": f"1.{number}", "xb": text} for number, text in enumerate(PROSE * 2)],
         {"xb": "description"}),
        ([{"name": "A", "text": "B", "Summary": "both are known"}], {}),
        ([{"title": "A", "body": "B"}], {"body": "description"}),
        ([{"title": "A", "content": "B", "tags": ["t"]}], {"content": "description", "tags": "keywords"}),
        ([{"title": "A", "body": "B", "labels": [{"name": "bug"}], "user": {"login": "u"}, "html_url": "https://x.org",
           "number": 7, "state": "open"}], {"body": "description", "labels": "keywords", "html_url": "url"}),
        ([{"name": f"n{number}", "xb": text} for number, text in enumerate(PROSE)], {"xb": "description"}),
        ([{"headline": f"n{number}", "text": text} for number, text in enumerate(PROSE)], {"headline": "name"}),
        ([{"text": text, "xa": f"n{number}", "app_version": f"v{number}"} for number, text in enumerate(PROSE)], {}),
        ([{"keywords": ["k"], "xb": text} for text in PROSE], {}),
        ([{"keywords": ["k"], "Summary": text} for text in PROSE], {"Summary": "description"}),
        ([{"a": 1, "b": 2.5}], {}),
        ([], {}),
    ],
)  # fmt: skip
def test_a_mapping_is_inferred_from_names_then_values(rows: list[dict[str, Any]], mapping: dict[str, str]) -> None:
    assert infer(rows) == mapping
    shuffled = [dict(random.Random(7).sample(list(row.items()), len(row))) for row in rows]
    assert infer(shuffled) == mapping


@given(st.lists(st.dictionaries(st.text(max_size=9), JSON, max_size=4), max_size=4))
def test_nothing_makes_inference_fail(rows: list[dict[str, Any]]) -> None:
    assert infer(rows) == infer(rows)
