"""After any series of edits, what sync publishes is what a build from scratch would: the same id, the same bytes."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from profiles import examples
from samples import Program, write_catalog

from retrieve_cli.storage.manifest import Manifest

WORDS = "lung brain cell scan volume align stitch tile segment count the of über 画像 naïve".split()
DOCUMENT = "---\ntitle: T\ngroup: g\n---\n# H\nbody\n\n# I\nmore"
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
few = settings(
    max_examples=examples(0.5), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def fingerprint(artifacts: Path) -> tuple[str, dict[str, str]]:
    """The live generation's id and the digest of every file of it."""
    live = (artifacts / "current").read_text().strip()
    manifest = Manifest.read(artifacts / "generations" / live / "manifest.json")
    return live, {name: entry.sha1 for name, entry in manifest.files.items()}


def equals_a_fresh_build(retrieve: Program, source: list[Any], artifacts: Path) -> None:
    """Holds the live generation to one that is built in another place, without cache or predecessor."""
    fresh = artifacts.parent / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    done = retrieve("build", *source, "--artifacts", fresh, "--max-fail", 1)
    assert done.code in (0, 8), done.err
    assert fingerprint(artifacts) == fingerprint(fresh)


# ----------------------------------------------------------------------------------------------- catalogs


@st.composite
def edits(draw: st.DrawFn) -> Callable[[list[str]], list[str]]:
    """A function that edits the lines of a catalog: adds, changes, removes, moves, repeats, breaks."""
    kind = draw(st.sampled_from(["add", "change", "remove", "shuffle", "blank", "repeat", "break", "reformat", "none"]))
    at, text, name = draw(st.integers(0, 99)), draw(texts), f"t{draw(st.integers(0, 14))}"
    line = json.dumps({"id": name, "name": name, "description": text, "license": draw(st.sampled_from(["MIT", None]))})

    def edit(lines: list[str]) -> list[str]:
        place = at % (len(lines) + 1)
        if kind == "add":
            return [*lines[:place], line, *lines[place:]]
        if kind == "none" or place >= len(lines):
            return lines
        if kind == "shuffle":
            return random.Random(at).sample(lines, len(lines))
        new = {
            "change": [line],
            "remove": [],
            "blank": ["", lines[place]],
            "repeat": [lines[place]] * 2,
            "break": [lines[place], "{broken"],
            "reformat": [lines[place].replace(": ", " : ")],
        }[kind]
        return [*lines[:place], *new, *lines[place + 1 :]] or [line]

    return edit


