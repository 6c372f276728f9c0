"""Lines of a gold file, and the file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from retrieve_cli.contracts import Json
from retrieve_cli.storage import durable


def gold_line(made_by: str, number: int, query: str, grades: Mapping[str, int], group: str | None) -> dict[str, Json]:
    """Return a line of a gold file."""
    line = {"id": f"{made_by}-{number:04}", "query": query, "relevant": dict(grades)}
    return {**line, **({"group": group} if group else {}), "synthetic": made_by}


def write(lines: Iterable[Mapping[str, Json]], path: Path) -> None:
    """Replace the file with these lines in one step."""
    durable.put(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
