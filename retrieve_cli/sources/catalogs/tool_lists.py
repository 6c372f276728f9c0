"""Lists of tools in one value of JSON or YAML: definitions by server, operations of an API, servers of a registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.tools import is_tool
from retrieve_cli.errors import UsageError
from retrieve_cli.sources.catalogs.tools import (
    DEFINITIONS,
    ToolText,
    is_definition,
    item_of,
    server_of,
    target,
    tool_item,
)
from retrieve_cli.sources.values import first, strings

LISTS: Final = (*DEFINITIONS, b'"servers"', b'"paths"')
"""Keys of which one is in each such value."""
_DEEPEST: Final = 5
"""Levels of objects and lists in which lists of tools are looked for."""
_ENVELOPES: Final = frozenset({"result", "data", "response", "servers"})
"""Keys that are around tools and do not name their server."""
_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_PUBLISHED: Final = frozenset({"packages", "remotes", "repository", "websiteUrl"})
"""Keys of which each server of a registry has one."""
_REFERENCES: Final = 8
"""Most references from one part of an API to another."""


class _ToolList(NamedTuple):
    """A list of tools, with name and description of their server."""

    tools: list[Json]
    server: str
    about: str


def items_in(document: Json) -> list[dict[str, Json] | str] | None:
    """Return the objects of a catalog for the tools in a value; None if it has no definitions. Instead of a tool that
    cannot be a record, the list has the reason."""
    if not isinstance(document, Mapping):
        return None
    if isinstance(document.get("paths"), Mapping) and {"openapi", "swagger"} & document.keys():
        return list(_operations(document))
    lists = list(_lists(document, "", "", _DEEPEST))
    if any(is_definition(tool) for found in lists for tool in found.tools):
        return [_item(tool, found) for found in lists for tool in found.tools]
    return _registered(document)


def _item(tool: Json, found: _ToolList) -> dict[str, Json] | str:
    if not isinstance(tool, Mapping):
        return f"a tool of {found.server or 'the list'} is a JSON {type(tool).__name__}, not an object"
    try:
        return tool_item(tool, server=found.server, about=found.about) if found.server else item_of(tool)
    except UsageError as error:
        return error.message


def _lists(value: Mapping[str, Json], server: str, about: str, levels: int) -> Iterator[_ToolList]:
    """Yield the lists of tools in an object; `server` and `about` come from the objects around it."""
    if is_tool(value) or is_definition(value):  # whose schema may look like a list of tools
        return
    inner = {key: part for key, part in value.items() if isinstance(part, dict) or dict in map(type, _list(part))}
    if not inner:
        return
    named, described = server_of(value)
    server = named or first(strings(value.get("name"))) or server
    texts = [described, *(first(strings(value.get(key))) for key in ("description", "instructions"))]
    about = "\n".join(dict.fromkeys(filter(None, texts))) or about
    own = {key: tools for key, part in inner.items() if (tools := _tools(part))}
    for key, tools in own.items():
        yield _ToolList(tools, server if len(own) == 1 else key, about)
    for key, part in inner.items() if levels else ():
        if key in own:
            continue
        if key not in _ENVELOPES and "tools" in _object(part):  # the key is the server, and its name a title
            yield from _lists(part, key, ": ".join(filter(None, (server, about))), levels - 1)
        elif isinstance(part, dict):
            yield from _lists(part, server, about, levels - 1)
        for one in _list(part):
            if isinstance(one, dict):
                yield from _lists(one, "", "", levels - 1)


def _tools(value: Json) -> list[Json]:
    """Return the tools of a list, or of a mapping by name; nothing if no entry is a definition."""
    if isinstance(value, Mapping):
        value = [{"name": name, **tool} if isinstance(tool, Mapping) else tool for name, tool in value.items()]
    return value if isinstance(value, list) and any(map(is_definition, value)) else []


def _registered(document: Mapping[str, Json]) -> list[dict[str, Json] | str] | None:
    """Return the objects of a catalog for the servers of an MCP registry; None for another list."""
    servers = document.get("servers")
    if not isinstance(servers, list) or not servers:
        return None
    entries = [_object(_object(entry).get("server")) or _object(entry) for entry in servers]
    if not all(isinstance(entry.get("name"), str) and _PUBLISHED & entry.keys() for entry in entries):
        return None
    versions = {entry["name"]: entry for entry in entries}  # of a server with several versions, the last
    return [_server_item(entry) for entry in versions.values()]


def _server_item(entry: Mapping[str, Json]) -> dict[str, Json]:
    packages = (_object(one).get("identifier") for one in _list(entry.get("packages")))
    urls = (first(strings(_object(entry.get("repository")).get("url"))), first(strings(entry.get("websiteUrl"))))
    item = {
        "id": entry["name"],
        "name": first(strings(entry.get("title"))) or entry["name"],
        "description": entry.get("description"),
        "url": next(filter(None, urls), ""),
        "version": entry.get("version"),
        "keywords": strings(list(packages)),
    }
    return {key: value for key, value in item.items() if value}


def _operations(document: Mapping[str, Json]) -> Iterator[dict[str, Json] | str]:
    """Yield the object of each operation of an API: OpenAPI 3, or Swagger 2."""
    about = _object(document.get("info"))
    server = first(strings(about.get("title"))) or "API"
    for path, methods in document["paths"].items():
        shared = _resolved(methods, document)
        for method in _METHODS:
            operation = shared.get(method)
            if not isinstance(operation, Mapping):
                continue
            endpoint = f"{method.upper()} {path}"
            texts = (first(strings(operation.get(key))) for key in ("summary", "description"))
            text = ToolText(
                name=first(strings(operation.get("operationId"))) or endpoint,
                title="",
                description="\n".join(dict.fromkeys(filter(None, texts))),
                schema=_inputs(operation, shared, document),
                root=document,
            )
            own: dict[str, Json] = {"operation": endpoint, "keywords": strings(operation.get("tags"))}
            own |= {"deprecated": True} if operation.get("deprecated") is True else {}
            try:
                item = text.item(operation, server=server, about=first(strings(about.get("description"))))
            except UsageError as error:
                yield error.message
            else:
                yield {**item, **own}


def _inputs(operation: Mapping[str, Json], shared: Mapping[str, Json], document: Mapping[str, Json]) -> dict[str, Json]:
    """Return parameters and body of an operation as one schema."""
    listed = [part for where in (shared, operation) for part in _list(where.get("parameters"))]
    parameters = [_resolved(part, document) for part in listed]
    body = _resolved(operation.get("requestBody"), document)
    bodies = [_object(content).get("schema") for content in list(_object(body.get("content")).values())[:1]]
    bodies += [part.get("schema") for part in parameters if part.get("in") == "body"]
    properties = {
        str(part.get("name")): {**_object(part.get("schema")), **part}
        for part in parameters
        if part.get("in") != "body"
    }
    return {"properties": properties, "allOf": [_object(schema) for schema in bodies]}


def _resolved(value: Json, document: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return an object, or the one that it refers to within its document."""
    for _ in range(_REFERENCES):
        reference = _object(value).get("$ref")
        if not isinstance(reference, str):
            break
        value = target(document, reference)
    return _object(value)


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}
