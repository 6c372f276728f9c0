"""A manifest that carries its own id, and values of other types: the index is corrupt, the program is not."""

import copy
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from samples import Program
from sync.state import live

from retrieve_cli.storage.manifest import BUILT_SHA1, ID_LENGTH, sha1

SEED = int(os.environ.get("TEST_SEED", "0"))
PER_FIELD = int(os.environ.get("FORGED_PER_FIELD", "1"))
ODD: list[Any] = [None, True, -1, 2**70, 1.5, "x", "", [], [5], [[]], {}, {"x": 5}, {"x": {"y": []}}, ["x", {}]]
COMMANDS = (
    ("inspect", "status"),
    ("inspect", "history"),
    ("inspect", "verify"),
    ("query", "lungs"),
    ("sync", "--dry-run"),
    ("doctor",),
)


def allowed(command: tuple[str, ...], path: tuple[Any, ...], odd: Any) -> set[int]:
    """The exit codes of a command: 2 where sync is told of no source, or of one that is not there, and where a text
    names an encoder that is not installed."""
    untold = command[0] == "sync" and (path == ("built",) or path[:2] == ("built", "sources"))
    unknown = path[:2] == ("recipe", "encoder") and isinstance(odd, str)
    return {0, 5, *([1] if command == ("doctor",) else []), *([2] if untold else []), *([2, 6] if unknown else [])}


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value within a value."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*at, key)
        yield from paths(part, (*at, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with another one at a place."""
    forged = copy.deepcopy(value)
    at = forged
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return forged


def publish(artifacts: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest, with the id and the digest that its values give, as the current one."""
    identity = {key: part for key, part in manifest.items() if key not in ("generation", "built", BUILT_SHA1)}
    name = sha1(identity)[:ID_LENGTH]
    forged = {**manifest, "generation": name, BUILT_SHA1: sha1(manifest.get("built", {}))}
    folder = artifacts / "generations" / live(artifacts)
    (folder / "manifest.json").write_text(json.dumps(forged))
    folder.rename(folder.with_name(name))
    (artifacts / "current").write_text(name + "\n")


def test_values_of_another_type_anywhere_in_a_manifest_are_a_corrupt_index(index: Path, retrieve: Program) -> None:
    whole = json.loads((index / "generations" / live(index) / "manifest.json").read_text())
    generator = random.Random(SEED)
    outcomes = set()
    for path in paths({key: part for key, part in whole.items() if key not in ("generation", BUILT_SHA1)}):
        for odd in generator.sample(ODD, min(PER_FIELD, len(ODD))):
            publish(index, replaced(whole, path, odd))
            for command in COMMANDS if PER_FIELD > 1 else generator.sample(COMMANDS, 2):
                done = retrieve(*command)
                assert done.code in allowed(command, path, odd), (path, odd, command, done.code, done.err)
                assert "this is a bug" not in done.err, (path, odd, command, done.err)
                outcomes.add(done.code)
    assert {0, 5} <= outcomes


@pytest.mark.parametrize("name", ["../records.jsonl", "/etc/passwd", ".hidden", "", "a\0b"])
def test_a_manifest_cannot_name_a_file_outside_its_folder(index: Path, retrieve: Program, name: str) -> None:
    whole = json.loads((index / "generations" / live(index) / "manifest.json").read_text())
    publish(index, {**whole, "files": {**whole["files"], name: {"sha1": "0" * 40, "bytes": 1, "rows": None}}})

    done = retrieve("inspect", "verify", "--json")

    assert done.code == 5
    assert "is not a complete manifest" in json.loads(done.err)["error"]["message"]
