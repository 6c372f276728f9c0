"""`retrieve_cli.open("artifacts").search("…")`: the answers of the command line, from Python."""

import json
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from program.asking import Configure
from samples import TOOLS, Program, write_catalog

import retrieve_cli
from retrieve_cli.errors import IndexCorrupt, IndexMissing, UsageError, escaped_json

WAYS: dict[str, tuple[dict[str, object], list[str]]] = {
    "plain": ({}, []),
    "two retrievers": ({"retrievers": ["bm25", "dense"]}, ["--retrievers", "bm25,dense"]),
    "of two records": ({"doc_ids": ["brain", "cells"]}, ["--doc-id", "brain", "--doc-id", "cells"]),
    "with variants": ({"also": ["skull"]}, ["--also", "skull"]),
    "with a file": ({"files": Path("scan.csv")}, ["--file", "scan.csv"]),
    "with context": ({"context": 1, "max_tokens": 50}, ["--context", "1", "--max-tokens", "50"]),
}
"""Choices of which Python takes other values than the command line, and some more: for each key of a request see
`tests/requests/test_answers.py`."""


def as_printed(answer: dict[str, object]) -> str:
    """The bytes that the command line would print, times apart."""
    return escaped_json(orjson.dumps({**answer, "timings_ms": {}}, option=orjson.OPT_INDENT_2).decode())


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_has_the_bytes_of_the_command_line(index: Path, retrieve: Program, way: str) -> None:
    Path("scan.csv").write_text("cell,area\n1,20\n2,31\n")
    choices, flags = WAYS[way]
    printed = retrieve("query", "brain scans", "--json", *flags)
    with retrieve_cli.open() as opened:
        answer = opened.search("brain scans", **choices)  # type: ignore[arg-type]
    assert as_printed(answer.to_json()) == as_printed(orjson.loads(printed.out))


def test_a_result_has_the_names_that_programs_need(index: Path) -> None:
    answer = retrieve_cli.open("artifacts").search("mosaic of tiles", k=1)
    (result,) = answer.results
    assert (result.doc_id, result.name, result.url) == ("stitch", "TileJoin", "https://example.org/tilejoin")
    assert result.id == "stitch#0"
    assert result.score == answer.to_json()["results"][0]["score"]
    assert "microscope tiles" in result.text


def test_contents_are_those_of_inspect(index: Path, retrieve: Program) -> None:
    opened = retrieve_cli.open()
    version = {"schema_version": 1}
    assert version | opened.status == retrieve("inspect", "status", "--json").json
    assert version | opened.record("lungs") == retrieve("inspect", "record", "lungs", "--json").json
    assert opened.records(filters="license=MIT") == [
        json.loads(line)
        for line in retrieve("inspect", "records", "--filter", "license=MIT", "--format", "jsonl").out.splitlines()
    ]
    assert [record["id"] for record in opened.records(limit=2)] == ["lungs", "cells"]
    assert opened.records(limit=0) == []
    assert len(opened) == 5
    assert opened.generation == (index / "current").read_text().strip()


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"kk": 3}, ["'kk'", "`k`"]),
        ({"mode": "hybird"}, ["hybird", "`hybrid`"]),
        ({"k": "3"}, ["a whole number"]),
        ({"filters": ["licence=MIT"]}, ["licence", "`license`"]),
        ({"filters": ["license=M\udcffT"]}, ["UTF-8"]),
    ],
    ids=str,
)
def test_a_choice_that_is_wrong_is_an_error_that_names_it(
    index: Path, choices: dict[str, object], words: list[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        retrieve_cli.open().search("brain", **choices)  # type: ignore[arg-type]
    assert all(word in f"{caught.value.message} {caught.value.hint}" for word in words), caught.value


def test_errors_are_those_of_the_command_line(catalog: Path, index: Path) -> None:
    with pytest.raises(IndexMissing):
        retrieve_cli.open("nowhere")
    assert not Path("nowhere").exists()
    for wrong in ({"artifacts": catalog}, {"generation": "000000000000"}, {"config": "none.yaml"}):
        with pytest.raises(UsageError):
            retrieve_cli.open(**wrong)  # type: ignore[arg-type]
    for text in ("", 3, None):
        with pytest.raises(UsageError):
            retrieve_cli.open().search(text)  # type: ignore[arg-type]
    (vectors,) = index.glob("generations/*/dense.faiss")
    vectors.write_bytes(b"?" * vectors.stat().st_size)
    with pytest.raises(IndexCorrupt):
        retrieve_cli.open().search("brain")


def test_the_configuration_is_that_of_the_command_line(index: Path, tmp_path: Path, configure: Configure) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("search: {k: 2}\n")
    assert len(retrieve_cli.open(config=other).search("brain").results) == 2
    Path("config.yaml").write_text("search: {k: 1}\n")
    assert len(retrieve_cli.open().search("brain").results) == 1
    configure("search", k=3)
    assert len(retrieve_cli.open(config=str(other)).search("brain").results) == 3


def test_refresh_opens_the_generation_that_a_build_published(index: Path, retrieve: Program, tmp_path: Path) -> None:
    opened = retrieve_cli.open()
    first = opened.generation
    pinned = retrieve_cli.open(generation=first)
    assert opened.refresh() is False
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "two.jsonl", TOOLS[:2])).code == 0
    assert opened.generation == first
    assert (opened.refresh(), pinned.refresh()) == (True, False)
    assert (len(opened), len(pinned)) == (2, 5)


def test_an_index_that_was_refreshed_or_closed_holds_no_old_generation(
    index: Path, retrieve: Program, tmp_path: Path, configure: Configure
) -> None:
    configure("store", keep=1)
    opened = retrieve_cli.open()
    opened.search("brain")
    for count in (2, 3):
        assert retrieve("build", "--catalog", write_catalog(tmp_path / "some.jsonl", TOOLS[:count])).code == 0
        opened.refresh()
        opened.search("brain")
    opened.close()
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "some.jsonl", TOOLS)).code == 0
    assert len(list((index / "generations").iterdir())) == 1
    for use in (lambda: opened.search("brain"), lambda: opened.status, opened.refresh, lambda: len(opened)):
        with pytest.raises(UsageError, match="closed"):
            use()


def test_the_package_is_typed_and_importing_it_loads_nothing_of_it() -> None:
    assert (Path(retrieve_cli.__file__).parent / "py.typed").is_file()
    code = (
        "import json, sys; before = set(sys.modules); import retrieve_cli; retrieve_cli.open; "
        "retrieve_cli.read_artifact; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) <= {"__future__", "retrieve_cli"}
