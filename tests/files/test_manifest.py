"""Digests and manifests: different things have different digests, and an altered manifest is no manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage.manifest import FileEntry, Manifest, SourceEntry, canonical, sha1
from retrieve_cli.storage.recipe import Recipe

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=6
)


def spelled(value: Any) -> str:
    """A spelling in which 1, 1.0 and True differ as they do in JSON."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{spelled(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(spelled, value)) + "]"
    return repr(value)


def manifest(**changes: Any) -> Manifest:
    parts: dict[str, Any] = {
        "recipe": Recipe(retrievers={"bm25": {"k1": 1.2}}, encoder={"name": "hashed", "dim": 256}),
        "sources": (SourceEntry("catalog", "tools", "0" * 40, 3, 1),),
        "files": {"bm25.pkl": FileEntry("1" * 40, 99, 3), "notes": FileEntry("2" * 40, 1)},
        "built": {"at": "2024-01-01"},
    }
    return Manifest(**{**parts, **changes})


def stored(folder: Path, value: Any) -> Path:
    path = folder / "manifest.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return path


# --------------------------------------------------------------------------------------------------- digests


@given(left=values, right=values)
def test_two_values_share_a_digest_only_if_they_are_the_same_value(left: Any, right: Any) -> None:
    assert (sha1(left) == sha1(right)) == (spelled(left) == spelled(right))


@given(value=values)
def test_canonical_json_is_read_back_as_the_value(value: Any) -> None:
    assert spelled(json.loads(canonical(value))) == spelled(value)


def test_integers_that_cannot_be_printed_are_damage(index: Path) -> None:
    (path,) = index.glob("generations/*/manifest.json")
    value = json.loads(path.read_text())
    with pytest.raises(IndexCorrupt):
        Manifest.of_text(json.dumps({**value, "built": {"x": 1 << 68}}), str(path))


def test_canonical_json_has_sorted_keys_no_spaces_and_plain_utf8() -> None:
    assert canonical({"b": [1, 2.5, None], "a": "ü"}) == '{"a":"ü","b":[1,2.5,null]}'.encode()


def test_lone_surrogates_have_digests_of_their_own() -> None:
    assert len({sha1(text) for text in ("\ud800", "\ud801", "\\ud800", "ud800", "\ud83d\ude00", "\U0001f600")}) == 6


def test_what_json_cannot_hold_has_no_digest() -> None:
    with pytest.raises(ValueError, match="JSON"):
        sha1(float("nan"))


# ------------------------------------------------------------------------------------------------- manifests


def test_a_manifest_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    assert Manifest.read(stored(tmp_path, manifest().to_json())) == manifest()


@pytest.mark.parametrize("card", [None, {}, {"family": "hashed"}, {"nobody": 1}])
def test_a_recipe_without_a_whole_encoder_card_has_no_encoder(card: Any) -> None:
    with pytest.raises(IndexCorrupt, match="encoder card"):
        _ = Recipe(encoder=card).encoder_card


def test_when_and_where_an_index_was_built_is_outside_its_id() -> None:
    assert manifest().id == manifest(built={"at": "2025-05-05", "host": "x"}).id


@pytest.mark.parametrize(
    "change",
    [
        {"recipe": Recipe(retrievers={"bm25": {"k1": 1.2}}, encoder={"name": "hashed", "dim": 257})},
        {"recipe": Recipe(retrievers={"bm25": {"k1": 1.3}}, encoder={"name": "hashed", "dim": 256})},
        {"sources": ()},
        {"sources": (SourceEntry("catalog", "tools", "0" * 40, 3, 2),)},
        {"files": {"bm25.pkl": FileEntry("1" * 40, 98, 3), "notes": FileEntry("2" * 40, 1)}},
        {"schema_version": 6},
    ],
    ids=["encoder", "retriever", "no sources", "refusals", "size of a file", "schema"],
)
def test_all_that_decides_an_answer_changes_the_id(change: dict[str, Any]) -> None:
    assert manifest(**change).id != manifest().id


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("recipe", {"sources": {}, "chunking": {}, "bm25": {"k1": 1.3}}),
        ("sources", []),
        ("files", {}),
        ("generation", "0" * 12),
        ("generation", None),
    ],
)
def test_an_altered_manifest_is_refused(part: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(IndexCorrupt, match="altered"):
        Manifest.read(stored(tmp_path, {**manifest().to_json(), part: value}))


@pytest.mark.parametrize("version", [2, 0, None, "3"])
def test_a_manifest_of_another_schema_is_of_another_version_of_the_program(version: Any, tmp_path: Path) -> None:
    with pytest.raises(IndexCorrupt, match="built by another version of retrieve") as refusal:
        Manifest.read(stored(tmp_path, {**manifest().to_json(), "schema_version": version}))
    assert refusal.value.hint == "run retrieve build"


@pytest.mark.parametrize("part", ["recipe", "sources", "files", "generation", "schema_version"])
def test_a_manifest_without_one_of_its_parts_is_refused(part: str, tmp_path: Path) -> None:
    value = manifest().to_json()
    del value[part]

    with pytest.raises(IndexCorrupt):
        Manifest.read(stored(tmp_path, value))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        pytest.param("[" * 100_000, id="nested too deep"),
        pytest.param('{"schema_version": 4, "recipe": NaN, "sources": [], "files": {}}', id="not a number"),
        '{"schema_version": 4, "recipe": {"sources": {}, "chunking": {}}, "sources": [{"x": 1}], "files": {}}',
        '{"schema_version": 4, "recipe": {"sources": {}, "chunking": {}, "bm25": 3}, "sources": [], "files": {}}',
    ],
)
def test_a_file_that_is_no_manifest_is_refused(content: str, tmp_path: Path) -> None:
    with pytest.raises(IndexCorrupt):
        Manifest.read(stored(tmp_path, content))


def test_a_manifest_that_is_absent_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IndexCorrupt, match="cannot read"):
        Manifest.read(tmp_path / "manifest.json")
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(IndexCorrupt, match="not valid JSON"):
        Manifest.read(tmp_path / "manifest.json")
