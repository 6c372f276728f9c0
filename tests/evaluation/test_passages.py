"""Gold lines that say where an answer stands: by file, by heading, or by both."""

import json
from pathlib import Path
from typing import Any

import pytest
from samples import Program, write_catalog

from retrieve_cli.evaluation.judgments import read_gold
from retrieve_cli.evaluation.passages import RelevantPassages, lies_in
from retrieve_cli.storage.generation import open_generation
from retrieve_cli.storage.store import Store

CITIES = {
    "munich/munich.md": "# Munich\nThe town on the Isar.\n\n## Transport\n{trams}\n\n## Heating\n{wells}\n",
    "berlin/berlin.md": "# Berlin\nThe town on the Spree.\n\n## Transport\n{trams}\n\n## Water\n{wells}\n",
    "berlin/old.md": "# History\nWhat was once there.\n",
}
TRAMS = "Trams and underground trains run in the town all day. " * 40
WELLS = "Wells of hot water lie deep under the town, and pipes lead from them. " * 40


@pytest.fixture
def cities(tmp_path: Path, retrieve: Program) -> Path:
    """An index of two towns, each section a chunk of its own."""
    for name, text in CITIES.items():
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(text.format(trams=TRAMS, wells=WELLS))
    assert retrieve("build", "--docs-dir", tmp_path / "docs").code == 0
    return tmp_path


def measured(retrieve: Program, folder: Path, *lines: dict[str, Any]) -> tuple[Any, str]:
    """What an evaluation of these gold lines says of each query, and what it says on stderr."""
    gold = write_catalog(folder / "gold.jsonl", list(lines))
    done = retrieve("eval", "--gold", gold, "--metrics", "RR@10,R@10,Rprec", "--per-query-out", "each")
    assert done.code == 0, done.err
    return [json.loads(line) for line in Path("each").read_text().splitlines()], done.err


def relevant(cities: Path, line: dict[str, Any]) -> tuple[set[str], set[str]]:
    """The chunks and records that a gold line calls relevant."""
    (cities / "one.jsonl").write_text(json.dumps({"query": "trams", **line}))
    topics = read_gold(cities / "one.jsonl")
    with open_generation(Store(Path("artifacts"))) as generation:
        found = RelevantPassages.of(generation, topics)
    return set(found.chunks["1"]), set(found.judged(topics)[0].grades)


def sections(cities: Path) -> dict[str, str]:
    with open_generation(Store(cities / "artifacts")) as generation:
        return {chunk["id"]: str(chunk["section"]) for chunk in generation.chunks}


def test_a_file_and_a_heading_pick_the_chunks_of_that_section(cities: Path) -> None:
    chunks, records = relevant(cities, {"file": "munich/munich.md", "heading": "transport"})
    expected = {id_ for id_, section in sections(cities).items() if section == "Munich > Transport"}
    assert chunks == {id_ for id_ in expected if id_.startswith("munich/munich.md#")} != set()
    assert records == {"munich/munich.md"}


def test_a_file_alone_picks_all_of_its_chunks_and_a_glob_those_of_several(cities: Path) -> None:
    everything = set(sections(cities))
    assert relevant(cities, {"file": "berlin/berlin.md"})[0] == {i for i in everything if i.startswith("berlin/berlin")}
    chunks, records = relevant(cities, {"file": "berlin/*.md"})
    assert chunks == {i for i in everything if i.startswith("berlin/")}
    assert records == {"berlin/berlin.md", "berlin/old.md"}
    assert relevant(cities, {"file": "**/munich.md"})[1] == {"munich/munich.md"}
    assert relevant(cities, {"file": "munich.md"})[1] == set()


def test_a_heading_alone_is_looked_for_everywhere_but_within_the_ids_and_the_group_that_are_named(cities: Path) -> None:
    assert relevant(cities, {"heading": "Transport"})[1] == {"munich/munich.md", "berlin/berlin.md"}
    assert relevant(cities, {"heading": "Transport", "group": "berlin"})[1] == {"berlin/berlin.md"}
    chunks, records = relevant(cities, {"heading": "Transport", "relevant": ["munich/munich.md"]})
    assert records == {"munich/munich.md"}
    assert all(id_.startswith("munich/") for id_ in chunks)


