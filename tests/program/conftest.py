"""Indexes that tests of the whole program ask: tools of several tenants, and guides that are cut into chunks."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from program.asking import Batch, Configure
from samples import TOOLS, Program, write_catalog

OWNERS = {"lungs": "acme", "cells": "ACME", "brain": "globex", "stitch": "globex"}
"""Whose a tool is; `align` is nobody's."""

TOPICS = {
    "storage": ("volumes", "snapshots", "claims"),
    "network": ("services", "gateways", "policies"),
    "security": ("secrets", "tokens", "audits"),
}
"""Groups of guides, and the guides of each."""


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Sets keys of a section of the configuration in the environment, each as the text of its value."""

    def run(section: str, /, **keys: object) -> None:
        for key, value in keys.items():
            monkeypatch.setenv(f"RETRIEVE_{section}__{key}".upper(), str(value))

    return run


@pytest.fixture
def batch(retrieve: Program, stdin: Callable[[str], None]) -> Batch:
    """Gives lines to `retrieve query - --json`, and returns what answers each."""

    def run(lines: Iterable[str | dict[str, Any]], *flags: object, code: int = 0) -> list[dict[str, Any]]:
        stdin("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
        done = retrieve("query", "-", *flags, "--json")
        assert done.code == code, done
        return [json.loads(answer) for answer in done.out.splitlines()]

    return run


@pytest.fixture
def tenants(tmp_path: Path, retrieve: Program) -> Path:
    """The artifacts folder of an index of tools that have owners, at the default place."""
    owned = [{**tool, **({"tenant": OWNERS[tool["id"]]} if tool["id"] in OWNERS else {})} for tool in TOOLS]
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "owned.jsonl", owned)).code == 0
    return Path("artifacts").resolve()


@pytest.fixture
def guides(tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of nine guides in three groups, cut into a chunk a section and indexed at the default place."""
    folder = tmp_path / "guides"
    for group, names in TOPICS.items():
        (folder / group).mkdir(parents=True)
        for name in names:
            (folder / group / f"{name}.md").write_text(guide(group, name))
    monkeypatch.setenv("RETRIEVE_CHUNKING__SIZE", "40")
    assert retrieve("build", "--docs-dir", folder).code == 0
    return folder


def guide(group: str, name: str) -> str:
    """A guide of four sections and a table."""
    rows = "\n".join(f"| {name} option {at} | changes what {group} does in case {at} | yes |" for at in range(6))
    sections = [
        f"## {title}\n\nTo {title.lower()} {name} of the cluster {group} controller, take them one by one. "
        f"Each of the {name} is {done} once and never again, whatever else happens."
        for title, done in (("Create", "created"), ("Inspect", "inspected"), ("Remove", "removed"))
    ]
    table = f"## Options\n\n| option | effect | stable |\n|---|---|---|\n{rows}"
    return f"# Guide to {name}\n\n" + "\n\n".join([*sections, table]) + "\n"
