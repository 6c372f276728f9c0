"""Folders that tries start from: an index of tools, guides and edges, with everything that made it beside it."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

from retrieve_cli.server.auth.keys import KeyFile
from retrieve_cli.storage.inbox import Change, Inbox, Upload

CONTROL = ("query", "segment lungs in CT", "--json", "-k", "8", "--config", "control.yaml")
"""The query whose answer tells whether the index is what it was."""
OWN = "own"
"""Name of a folder whose index has an inbox, and keys beside it."""
CONFIG = """\
sources: [{kind: catalog, path: tools.jsonl}, {kind: docs, path: docs}]
graph: {files: [edges.jsonl], entities: [keywords]}
"""
SENT = b"# A guide that was sent\n\nHow to segment lungs.\n"
"""A document that came as a file."""
_TOPICS = ("lungs in chest CT", "cells in microscopy", "brains in MRI", "vessels in angiography", "tiles of a mosaic")
_VERBS = ("Segments", "Counts", "Registers", "Stitches", "Denoises", "Converts")


def tool(number: int, version: int = 0) -> dict[str, Any]:
    """Return a record of the catalog."""
    return {
        "id": f"tool{number}",
        "name": f"{_VERBS[number % 6]}X{number}",
        "description": f"{_VERBS[number % 6]} {_TOPICS[number % 5]}. Version{version} of tool number {number}.",
        "license": ("MIT", "GPL-3.0", "BSD-3-Clause")[number % 3],
        "group": ("radiology", "microscopy")[number % 2],
        "tenant": ("acme", "globex")[number % 2],
        "keywords": [("lung", "cell", "brain")[number % 3], "image"],
        "requires_tool": [f"tool{number - 1}"] if number % 4 else [],
        "supportingData": {"datasetFormat": ("dcm", "nii.gz")[number % 2], "hasDimensionality": 2 + number % 2},
    }


def guide(number: int) -> str:
    """Return a document."""
    front = f"---\ntitle: Guide {number}\ngroup: guides\nlicense: MIT\n---\n" if number % 2 else ""
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    return f"{front}# Guide {number}\n\nHow to segment lungs, step {number}.\n\n## Details\n\n{table}"


def catalog(count: int = 40, version: int = 0) -> bytes:
    """Return a catalog of tools."""
    return "".join(json.dumps(tool(number, version)) + "\n" for number in range(count)).encode()


EDGES = b"""\
{"source": "tool1", "target": "tool2", "kind": "follows", "weight": 0.5}
{"id": "topic:imaging", "label": "imaging"}
{"source": "tool3", "target": "topic:imaging", "kind": "about"}
"""


def write(folder: Path) -> None:
    """Write what the index is built from."""
    (folder / "docs" / "more").mkdir(parents=True)
    for number in range(6):
        (folder / "docs" / ("more" if number > 3 else "") / f"guide{number}.md").write_text(guide(number))
    (folder / "tools.jsonl").write_bytes(catalog())
    (folder / "edges.jsonl").write_bytes(EDGES)
    for name in ("config.yaml", "control.yaml"):
        (folder / name).write_text(CONFIG)


def add_own(artifacts: Path) -> None:
    """Add documents and keys of callers to an index."""
    for number in range(6):
        document = json.dumps({"id": f"own{number}", "title": f"Own {number}", "text": f"Segments noses, {number}."})
        Inbox(artifacts).write([Change(f"own{number}", ("acme", None)[number % 2], document.encode())])
    own = Inbox(artifacts)
    own.write([Change("sent", None, b"{}", Upload(BytesIO(SENT), "sent.md"))])
    file = KeyFile(artifacts)
    for name, scope in (("web", "search"), ("writer", "documents:write")):
        file.create([scope], name=name, tenant="acme")
