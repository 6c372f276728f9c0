"""Public collections as definitions of tools: the function catalogs and software registries of `../shared/data`."""

import json
from typing import Any

from benchmarks.process import DATA

SETS = ("sealtools", "toollinkos", "biotools", "biii")


def key(name: str, doc: str) -> str:
    """Return the id of a tool: those of several sets do not collide."""
    return f"{name}:{doc}"


def definitions(name: str) -> list[dict[str, Any]]:
    """Return the definitions of a set, each with its key as `id` and, where the set has groups, its server."""
    lines = (DATA / name / "corpus.jsonl").read_text("utf-8").splitlines()
    return [_definition(name, json.loads(line)) for line in lines]


def _definition(name: str, row: dict[str, Any]) -> dict[str, Any]:
    metadata = row["metadata"]
    server = {
        "sealtools": metadata.get("field", "").rpartition("/")[2],
        "biotools": (metadata.get("collection") or [""])[0],
    }
    title = {} if row["title"] == row["_id"] else {"title": row["title"]}
    return {
        "id": key(name, row["_id"]),
        "name": row["_id"],
        **title,
        "description": row["text"],
        "inputSchema": {"type": "object", "properties": _properties(metadata.get("parameters") or "")},
        **({"server": server[name]} if server.get(name) else {}),
    }


def _properties(parameters: str) -> dict[str, Any]:
    """Return the arguments of `name: description; name: description`."""
    parts = [part.partition(":") for part in parameters.split("; ") if part.strip()]
    return {name.strip(): {"type": "string", "description": text.strip()} for name, _, text in parts}
