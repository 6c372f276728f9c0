"""`retrieve inspect`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from program.asking import Configure, indexed, refused
from samples import TOOLS, Program, write_catalog

from retrieve_cli.cli.main import program
from retrieve_cli.cli.names import COMMANDS


def test_status_names_recipe_sources_and_files(index: Path, retrieve: Program) -> None:
    status = retrieve("inspect", "status", "--json").json
    assert status["generation"] == (index / "current").read_text().strip()
    assert (status["records"], status["chunks"]) == (5, 5)
    assert {"sources", "chunking", "encoder", "bm25", "dense", "columns", "graph"} == status["recipe"].keys()
    assert {"license", "group", "format"} <= set(status["filters"]["fields"])
    assert status["filters"]["omitted"] == {}
    files = {"dense.faiss", "bm25.pkl", "chunks.jsonl", "records.jsonl", "offsets.pkl", "columns.pkl"}
    assert files == status["files"].keys()


def test_records_pass_every_filter_of_fields_lists_and_nested_fields(index: Path, retrieve: Program) -> None:
    found = retrieve("inspect", "records", "--filter", "group=neuroimaging", "--filter", "license=mit", "--json").json
    assert [record["id"] for record in found["records"]] == ["brain"]
    assert (found["matched"], found["total"]) == (1, 5)
    lines = retrieve("inspect", "records", "--filter", "formats=DICOM", "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["lungs"]


def test_limit_cuts_the_list_and_says_how_many_there_are(index: Path, retrieve: Program) -> None:
    done = retrieve("inspect", "records", "--limit", 2)
    assert "2 of 5 records" in done.err
    assert "LungMapper" in done.out
    assert "WarpAlign" not in done.out
    assert "WarpAlign" in retrieve("inspect", "records", "--limit", 0).out


def test_a_record_shows_what_was_indexed_and_with_which_weights(index: Path, retrieve: Program) -> None:
    record = retrieve("inspect", "record", "lungs", "--json").json
    assert record["text"].startswith("LungMapper: Segments lungs and lobes in chest CT volumes.")
    assert record["text"].endswith("format:DICOM format:3D")
    assert record["fields"]["name"] == 2.0
    assert [chunk["id"] for chunk in record["chunks"]] == ["lungs#0"]
    assert yaml.safe_load(retrieve("inspect", "record", "brain").out)["name"] == "BrainStrip"


def test_a_chunk_shows_its_terms_and_what_was_embedded(index: Path, retrieve: Program) -> None:
    chunk = retrieve("inspect", "chunk", "lungs#0", "--json").json
    assert "format:dicom" in chunk["terms"]
    assert chunk["embedded"].startswith("LungMapper: ")
    assert (chunk["source"], chunk["start_line"]) == ("tools.jsonl", 1)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("records", "--filter", "licence=MIT"), "license"),
        (("records", "--filter", "license"), "license=MIT"),
        (("record", "lung"), "lungs"),
        (("chunk", "lungs"), "#0"),
        (("chunk", "lungs#7"), "inspect record lungs"),
    ],
)
def test_what_cannot_be_meant_gets_the_nearest(index: Path, retrieve: Program, words: tuple[str], hint: str) -> None:
    assert hint in refused(retrieve, "inspect", *words)


def test_status_counts_what_was_rejected_and_says_where_it_is_listed(tmp_path: Path, retrieve: Program) -> None:
    path = write_catalog(tmp_path / "c.jsonl", [{"id": str(at), "name": f"tool {at}"} for at in range(30)])
    path.write_text(path.read_text() + "not JSON\n")
    assert retrieve("build", "--catalog", path).code == 8
    assert "rejected   1 item, listed in artifacts/quarantine.jsonl" in retrieve("inspect", "status").out


@pytest.mark.usefixtures("index")
def test_diff_names_records_recipe_and_moves_in_plain_lines(retrieve: Program, configure: Configure) -> None:
    configure("bm25", unit="chunk")
    assert retrieve("build", "--catalog", write_catalog(Path("tools.jsonl"), TOOLS[1:])).code == 0
    shown = retrieve("inspect", "diff", "--query", "lungs in CT").out.splitlines()
    assert shown[0].endswith(": 0 added, 0 changed, 1 removed, 4 unchanged records")
    assert shown[1] == "removed  lungs"
    assert "recipe   bm25.unit: record → chunk" in shown
    assert "queries  1 of 1 query answered differently, mean overlap of the top 10 is 80%" in shown
    assert "    − lungs (rank 1)" in shown


KNOWN = {"ID": "lungs", "QUERY": "brain", "FILE": "new.tar"}
BESIDE = {"sync": ["--rollback"], "query": ["brain"]}
"""What a command needs beside its required arguments to look an id up."""


def taking_ids() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command that takes an ID, in words, with the parameter that takes it."""
    group: Any = program()
    loaded = {name: group.commands[name].load() for name in COMMANDS if name != "help"}
    for name, top in loaded.items():
        parts = {(name, part): command for part, command in getattr(top, "commands", {}).items()} or {(name,): top}
        for words, command in parts.items():
            yield from ((words, each) for each in command.params if (each.metavar or "").strip("[]") == "ID")