@few
@given(series=st.lists(st.lists(edits(), min_size=1, max_size=4), min_size=1, max_size=5))
@pytest.mark.parametrize("keys", [{}, {"bm25.unit": "chunk", "chunking.size": 24}], ids=["records", "chunks"])
def test_a_catalog_after_any_edits(
    series: list[list[Callable[[list[str]], list[str]]]],
    keys: dict[str, Any],
    tmp_path: Path,
    retrieve: Program,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for key, value in keys.items():
        monkeypatch.setenv(f"RETRIEVE_{key.upper().replace('.', '__')}", str(value))
    shutil.rmtree("artifacts", ignore_errors=True)
    lines = [json.dumps({"id": f"t{n}", "name": f"tool {n}", "description": f"{WORDS[n]} " * 9}) for n in range(6)]
    path = tmp_path / "c.jsonl"
    path.write_text("\n".join(lines))
    assert retrieve("build", "--catalog", path).code == 0
    for step in series:
        for edit in step:
            lines = edit(lines)
        path.write_text("\n".join(lines))
        done = retrieve("sync", "--max-fail", 1, "--max-shrink", 1, "--json")
        assert done.code in (0, 8), done.err
        equals_a_fresh_build(retrieve, ["--catalog", path], Path("artifacts").resolve())
        again = retrieve("sync", "--json")
        assert (again.json["status"], again.json["generation"]) == ("unchanged", done.json["generation"])
        assert (again.code, again.json["quarantined"]) == (0, done.json["quarantined"])


# ------------------------------------------------------------------------------------------------ folders


@few
@given(
    series=st.lists(
        st.dictionaries(
            st.sampled_from(["a.md", "b.txt", "sub/c.md", "sub/a.md", "deep/er/d.markdown", "x.bin"]),
            st.one_of(st.none(), texts, st.sampled_from([DOCUMENT, "\xff"])),
            min_size=1,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_folder_after_any_edits(series: list[dict[str, str | None]], tmp_path: Path, retrieve: Program) -> None:
    shutil.rmtree("artifacts", ignore_errors=True)
    docs = tmp_path / "docs"
    shutil.rmtree(docs, ignore_errors=True)
    docs.mkdir()
    (docs / "always.md").write_text("# Always\nThis stays.")
    assert retrieve("build", "--docs-dir", docs).code == 0
    for step in series:
        for name, text in step.items():
            (docs / name).parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                (docs / name).unlink(missing_ok=True)
            else:
                (docs / name).write_bytes(text.encode("latin-1" if text == "\xff" else "utf-8"))
                os.utime(docs / name, (1e9, 1e9))  # the same text at another time is no edit, and keeps its time
        done = retrieve("sync", "--max-fail", 1, "--max-shrink", 1, "--json")
        assert done.code in (0, 8), done.err
        equals_a_fresh_build(retrieve, ["--docs-dir", docs], Path("artifacts").resolve())


# ------------------------------------------------------------------------------------------------- recipe

RECIPES: list[dict[str, Any]] = [
    {"bm25.k1": 2.0},
    {"bm25.unit": "chunk"},
    {"bm25.stemming": "none"},
    {"chunking.size": 24},
    {"encoder.dim": 64},
    {"dense.index": "hnsw"},
    {"catalog.fields": "{description: 3}"},
]


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_a_changed_recipe_and_changed_records_at_once(
    recipe: dict[str, Any], tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{"id": f"t{n}", "name": f"tool {n}", "description": f"{WORDS[n]} and so on " * 12} for n in range(9)]
    path = write_catalog(tmp_path / "c.jsonl", records)
    artifacts = Path("artifacts").resolve()
    assert retrieve("build", "--catalog", path).code == 0
    for key, value in recipe.items():
        monkeypatch.setenv(f"RETRIEVE_{key.upper().replace('.', '__')}", str(value))
    write_catalog(path, [*records[2:5], {"id": "new", "name": "new"}, *records[5:]])
    plan = retrieve("sync", "--dry-run", "--json").json
    assert (plan["added"], plan["removed"], plan["kept"]) == (1, 2, 7) if "fields" not in str(recipe) else plan["added"]
    assert plan["recipe"]
    assert retrieve("sync").code == 0
    equals_a_fresh_build(retrieve, ["--catalog", path], artifacts)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
    assert retrieve("sync").code == 0
    equals_a_fresh_build(retrieve, ["--catalog", path], artifacts)


def test_only_what_changed_is_embedded(tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{"id": f"t{n}", "name": f"tool {n} {WORDS[n]}"} for n in range(9)]
    path = write_catalog(tmp_path / "c.jsonl", records)
    assert retrieve("build", "--catalog", path, "--json").json["embedded"] == 9
    write_catalog(path, [*records, {"id": "new", "name": "new words"}])
    assert retrieve("sync", "--json").json["embedded"] == 1
    write_catalog(path, records)
    assert retrieve("sync", "--json").json["embedded"] == 0
    monkeypatch.setenv("RETRIEVE_BM25__STEMMING", "none")
    assert retrieve("sync", "--json").json["embedded"] == 0
    monkeypatch.setenv("RETRIEVE_ENCODER__DIM", "64")
    assert retrieve("sync", "--json").json["embedded"] == 9


@pytest.mark.parametrize("index", ["flat", "hnsw"])
def test_a_lost_cache_is_filled_from_the_live_generation(
    tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    monkeypatch.setenv("RETRIEVE_DENSE__INDEX", index)
    records = [{"id": f"t{n}", "name": f"tool {n} {WORDS[n]}"} for n in range(9)]
    path = write_catalog(tmp_path / "c.jsonl", records)
    assert retrieve("build", "--catalog", path).code == 0
    shutil.rmtree("artifacts/cache")
    write_catalog(path, records[1:])
    assert retrieve("sync", "--json").json["embedded"] == 0
    equals_a_fresh_build(retrieve, ["--catalog", path], Path("artifacts").resolve())
