"""Values are read as people mean them, wherever a request names one."""

from __future__ import annotations

import json
import os
import unicodedata
from datetime import datetime
from pathlib import Path

import pytest
from program.asking import indexed
from samples import Program

import retrieve_cli

ROWS = [
    {"id": "a", "year": 2021, "price": 1e6, "code": "007", "released": "2024-01-05", "license": ["MIT", "GPL-3.0"]},
    {"id": "b", "year": 2021.0, "price": 10.5, "code": 7, "released": "2024-1-22", "spec": [{"volt": 12}, "x"]},
    {"id": "c", "year": "2021", "price": "9", "code": "7", "released": "2023-12-31", "spec": {"volt": "24"}},
    {
        "id": "d",
        "year": "2021.0",
        "price": None,
        "released": "2024-01-05T23:30:00-02:00",
        "site": "https://x.org/?b=1,2",
    },
    {"id": "e", "year": 2022, "price": "1e1", "released": 2024, "version": "1.10", "ok": True},
]
FOUND = {
    "year=2021": "abcd",
    "year!=2021": "e",
    "year=2021.0": "abcd",
    "year=2021,2022": "abcde",
    "year=2e3..2021": "abcd",
    "price=1e6": "a",
    "price=10.50": "b",
    "price=10": "",
    "price>=9": "abce",
    "code=007": "a",
    "code=7": "bc",
    "version=1.1": "",
    "version=1.10": "e",
    "released>=2024-01-01": "abd",
    "released>=2024-01-06T01": "bd",
    "released=2024-01-06T01": "d",
    "released=2024-01-05T00": "a",
    "released>2024-01-05": "bd",
    "released<2024": "c",
    "released=2024": "abde",
    "released=2024-01-06": "d",
    "released=2023-12..2024-01-05": "ac",
    "released=2024-01-06T01:30Z": "d",
    "released!=2024": "c",
    "!released=2024-01": "ce",
    "spec.volt=12": "b",
    "spec.volt>=12": "bc",
    "license=mit": "a",
    "license=GPL-3.0": "a",
    "site=https://x.org/?b=1,2": "d",
    "ok=TRUE": "e",
}


@pytest.fixture
def catalog(retrieve: Program) -> Path:
    return indexed(retrieve, [{**row, "name": row["id"], "description": "a pump"} for row in ROWS])


def test_filters_compare_numbers_dates_and_texts_as_what_they_are(catalog: Path, retrieve: Program) -> None:
    def ids(condition: str) -> str:
        return "".join(sorted(retrieve("query", "pump", "--list", "--filter", condition).out.split()))

    assert {condition: ids(condition) for condition in FOUND} == FOUND


def test_a_comparison_with_anything_else_names_numbers_and_dates(catalog: Path, retrieve: Program) -> None:
    done = retrieve("query", "pump", "--filter", "released>soon")
    assert (done.code, "a number or a date" in done.err, "released>2024-01-31" in done.err) == (2, True, True)


def test_facets_boosts_and_words_of_a_query_use_the_same_values(catalog: Path, retrieve: Program) -> None:
    answer = retrieve("query", "pump", "--json", "--facet", "year", "--boost", "year=2022.0:9").json
    assert answer["facets"]["year"] == [{"value": "2021", "count": 4}, {"value": "2022", "count": 1}]
    assert answer["results"][0]["doc_id"] == "e"
    assert retrieve("query", "pump released:2023-01..2023-12", "--list").out.split() == ["c"]


def test_a_file_named_on_macos_is_found_by_every_look_up(tmp_path: Path, retrieve: Program) -> None:
    name = unicodedata.normalize("NFD", "Übersicht")
    (tmp_path / "docs" / name).mkdir(parents=True)
    (tmp_path / "docs" / name / f"{name}.md").write_text("# Pump\n\nPumps move water.\n", "utf-8")
    (tmp_path / "docs" / "other.md").write_text("# Pump\n\nPumps move air.\n", "utf-8")
    assert retrieve("build", "--docs-dir", tmp_path / "docs").code == 0
    written = "Übersicht/Übersicht.md"
    for flags in (["--filter", "group=übersicht"], ["--filter", "path=ÜBERSICHT/**"], ["--doc-id", written]):
        found = retrieve("query", "pump", "--list", *flags).out.strip()
        assert unicodedata.normalize("NFC", found) == written, flags
    assert retrieve("query", f"pump [EXCLUDE:{written}]", "--list").out.split() == ["other.md"]
    assert retrieve("inspect", "record", written).code == 0
    gold = tmp_path / "gold.jsonl"
    gold.write_text(json.dumps({"query": "water", "relevant": [written]}, ensure_ascii=False) + "\n", "utf-8")
    assert retrieve("eval", "--gold", gold, "--metrics", "R@10", "--json").json["metrics"] == {"R@10": 1.0}


def test_a_number_is_an_id(tmp_path: Path) -> None:
    rows = [{"id": number, "name": f"pump {number}", "text": "a pump"} for number in (1, 2)]
    index = retrieve_cli.build(rows, tmp_path / "index")
    assert index.record(1)["id"] == index.record(1.0)["id"] == "1"
    assert [hit.id for hit in index.search("pump", doc_ids=[2]).results] == ["2#0"]
    index.delete([1])
    index.sync()
    assert [row["id"] for row in index.records()] == ["2"]


def test_the_time_of_a_file_is_the_field_modified(tmp_path: Path, retrieve: Program) -> None:
    (tmp_path / "docs").mkdir()
    for name, text, moment in [
        ("old.md", "# Pump\n\nIt moves water.", "2019-03-01T10:00:00"),
        ("new.md", "# Pump\n\nIt moves oil.", "2024-06-01T12:30:05"),
        ("own.md", "---\nmodified: 2021-01-01\n---\n# Pump\n\nIt moves air.", "2024-07-01T00:00:00"),
    ]:
        (tmp_path / "docs" / name).write_text(text, "utf-8")
        os.utime(tmp_path / "docs" / name, times=(datetime.fromisoformat(f"{moment}+00:00").timestamp(),) * 2)
    assert retrieve("build", "--docs-dir", tmp_path / "docs").code == 0
    assert retrieve("query", "pump", "--list", "--filter", "modified>=2020", "--sort", "modified").out.split() == [
        "own.md",
        "new.md",
    ]
    assert retrieve("query", "--list", "--filter", "modified=2024-06-01T12:30:05Z").out.split() == ["new.md"]