@pytest.mark.parametrize(("words", "parameter"), [pytest.param(*each, id=" ".join(each[0])) for each in taking_ids()])
def test_an_unknown_id_is_an_error_in_every_command(
    index: Path, retrieve: Program, words: tuple[str, ...], parameter: Any
) -> None:
    for unknown in ("nobody", "nobody#0"):
        command: Any = program().commands[words[0]].load()  # type: ignore[attr-defined]
        for word in words[1:]:
            command = command.commands[word]
        required = [each for each in command.params if each.param_type_name == "argument" and each.required]
        given = [unknown if each.name == parameter.name else KNOWN[each.metavar] for each in required]
        flag = [option for option in parameter.opts if option.startswith("-")][:1]
        asked = flag or parameter.name not in {each.name for each in required}
        done = retrieve(*words, *BESIDE.get(words[0], []), *given, *((*flag, unknown) if asked else ()))
        assert (done.code, "nobody" in done.err, done.out) == (2, True, ""), done


def test_the_fields_of_records_have_types_shares_and_values(retrieve: Program) -> None:
    tools = [
        {"id": f"t{at}", "name": f"tool {at}", "description": "text", "price": at / 2, "released": f"2024-0{at + 1}-01",
         "version": "x" if at == 3 else f"{at}.5", **({"license": "MIT"} if at else {})}
        for at in range(4)
    ]  # fmt: skip
    indexed(retrieve, tools)
    shown = retrieve("inspect", "fields").out.splitlines()
    assert "number  100 %  price (4 records): 0 to 1.50; 0 (1), 0.5 (1), 1 (1), 1.5 (1)" in shown
    assert "text     75 %  license (3 records): MIT (3)" in shown
    fields = {field["field"]: field for field in retrieve("inspect", "fields", "--json").json["fields"]}
    types = {name: fields[name]["type"] for name in ("price", "released", "version", "license", "id")}
    assert types == {"price": "number", "released": "date", "version": "text", "license": "text", "id": "text"}
    assert (fields["license"]["share"], fields["license"]["values"]) == (0.75, [{"value": "MIT", "records": 3}])
    assert len(retrieve("inspect", "fields", "price").out.splitlines()) == 1
    assert "did you mean `price`?" in retrieve("inspect", "fields", "prise").err


def test_supporting_data_are_shown_if_there_are_some(index: Path, retrieve: Program) -> None:
    assert "supporting_data" not in retrieve("inspect", "record", "cells").out
    assert "supporting_data" not in retrieve("inspect", "record", "cells", "--json").json
    assert retrieve("inspect", "record", "lungs", "--json").json["supporting_data"]["dimensions"] == ["3D"]