def test_a_quote_in_a_file_must_stand_in_that_file(cities: Path) -> None:
    quote = "Trams and underground trains run"
    assert {id_.partition("#")[0] for id_ in relevant(cities, {"quote": quote})[0]} == {
        "munich/munich.md",
        "berlin/berlin.md",
    }
    assert relevant(cities, {"quote": quote, "file": "berlin/berlin.md"})[1] == {"berlin/berlin.md"}


@pytest.mark.parametrize(
    ("section", "heading", "found"),
    [
        ("Munich > Transport", "transport", True),
        ("Munich > Transport", "Munich", True),
        ("Munich > Transport, Heating", "heating", False),
        ("Munich > Transport, Heating", "Transport, Heating", True),
        ("Munich > Transport > Trams", "Munich > Transport", True),
        ("Munich > Transport > Trams", "Munich > Trams", False),
        ("Munich > Public transport", "Transport", False),
        ("A > B > C", "B  >  C", True),
        ("", "Transport", False),
    ],
)
def test_a_heading_is_one_level_of_a_path_or_several_that_follow_each_other(
    section: str, heading: str, found: bool
) -> None:
    levels = [" ".join(level.casefold().split()) for level in heading.split(" > ")]
    assert lies_in(section, levels) is found


def test_documents_and_chunks_are_measured_by_place(cities: Path, retrieve: Program) -> None:
    lines = [
        {"query": "Munich trams transport", "file": "munich/munich.md", "heading": "Transport"},
        {"query": "Berlin", "file": "berlin/*.md"},
    ]
    (first, second), _ = measured(retrieve, cities, *lines)
    assert (first["RR@10"], first["chunk RR@10"]) == (1.0, 1.0)
    assert (second["R@10"], second["chunk R@10"]) == (1.0, 1.0)


def test_a_place_that_is_not_there_counts_as_missed_and_is_named(cities: Path, retrieve: Program) -> None:
    lines = [{"query": "trams", "heading": "Transport"}, {"query": "trams", "heading": "Transprot", "file": "*/*.md"}]
    (_, second), said = measured(retrieve, cities, *lines)
    assert (second["RR@10"], second["chunk RR@10"]) == (0.0, 0.0)
    assert "1 of 2 files and headings is not in the index" in said
    assert "heading 'Transprot'" in said


def test_places_none_of_which_is_there_are_an_error_with_an_example(cities: Path, retrieve: Program) -> None:
    done = retrieve("eval", "--gold", write_catalog(cities / "gold.jsonl", [{"query": "a", "file": "nowhere.md"}]))
    assert done.code == 2
    assert "none of the 1 files and headings is in the index" in done.err
    assert "berlin/berlin.md" in done.err


def test_a_run_from_elsewhere_cannot_be_judged_by_place_and_that_is_said(cities: Path, retrieve: Program) -> None:
    judged = {"query": "b", "id": "b", "relevant": ["berlin/old.md"]}
    write_catalog(cities / "gold.jsonl", [{"query": "a", "file": "x.md"}, judged])
    (cities / "run").write_text("b Q0 berlin/old.md 1 2.0 t\n")
    done = retrieve("eval", "--gold", cities / "gold.jsonl", "--run", cities / "run", "--metrics", "RR", "--json")
    assert done.json["metrics"]["RR"] == 1.0
    assert any("skipped 1 query that names a file or a heading" in note for note in done.json["notes"])


def test_the_gate_is_measured_by_the_groups_that_it_chose(
    cities: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [{"query": "Munich Isar", "group": "munich"}, {"query": "Munich Isar", "group": "berlin", "id": "wrong"}]
    without, _ = measured(retrieve, cities, *lines)
    assert all("group@gate" not in each and "gate_groups" not in each for each in without)
    monkeypatch.setenv("RETRIEVE_GATING__ENABLED", "true")
    monkeypatch.setenv("RETRIEVE_GATING__TOP_GROUPS", "1")
    (first, second), _ = measured(retrieve, cities, *lines)
    assert (first["group@gate"], first["gate_groups"]) == (1.0, ["munich"])
    assert (second["group@gate"], second["gate_groups"]) == (0.0, ["munich"])
    gold = cities / "gold.jsonl"
    assert retrieve("eval", "--gold", gold, "--json").json["metrics"]["group@gate"] == 0.5
    assert "group@gate" in retrieve("eval", "--gold", gold).out
    assert retrieve("eval", "--gold", gold, "--gate", "group@gate>=0.9").code == 9
