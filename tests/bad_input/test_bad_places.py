"""Paths that lead to what never ends or never answers: every command that takes a file says so and goes on."""

import os
from pathlib import Path

import pytest
from bad_input.speech import unforeseen
from samples import Program

GOLD = '{"query": "lungs", "relevant": ["lungs"]}\n'


def device(_: str) -> str:
    return "/dev/zero"


def fifo(name: str) -> str:
    os.mkfifo(name)
    return name


def sparse(name: str) -> str:
    with Path(name).open("wb") as file:
        file.truncate(2**42)
    return name


PLACES = [device, fifo, sparse]


@pytest.mark.parametrize("place", PLACES, ids=["device", "pipe", "sparse"])
@pytest.mark.parametrize(
    "words",
    [
        ("query", "lungs", "--config", "{}"),
        ("eval", "--gold", "{}"),
        ("eval", "--gold", "gold.jsonl", "--baseline", "{}"),
        ("eval", "--run", "{}", "--gold", "gold.jsonl"),
        ("eval", "--queries", "{}", "--qrels", "{}"),
        ("inspect", "diff", "--gold", "{}"),
        ("eval", "--gold", "gold.jsonl", "--with", "{}"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("index")
def test_a_file_that_never_ends_is_a_usage_error(retrieve: Program, place, words: tuple[str, ...]) -> None:
    Path("gold.jsonl").write_text(GOLD)
    name = place("strange.yaml" if "--config" in words or "--with" in words else "strange.jsonl")
    done = retrieve(*(name if word == "{}" else word for word in words))
    assert done.code == 2, done.err
    assert not unforeseen(done.err), done.err
    assert len(done.err) < 2000


@pytest.mark.parametrize("place", PLACES, ids=["device", "pipe", "sparse"])
def test_a_graph_file_that_never_ends_is_a_usage_error(retrieve: Program, catalog: Path, place) -> None:
    name = place("edges.csv")
    Path("config.yaml").write_text(f"graph: {{files: [{name}]}}")
    done = retrieve("build", "--catalog", catalog)
    assert done.code == 2, done.err
    assert not unforeseen(done.err), done.err


@pytest.mark.parametrize("place", PLACES, ids=["device", "pipe", "sparse"])
def test_a_document_that_never_ends_is_rejected_by_its_path(retrieve: Program, place) -> None:
    Path("docs").mkdir()
    Path("docs/good.md").write_text("# lungs\n\ntext")
    if place("docs/bad.md") == "/dev/zero":
        Path("docs/bad.md").symlink_to("/dev/zero")
    done = retrieve("build", "--docs-dir", "docs", "--max-fail", 1)
    assert done.code == (0 if Path("docs/bad.md").is_symlink() else 8), done.err
    assert "bad.md" in done.err + Path("artifacts/quarantine.jsonl").read_text()
    assert retrieve("query", "lungs").code == 0


def test_an_ontology_that_unfolds_to_gigabytes_is_a_usage_error(retrieve: Program, catalog: Path) -> None:
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    Path("bomb.owl").write_text(
        f'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY e0 "lollollol">{levels}]>'
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
        'xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">'
        '<rdf:Description rdf:about="http://x/a"><rdfs:label>&e9;</rdfs:label></rdf:Description></rdf:RDF>'
    )
    Path("config.yaml").write_text("graph: {files: [bomb.owl]}")
    done = retrieve("build", "--catalog", catalog)
    assert done.code == 2, done.err
    assert "declares an entity that is not a plain text" in done.err


def test_a_yaml_bomb_in_the_configuration_is_told_in_a_line(retrieve: Program, catalog: Path) -> None:
    text = "a: &a [" + ",".join(["x" * 50] * 9) + "]\n"
    text += "".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    for content in (text, "encoder: {model: " + "[" * 50_000, "encoder: {kind: &a " + "x" * 10**5 + "}"):
        Path("config.yaml").write_text(content)
        done = retrieve("build", "--catalog", catalog)
        assert done.code == 2, done.err
        assert len(done.err) < 1000


def test_a_name_with_a_nul_in_the_configuration_is_a_usage_error(retrieve: Program, catalog: Path) -> None:
    Path("config.yaml").write_text('encoder: {kind: onnx, model: "a\\0b"}')
    done = retrieve("build", "--catalog", catalog)
    assert done.code == 2, done.err
    assert "holds a NUL" in done.err


@pytest.mark.parametrize("matter", ["a: " + "[" * 50_000, "a: " + "- " * 50_000, "a: 0x" + "f" * 4000])
def test_front_matter_neither_ends_the_process_nor_the_next_sync(retrieve: Program, matter: str) -> None:
    Path("docs").mkdir()
    Path("docs/good.md").write_text("# lungs\n\ntext")
    assert retrieve("build", "--docs-dir", "docs").code == 0
    Path("docs/bad.md").write_text(f"---\n{matter}\n---\nlungs")
    done = retrieve("sync")
    assert done.code == 0, done.err
    assert retrieve("inspect", "record", "bad.md").code == 0
