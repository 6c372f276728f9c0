"""Steps that scenarios of the whole program share: index records, read an answer, read a refusal."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from samples import Program, write_catalog

Configure = Callable[..., None]
"""Sets keys of a section of the configuration in the environment."""
Batch = Callable[..., list[dict[str, Any]]]
"""Answers lines, each a text or a mapping, by the flags that follow; `code` is the exit code that they end with."""


def indexed(retrieve: Program, records: list[dict[str, Any]], *flags: object) -> Path:
    """Index records at the default place; their catalog."""
    catalog = write_catalog(Path("records.jsonl").absolute(), records)
    done = retrieve("build", "--catalog", catalog, *flags)
    assert done.code == 0, done
    return catalog


def answered(retrieve: Program, *words: object) -> dict[str, Any]:
    """The answer to a query, as JSON."""
    done = retrieve("query", *words, "--json")
    assert done.code == 0, done
    return dict(done.json)


def refused(retrieve: Program, *words: object, code: int = 2) -> str:
    """Return the message of a command that ends with this code and prints no result."""
    done = retrieve(*words)
    assert (done.code, done.out) == (code, ""), done
    return done.err


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Change the value in a JSON file, as an accident or another version may."""
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))
