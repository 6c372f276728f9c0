"""How documents are cut, seen from the command line: rules by file, titles of sections, headers of cut tables."""

import itertools
from pathlib import Path
from typing import Any

import yaml
from samples import Program, write_catalog

PROSE = "The pump moves water from the lower tank to the upper one and stops when that is full. " * 3
LABEL = "INDICATIONS AND USAGE\n\nFor pain.\n\nCONTRAINDICATIONS\n\nNone.\n"
PAPER = "Introduction\n\nCells grow.\n\nMethods\n\nWe looked.\n"
REPORT = f"Findings\n{PROSE}\nOutlook\n{PROSE}\n"
ROWS = [f"| city {at} | {at * 17} thousand tonnes |" for at in range(60)]
TABLE = "\n".join(["# Emissions", "", "| city | carbon dioxide |", "|---|---|", *ROWS, ""])
FILES = {"labels/ex.txt": LABEL, "papers/cells.txt": PAPER, "papers/old/mice.txt": PAPER, "reports/a.txt": REPORT}


def build(retrieve: Program, source: Path, **chunking: Any) -> dict[str, Any]:
    """Builds an index of a catalog, or of a folder of documents; the recipe that it has."""
    Path("config.yaml").write_text(yaml.safe_dump({"chunking": chunking}))
    done = retrieve("build", source)
    assert done.code == 0, done.err
    recipe: dict[str, Any] = retrieve("inspect", "status", "--json").json["recipe"]
    return recipe


def folder(place: Path, files: dict[str, str]) -> Path:
    """The folder `docs` of these files."""
    for name, text in files.items():
        (place / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "docs" / name).write_text(text)
    return place / "docs"


def sections(retrieve: Program, record: str) -> list[str | None]:
    found = retrieve("inspect", "record", record, "--json").json["chunks"]
    return [chunk["section"] for chunk in found]


def test_the_first_rule_that_matches_a_file_decides_how_it_is_cut(tmp_path: Path, retrieve: Program) -> None:
    rules = [
        {"match": "labels/**", "markers": "drug_label"},
        {"match": "papers/*", "strategy": "imrad"},
        {"match": "**/cells.txt", "strategy": "window"},
        {"match": "reports/?.txt", "markers": ["findings", "Outlook"], "size": 80},
    ]
    plain = build(retrieve, folder(tmp_path, FILES))
    assert plain["chunking"]["docs"].keys().isdisjoint({"rules", "markers", "entities"})
    recipe = build(retrieve, tmp_path / "docs", rules=rules)
    assert sections(retrieve, "labels/ex.txt") == ["Indications and Usage", "Contraindications"]
    assert sections(retrieve, "papers/cells.txt") == ["Introduction", "Methods"]
    assert sections(retrieve, "papers/old/mice.txt") == [None]
    assert sections(retrieve, "reports/a.txt") == ["findings", "Outlook"]
    assert [rule["match"] for rule in recipe["chunking"]["docs"]["rules"]] == [rule["match"] for rule in rules]
    assert recipe["chunking"]["docs"]["rules"][3]["size"] == 80


def test_a_rule_may_name_a_source(tmp_path: Path, retrieve: Program) -> None:
    build(retrieve, folder(tmp_path, {"cells.txt": PAPER}), rules=[{"match": "docs", "strategy": "imrad"}])
    assert sections(retrieve, "cells.txt") == ["Introduction", "Methods"]
    record = {"id": "a", "name": "A", "description": "METHODS: x. RESULTS: y."}
    tools = write_catalog(tmp_path / "papers.jsonl", [record])
    build(retrieve, tools, rules=[{"match": "papers.jsonl", "strategy": "imrad"}])
    assert sections(retrieve, "a") == ["Methods", "Results"]


def test_a_window_of_a_rule_has_the_overlap_of_the_rule(tmp_path: Path, retrieve: Program) -> None:
    rules = [{"match": "*.md", "strategy": "window", "size": 32, "overlap": 12}]
    build(retrieve, folder(tmp_path, {"a.md": PROSE * 3}), rules=rules)
    chunks = retrieve("inspect", "record", "a.md", "--json").json["chunks"]
    assert len(chunks) > 3
    assert all(before["end"] > after["start"] for before, after in itertools.pairwise(chunks))


