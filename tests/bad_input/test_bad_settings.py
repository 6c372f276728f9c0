"""Configuration that cannot be: one sentence with the file, the key and what it takes; nothing is built with it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bad_input.speech import said, said_in_json, unforeseen
from samples import Program

from retrieve_cli.config.bounds import keys_of
from retrieve_cli.config.index_settings import ChunkingRule, SourceSetting
from retrieve_cli.config.loading import load
from retrieve_cli.config.settings import Settings, section_names
from retrieve_cli.errors import RetrieveError


@pytest.mark.parametrize(
    "content",
    [
        "- a\n- b", "hello", "[1", "a: [", "a\0b", b"\x00\x01", "encoder: hashed", "encoder: [1]", "? [a]\n: b",
        "1: {a: b}", "null: {a: b}", "enc: {kind: hashed}", "encoder: {knd: hashed}", "encoder: {kind: hashd}",
        "search: {1: 2}", "search: {null: 2}", "search: {k: 0}", 'search: {k: "3"}', "search: {k: 1.5}",
        "search: {k: true}", "search: {k: null}", "search: {k: [1]}", "search: {k: .nan}", "search: {k: 2001-99-99}",
        "search: {k: " + "9" * 5000 + "}", "search: " + "[" * 3000 + "]" * 3000, "search: &a {k: *a}", "a: &a [*a]",
        "search: {mode: [hybrid]}", "search: {mode: {a: b}}", "search: {mode: off}", "fusion: {weights: {dense: -1}}",
        "fusion: {weights: {dense: .nan}}", "fusion: {weights: {dense: .inf}}", "fusion: {rrf_k: .inf}",
        "bm25: {k1: .nan}",
        "bm25: {k1: .inf}", "build: {max_fail: .nan}", "build: {max_fail: -1}", "docs: {name_weight: .inf}",
        "catalog: {fields: [a]}", "catalog: {fields: {a: [x]}}", "catalog: {fields: {a: {to: 5}}}",
        "catalog: {fields: {a: {too: x}}}", "catalog: {fields: {a: {weight: -1}}}", "catalog: {fields: {a: .inf}}",
        "catalog: {fields: {a: null}}", "models: {dir: 5}", 'models: {dir: "~nobody-of-that-name/x"}',
        '!!python/object/apply:os.system ["touch canary"]',
    ],
    ids=lambda content: repr(content[:40]),
)  # fmt: skip
def test_a_configuration_that_cannot_be_is_a_usage_error(index: Path, retrieve: Program, content: str | bytes) -> None:
    file = Path("odd.yaml")
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert "odd.yaml" in said(retrieve("query", "lungs", "--config", file), 2)
    said_in_json(retrieve("query", "lungs", "--config", file, "--json"), 2)
    assert not Path("canary").exists()


@pytest.mark.parametrize("kind", ["folder", "broken link"])
def test_a_config_yaml_here_that_cannot_be_read_is_not_passed_over_in_silence(
    index: Path, retrieve: Program, kind: str
) -> None:
    if kind == "folder":
        Path("config.yaml").mkdir()
    else:
        Path("config.yaml").symlink_to("nowhere.yaml")
    done = retrieve("query", "lungs")
    assert "config.yaml" in done.err
    assert not unforeseen(done.err)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("RETRIEVE_SEARCH__K", "0"), ("RETRIEVE_SEARCH__K", "abc"), ("RETRIEVE_SEARCH__K", ""),
        ("RETRIEVE_SEARCH__K", "[1"), ("RETRIEVE_SEARCH__K", "\udcff"), ("RETRIEVE_SEARCH__K", "9" * 5000),
        ("RETRIEVE_SERCH__K", "3"), ("RETRIEVE_SEARCH__KK", "3"), ("RETRIEVE_SEARCH__MODE", "x"),
        ("RETRIEVE___", "x"), ("RETRIEVE_SEARCH__", "x"), ("RETRIEVE_A__B__C", "x"), ("RETRIEVE_search__k", "0"),
        ("RETRIEVE_CATALOG__FIELDS", "{a: [b]}"), ("RETRIEVE_BUILD__MAX_FAIL", "5%"),
    ],
)  # fmt: skip
def test_an_environment_variable_that_cannot_be_is_named(
    index: Path, retrieve: Program, monkeypatch, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    assert name in said(retrieve("query", "lungs"), 2)


ODD: tuple[Any, ...] = (None, -1, "x", [[1]], [{"a": [1]}], {"a": {"b": [1]}})
KINDS = ("catalog", "docs", "http", "sparql", "mcp", "inbox")


def odd_settings() -> Iterator[dict[str, Any]]:
    """Every key of the configuration, and of the entries in its lists of mappings, with values of every shape."""
    for odd in ODD:
        for section in section_names():
            yield {section: odd}
            for name in getattr(getattr(Settings(), section), "__struct_fields__", ()):
                yield {section: {name: odd}}
        for key in keys_of(ChunkingRule):
            yield {"chunking": {"rules": [{"match": "a", key.name: odd}]}}
        yield from ({"sources": {"list": [entry]}} for entry in (odd, {"kind": odd}, {"path": odd}))
        for kind in KINDS:
            yield from ({"sources": {"list": [{"kind": kind, key.name: odd}]}} for key in keys_of(SourceSetting))


def test_no_value_of_any_key_is_a_fault_of_the_program(tmp_path: Path) -> None:
    faults, rejected = [], 0
    for settings in odd_settings():
        (tmp_path / "odd.yaml").write_text(json.dumps(settings))
        try:
            load(tmp_path / "odd.yaml", {})
        except RetrieveError as error:
            rejected += "odd.yaml" in str(error)
        except Exception as error:  # noqa: BLE001  any other one is a fault
            faults.append((settings, repr(error)))
    assert faults == []
    assert rejected > 1_000


@pytest.mark.parametrize("entry", ["a.jsonl", '{path: "a.jsonl"}'])
def test_a_source_without_kind_shows_the_one_to_write(catalog: Path, retrieve: Program, entry: str) -> None:
    Path("odd.yaml").write_text(f"sources: [{entry}]")
    done = retrieve("build", "--catalog", catalog, "--config", "odd.yaml")
    assert "{kind: catalog, path: 'a.jsonl'}" in said(done, 2)
