"""Records and generations for people at a terminal: tables and outlines, straight to a console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

_WITH_LINES = ("catalog", "markdown", "text")
"""Kinds of records whose line numbers lead somewhere."""


def print_records(rows: Sequence[Mapping[str, Json]], console: Console) -> None:
    """A table of records: id, name, group, source and, of catalogs and texts, the line."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("id", "name", "group", "source"):
        table.add_column(column, overflow="fold")
    for row in rows:
        source = f"{row['source']}:{row['line']}" if row["kind"] in _WITH_LINES else row["source"]
        cells = (row["id"], row["name"], row["group"] or "", source)
        table.add_row(*(Text(printable(str(cell))) for cell in cells))
    console.print(table)


def outline(value: Mapping[str, Json]) -> str:
    """Nested values as indented `key: value` lines (YAML)."""
    import yaml

    text = str(yaml.safe_dump(dict(value), allow_unicode=True, sort_keys=False, width=110))
    return "\n".join(map(printable, text.split("\n")))