def test_markers_with_a_strategy_that_has_no_use_for_them_are_refused(tmp_path: Path, retrieve: Program) -> None:
    Path("config.yaml").write_text("chunking: {rules: [{match: a, strategy: window, markers: drug_label}]}")
    done = retrieve("build", folder(tmp_path, {"a.md": PROSE}))
    assert done.code == 2
    assert "cannot be combined with the strategy `window`" in done.err


def test_titles_that_a_record_its_metadata_or_front_matter_lists_head_sections(
    tmp_path: Path, retrieve: Program
) -> None:
    titles = {"section_titles": ["Findings", "Outlook"]}
    report = {"title": "Report", "text": REPORT}
    records = [{"id": "own", **report, **titles}, {"id": "metadata", **report, "metadata": titles}]
    build(retrieve, write_catalog(tmp_path / "r.jsonl", records), strategy="section", size=80)
    assert sections(retrieve, "own") == sections(retrieve, "metadata") == ["Findings", "Outlook"]
    build(retrieve, folder(tmp_path, {"a.txt": f"---\nsection_titles: [Findings, Outlook]\n---\n{REPORT}"}), size=80)
    assert sections(retrieve, "a.txt") == ["Findings", "Outlook"]


def test_a_catalog_is_cut_at_its_parts_where_that_is_asked_for_and_else_not(tmp_path: Path, retrieve: Program) -> None:
    record = {"id": "a", "name": "A", "description": "BACKGROUND: One. METHODS: Two. RESULTS: Three."}
    path = write_catalog(tmp_path / "a.jsonl", [record])
    for strategy, expected in (("auto", [None]), ("imrad", ["Introduction", "Methods", "Results"])):
        build(retrieve, path, strategy=strategy)
        assert sections(retrieve, "a") == expected


def test_rows_of_a_cut_table_are_shown_below_its_header(tmp_path: Path, retrieve: Program) -> None:
    build(retrieve, folder(tmp_path, {"table.md": TABLE}), size=96)
    for flags in ((), ("--context", "1"), ("--max-tokens", "1000")):
        (result,) = retrieve("query", "city 41", "-k", 1, "--json", *flags).json["results"]
        body = result["content"].removeprefix(result["header"])
        place = result["context"] if "context" in result else result["metadata"]
        assert result["header"] == "| city | carbon dioxide |\n|---|---|\n"
        assert result["content"] == result["header"] + body
        assert body == TABLE[place["start"] : place["end"]]
        assert "| city 41 |" in body
        assert result["content"].count("carbon dioxide") == 1
    (whole,) = retrieve("query", "city 41", "-k", 1, "--json", "--context", "9").json["results"]
    assert (whole["header"], whole["content"].count("carbon dioxide")) == (None, 1)
    assert "carbon dioxide" in retrieve("query", "city 41", "-k", 1, "--format", "csv").out


def test_sections_that_share_a_chunk_are_all_named(tmp_path: Path, retrieve: Program) -> None:
    text = "# Munich\n\n## Transport\n\nTrams run.\n\n## Heating\n\nHeat comes from wells.\n"
    build(retrieve, folder(tmp_path, {"munich.md": text}))
    (result,) = retrieve("query", "heating", "--json").json["results"]
    assert result["section"] == "Munich > Transport, Heating"
    assert result["sections"] == ["Munich > Transport", "Munich > Heating"]


def test_a_sync_under_other_rules_ends_where_a_build_would(tmp_path: Path, retrieve: Program) -> None:
    build(retrieve, folder(tmp_path, FILES))
    rules = [{"match": "**", "markers": "drug_label", "size": 64}]
    Path("config.yaml").write_text(yaml.safe_dump({"chunking": {"rules": rules}}))
    synced = retrieve("sync", "--json").json["generation"]
    assert sections(retrieve, "labels/ex.txt") == ["Indications and Usage", "Contraindications"]
    fresh = retrieve("build", "--docs-dir", tmp_path / "docs", "--artifacts", tmp_path / "fresh", "--json")
    assert fresh.json["generation"] == synced
