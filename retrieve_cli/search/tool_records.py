"""Tools among the records of an open index, as a caller may see them; and the arguments of a tool in one line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.tools import ABOUT_SERVER, APPROVAL, SERVER, STALE, TOOL, is_tool
from retrieve_cli.errors import NotFound, UsageError, printable, quoted, shortened
from retrieve_cli.search.access import of_tenant_or_none
from retrieve_cli.untrusted.nearest import nearest

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.storage.generation import Generation

_SCHEMAS = ("inputSchema", "input_schema", "parameters")
_ARGUMENTS, _CHOICES, _LONGEST = 40, 6, 60
"""Most arguments of a line, most values or names that are listed, and most characters of each."""


class ServerTools(NamedTuple):
    """A server with its tools."""

    name: str
    description: str
    tools: int
    changed: int
    new: int
    stale: str
    """Time since when it has not answered."""

    @property
    def marks(self) -> str:
        """Its tools that are not approved, and since when it has not answered, in words."""
        counts = [f"{getattr(self, name)} {name}" for name in ("changed", "new") if getattr(self, name)]
        return ", ".join([*counts, *([f"no answer since {self.stale}"] if self.stale else [])])


class ToolRecords:
    """The tools that a caller may see."""

    def __init__(self, generation: Generation, tenant: str | None) -> None:
        self.generation = generation
        self.view = of_tenant_or_none(generation, tenant)

    @cached_property
    def rows(self) -> Mask:
        """(records,) bool: the tools."""
        rows = self._with(TOOL)
        first = int(rows.argmax()) if rows.any() else None
        return rows if first is not None and is_tool(self.generation.records[first]["metadata"]) else rows & False

    def find(self, key: str) -> list[int]:
        """Return the rows of the tools that a key names: by id, else by name, which several servers may have.

        Raises:
            NotFound: no tool is meant; the hint has the nearest key or name.
        """
        row = self.generation.row_of(key, visible=self.view.rows)
        rows = [] if row is None else [row]
        for field in (TOOL, "name"):
            column = self.view.columns.column(field)
            rows = rows or ([] if column is None else column.records_with(key))
            rows = [row for row in rows if self.rows[row]]
        if rows:
            return rows
        keys = [self.generation.record_id(row) for row in self.rows.nonzero()[0].tolist()]
        near = nearest(key, keys) or nearest(key, self._values(TOOL))
        raise NotFound(f"there is no tool {quoted(key)}", hint=f"did you mean {printable(near)}?" if near else "")

    def one(self, key: str) -> int:
        """Return the row of the only tool that a key names.

        Raises:
            NotFound: no tool is meant.
            UsageError: several tools have the name.
        """
        rows = self.find(key)
        if len(rows) > 1:
            hint = f"give the key of one: {_listed([self.generation.record_id(row) for row in rows])}"
            raise UsageError(f"{len(rows)} tools are called {quoted(key)}", hint=hint)
        return rows[0]

    def of_server(self, name: str) -> Mask:
        """Return the tools of a server, (records,) bool. Raises: UsageError: no tool has it; the nearest is named."""
        rows = self._with(SERVER, name) & self.rows
        if not rows.any():
            near, names = nearest(name, self._values(SERVER)), _listed(self._values(SERVER))
            hint = f"did you mean {printable(near)}?" if near else f"servers: {names or 'none'}"
            raise UsageError(f"there is no server {quoted(name)}", hint=hint)
        return rows

    def servers(self) -> list[ServerTools]:
        """Return the servers in order of their names, first the tools without one."""
        without = self.rows & ~self._with(SERVER)
        masks = [("", without)] if without.any() else []
        masks += [(name, self.view.columns.having(SERVER, name) & self.rows) for name in self._values(SERVER)]
        masks = [(name, rows) for name, rows in masks if rows.any()]
        changed, new = self._with(APPROVAL, "changed"), self._with(APPROVAL, "new")
        stale = self._with(STALE)
        servers = []
        for name, rows in masks:
            first = self.generation.records[int(rows.argmax())]["metadata"]
            late = rows & stale
            since = self.generation.records[int(late.argmax())]["metadata"][STALE] if late.any() else ""
            sizes = (int(each.sum()) for each in (rows, rows & changed, rows & new))
            servers.append(ServerTools(name, str(first.get(ABOUT_SERVER) or ""), *sizes, shortened(str(since))))
        return servers

    def _with(self, field: str, value: str | None = None) -> Mask:
        """Return the records with a field, or with a value of it, (records,) bool."""
        rows = np.zeros(len(self.generation.records), np.bool_)
        column = self.view.columns.column(field)
        if column is not None and column.name == field:
            rows[column.records if value is None else column.records_with(value)] = True
        return rows

    def _values(self, field: str) -> list[str]:
        column = self.view.columns.column(field)
        return [] if column is None else list(dict.fromkeys(column.text(value) for value in range(len(column))))


def _listed(names: list[str]) -> str:
    shown = ", ".join(shortened(name, _LONGEST) for name in names[:_CHOICES])
    return printable(f"{shown} and {len(names) - _CHOICES} more" if len(names) > _CHOICES else shown)


def schema_key(definition: Mapping[str, Json]) -> str:
    """Return the key of the schema of a tool's arguments; empty without one."""
    return next((key for key in _SCHEMAS if isinstance(definition.get(key), Mapping)), "")


def arguments_line(definition: Mapping[str, Json]) -> str:
    """Return the arguments of a tool in one line, required ones first: `repo_path, max_count?: integer = 10`."""
    schema = definition.get(schema_key(definition), {})
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return ""
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    names = sorted(properties, key=lambda name: name not in needed)
    shown = [_argument(name, properties[name], needed=name in needed) for name in names[:_ARGUMENTS]]
    return ", ".join([*shown, *([f"and {len(names) - _ARGUMENTS} more"] if len(names) > _ARGUMENTS else [])])


def _argument(name: str, schema: Json, *, needed: bool) -> str:
    inner = schema if isinstance(schema, Mapping) else {}
    kind, default = _kind(inner), inner.get("default")
    shown = f"{shortened(name, _LONGEST)}{'' if needed else '?'}{f': {kind}' if kind not in ('', 'string') else ''}"
    if isinstance(default, str | int | float) and default != "":
        value = str(default).lower() if isinstance(default, bool) else str(default)
        shown += f" = {shortened(value, _LONGEST)}"
    return printable(shown)


def _kind(schema: Mapping[str, Json]) -> str:
    """Return the type of an argument: `integer`, `fast|slow`; null is no alternative."""
    if isinstance(values := schema.get("enum"), list) and values:
        more = ["…"] if len(values) > _CHOICES else []
        return "|".join([*(shortened(str(value), _LONGEST) for value in values[:_CHOICES]), *more])
    parts = [schema]
    for key in ("anyOf", "oneOf"):
        parts += schema[key][:_CHOICES] if isinstance(schema.get(key), list) else []
    kinds = [part.get("type") for part in parts if isinstance(part, Mapping)]
    names = [name for kind in kinds for name in (kind if isinstance(kind, list) else [kind]) if isinstance(name, str)]
    return "|".join(dict.fromkeys(shortened(name, _LONGEST) for name in names[:_CHOICES] if name != "null"))
