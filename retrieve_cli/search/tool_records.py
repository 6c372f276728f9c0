"""Tools among the records of an open index, as a caller may see them; and the arguments of a tool in one line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.contracts.tools import ABOUT_SERVER, APPROVAL, DIGEST, SERVER, STALE, TOOL
from retrieve_cli.errors import NotFound, UsageError, printable, quoted, shortened
from retrieve_cli.search.access import of_tenant_or_none
from retrieve_cli.untrusted.nearest import nearest

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.storage.generation import Generation

_SCHEMAS = ("inputSchema", "input_schema", "parameters")
_ARGUMENTS, _CHOICES, _LONGEST = 40, 6, 60
"""Most arguments of a line, most values or names that are listed, and most characters of each."""


class ToolRecords:
    """The tools that a caller may see."""

    def __init__(self, generation: Generation, tenant: str | None) -> None:
        self.generation = generation
        self.view = of_tenant_or_none(generation, tenant)

    @cached_property
    def rows(self) -> Mask:
        """(records,) bool: the tools."""
        return self._with(DIGEST)

    def find(self, key: str) -> list[int]:
        """Return the rows of the tools that a key names: by id, else by name, which several servers may have.

        Raises:
            NotFound: no tool is meant; the hint has the nearest.
        """
        row = self.view.row_of_id(key)
        rows = self._with(TOOL, key).nonzero()[0].tolist() if row is None else [row]
        if rows := [row for row in rows if self.rows[row]]:
            return rows
        keys = [self.generation.record_id(row) for row in self.rows.nonzero()[0].tolist()]
        near = nearest(key, keys) or nearest(key, self._values(TOOL))
        raise NotFound(f"there is no tool {quoted(key)}", hint=f"did you mean {printable(near)}?" if near else "")

    def one(self, key: str) -> int:
        """Return the row of the only tool that a key names. Raises: NotFound, UsageError: none is meant, or several."""
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

    def servers(self) -> list[dict[str, Json]]:
        """Return name, number of tools, marks and description of each server, in order of their names."""
        masks = {"": self.rows & ~self._with(SERVER)}
        masks |= {name: self.view.columns.having(SERVER, name) & self.rows for name in self._values(SERVER)}
        marked = {mark: self._with(APPROVAL, mark) for mark in ("changed", "new")}
        servers = []
        for name, rows in masks.items():
            if rows.any():
                first = self.generation.records[int(rows.argmax())]["metadata"]
                counts = [f"{(rows & each).sum()} {mark}" for mark, each in marked.items() if (rows & each).any()]
                late = [f"no answer since {first[STALE]}"] if first.get(STALE) else []
                texts = {"marks": ", ".join([*counts, *late]), "description": str(first.get(ABOUT_SERVER) or "")}
                servers.append({"name": name, "tools": int(rows.sum()), **texts})
        return servers

    def _with(self, field: str, value: str | None = None) -> Mask:
        """Return the records with a field, or with a value of it, (records,) bool."""
        rows = np.zeros(len(self.generation.records), np.bool_)
        column = self.view.columns.column(field)
        if column is not None and column.name == field:
            rows[column.rows if value is None else column.rows_of(canonical(value))] = True
        return rows

    def _values(self, field: str) -> list[str]:
        column = self.view.columns.column(field)
        return [] if column is None else list(column.texts())


def _listed(names: list[str]) -> str:
    shown = ", ".join(shortened(name, _LONGEST) for name in names[:_CHOICES])
    return printable(f"{shown} and {len(names) - _CHOICES} more" if len(names) > _CHOICES else shown)


def schema_of(definition: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the schema of the arguments of a tool; of an operation of OpenAPI, parameters and fields of its body."""
    inner = definition["function"] if isinstance(definition.get("function"), Mapping) else definition
    schemas = [inner[key] for key in _SCHEMAS if isinstance(inner.get(key), Mapping)]
    parameters, body = inner.get("parameters"), inner.get("requestBody")
    listed = [one for one in parameters if isinstance(one, Mapping)] if isinstance(parameters, list) else []
    content = body.get("content") if isinstance(body, Mapping) else None
    for each in content.values() if isinstance(content, Mapping) else ():
        schemas += [each["schema"]] if isinstance(each, Mapping) and isinstance(each.get("schema"), Mapping) else []
    schema = schemas[0] if schemas else {}
    if not listed:
        return schema
    own = schema.get("properties")
    properties = {str(one.get("name")): one.get("schema", one) for one in listed}
    needed = schema.get("required")
    required = [str(one.get("name")) for one in listed if one.get("required") is True]
    return {
        "properties": {**properties, **(own if isinstance(own, Mapping) else {})},
        "required": [*required, *(needed if isinstance(needed, list) else [])],
    }


def arguments_line(definition: Mapping[str, Json]) -> str:
    """Return the arguments of a tool in one line, required ones first: `repo_path, max_count?: integer = 10`."""
    schema = schema_of(definition)
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
