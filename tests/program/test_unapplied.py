"""Keys of the configuration that the index does not have: a query says so, doctor warns, and a sync applies them."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import pytest
from program.asking import Configure, answered
from samples import ROOT, Program

from retrieve_cli.config.saved import index_keys
from retrieve_cli.config.settings import Settings

KEYS = {
    "chunking.size": "64",
    "chunking.rules": "[{match: '*.jsonl', size: 64}]",
    "encoder.dim": "256",
    "encoder.query_prefix": "'query: '",
    "bm25.k1": "1.5",
    "bm25.unit": "chunk",
    "bm25.languages": "{'*': none}",
    "dense.enabled": "false",
    "dense.hnsw_ef_search": "64",
    "docs.name_weight": "3.0",
    "catalog.fields": "{summary: {to: description}}",
    "graph.entities": "[license]",
    "splade.model": "not-on-this-machine",
}
"""Another value of keys that shape an index, and of keys in the same sections that do not."""


@pytest.mark.parametrize("key", KEYS)
def test_a_query_notes_a_key_that_shapes_an_index_until_a_sync(
    key: str, catalog: Path, retrieve: Program, configure: Configure
) -> None:
    assert retrieve("build", "--catalog", catalog).code == 0
    section, _, name = key.partition(".")
    configure(section, **{name: KEYS[key]})
    noted = f"note: {key} " in retrieve("query", "lungs").err
    assert noted is (name in index_keys()[section])
    assert retrieve("sync").code == 0
    assert f"note: {key} " not in retrieve("query", "lungs").err


def test_every_key_that_shapes_an_index_is_one_of_the_settings() -> None:
    names = {f"{section}.{name}" for section, keys in index_keys().items() for name in keys}
    assert len(names) > 40
    assert all(attrgetter(name)(Settings()) is not ... for name in names)


@pytest.mark.parametrize("config", sorted((ROOT / "retrieve_cli" / "config" / "presets").glob("*.yaml")), ids=str)
def test_no_key_is_noted_that_the_index_was_built_with(config: Path, catalog: Path, retrieve: Program) -> None:
    """Without its models, which are not on this machine."""
    text = Path("own.yaml")
    text.write_text(config.read_text())
    if retrieve("build", "--catalog", catalog, "--config", text).code != 0:
        pytest.skip("its models or servers are not here")
    check = check_of_settings(retrieve, "--config", text)
    assert check["status"] == "ok", check


def test_the_default_configuration_written_out_says_nothing(index: Path, retrieve: Program) -> None:
    assert retrieve("query", "lungs", "--config", ROOT / "config.yaml").err == ""


def test_several_keys_are_one_note_with_the_command_that_applies_them(index: Path, retrieve: Program) -> None:
    Path("other.yaml").write_text("bm25: {unit: chunk, stemming: none, stop_words: none}\nchunking: {size: 64}\n")
    (line,) = retrieve("query", "lungs", "--config", "other.yaml").err.splitlines()
    assert line == (
        "note: other.yaml differs from the index in chunking.size (64, not set in the index), bm25.unit (chunk, auto in"
        " the index), bm25.stemming (none, auto in the index) and 1 more: retrieve sync --config other.yaml applies"
        " them"
    )
    assert retrieve("sync", "--config", "other.yaml").code == 0
    assert retrieve("query", "lungs", "--config", "other.yaml").err == ""


def test_the_note_is_not_said_quietly_nor_in_json_and_no_part_of_the_answer(index: Path, retrieve: Program) -> None:
    Path("config.yaml").write_text("chunking: {size: 64}\n")
    assert "note: chunking.size is 64 in config.yaml and not set in the index: retrieve sync applies it" in (
        retrieve("query", "lungs").err
    )
    assert retrieve("query", "lungs", "-q").err == ""
    with_key = retrieve("query", "lungs", "--json")
    assert with_key.err == ""
    Path("config.yaml").unlink()
    assert {**with_key.json, "timings_ms": None} == {**answered(retrieve, "lungs"), "timings_ms": None}


def test_doctor_warns_of_keys_that_are_not_set_any_more(
    catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_CHUNKING__COHERENCE", "true")
    assert retrieve("build", "--catalog", catalog).code == 0
    monkeypatch.delenv("RETRIEVE_CHUNKING__COHERENCE")
    assert "coherence" not in retrieve("query", "lungs").err  # no key of the configuration says so
    assert check_of_settings(retrieve) == {
        "name": "settings",
        "status": "warn",
        "message": "chunking.coherence is false by default and true in the index, until a sync",
        "fix": "retrieve sync",
    }


def check_of_settings(retrieve: Program, *flags: object) -> dict[str, str]:
    """The check of `retrieve doctor` on keys that the index does not have."""
    checks: list[dict[str, str]] = retrieve("doctor", "--json", *flags).json["checks"]
    (check,) = [each for each in checks if each["name"] == "settings"]
    return check
