"""The tools as a client lists them: names, schemas and hints, and their arguments, read by the same schemas.

Every token of these is in every conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import mcp_types as types

from retrieve_cli.api.choices import SEARCH
from retrieve_cli.api.index import Index
from retrieve_cli.api.table import LISTED
from retrieve_cli.assemble.tokenizers import counter
from retrieve_cli.contracts import Json
from retrieve_cli.errors import STEP_FAILURES, UsageError, quoted
from retrieve_cli.output.compact import Count
from retrieve_cli.search import results
from retrieve_cli.untrusted.nearest import nearest

MOST_TOKENS = 2000
"""Default limit of the tokens of an answer."""
_LEAST_TOKENS, _GREATEST_TOKENS = 50, 50_000
_ALIASES: Mapping[str, str] = {
    "doc_id": "id",
    "document_id": "id",
    "record_id": "id",
    "chunk_id": "id",
    "record": "id",
    "uri": "id",
    "q": "query",
    "question": "query",
    "text": "query",
    "name": "field",
    "token_budget": "max_tokens",
    "maxTokens": "max_tokens",
    "next_cursor": "cursor",
    "items": "documents",
    "records": "documents",
}
"""Names that models invent for arguments."""
_TEXT: Mapping[str, Json] = {"type": "string"}
_PAGED: Mapping[str, Json] = {"max_tokens": {"type": "integer"}, "cursor": _TEXT}
_NAMES: Mapping[str, Json] = {"fields": _TEXT}
"""Fields of records that are wanted, with commas or as a list, which costs more tokens to describe."""
_SHAPE = ("id", "title", "url", "text")
"""Keys of a document as connectors of ChatGPT read it."""
WEB_SCOPE = "web"


class Kind(NamedTuple):
    """A tool, and the scope that a caller needs to see it."""

    tool: types.Tool
    scope: str
    writes: bool = False


def _object(properties: Mapping[str, Json], required: Sequence[str] = ()) -> dict[str, Json]:
    shown = {"properties": dict(properties)} if properties else {}
    return {"type": "object", **shown, **({"required": list(required)} if required else {})}


def _search_schema(**more: Json) -> dict[str, Json]:
    """The schema of a search: those keys of a request that models see, the page, and some more."""
    shown: dict[str, Json] = {}
    for name, row in SEARCH.in_door(LISTED).items():  # without bounds, and without what an object has for a text
        shown[name] = {"type": row.schema["type"]}
        if row.several:
            shown[name] |= {"items": _TEXT, "description": row.about}
    return _object({**shown, **_NAMES, **_PAGED, **more}, ["query"])


_FILES: Json = {"type": "array", "items": {"properties": {"path": _TEXT}}}
_RESULTS = {"type": "array", "items": _object({}, _SHAPE)}


def _kind(
    scope: str, name: str, description: str, given: dict[str, Json], returned: dict[str, Json], *, hint: str = "read"
) -> Kind:
    """A tool with all of its hints: without them a client assumes the worst."""
    hints = types.ToolAnnotations(
        read_only_hint=hint == "read",
        destructive_hint=hint == "replace",
        idempotent_hint=True,
        open_world_hint=scope == WEB_SCOPE,
    )
    tool = types.Tool(name=name, description=description, input_schema=given, output_schema=returned, annotations=hints)
    return Kind(tool, scope, writes=hint != "read")


_ADDED: Json = {"type": "array", "items": _object({}, ["text"])}
KINDS: Sequence[Kind] = (
    _kind(
        "search",
        "search",
        "Search in plain words. `sort`: year:desc. `fields`: version,price.",
        _search_schema(),
        _object({"results": _RESULTS}, ["results"]),
    ),
    _kind(
        "search",
        "fetch",
        "Read a document, by id or name.",
        _object({"id": _TEXT, **_NAMES, **_PAGED}, ["id"]),
        _object({}, _SHAPE),
    ),
    _kind(
        "search",
        "list_fields",
        "List fields and values; `field`: all of one.",
        _object({"field": _TEXT, **_PAGED}),
        _object({}, ["fields"]),
    ),
    _kind(
        "search",
        "explain",
        "Explain the rank of a record, or why it is missing.",
        _object({"query": _TEXT, "id": _TEXT}, ["query", "id"]),
        _object({}, ["id", "verdict"]),
    ),
    _kind(
        "documents:write",
        "add_documents",
        "Add documents {id, title, text, metadata}, or replace documents of the same id.",
        _object({"documents": _ADDED}, ["documents"]),
        _object({}),
        hint="replace",
    ),
    _kind("index:admin", "sync", "Update the index from its sources.", _object({}), _object({}), hint="add"),
)
_WHOLE: Mapping[str, Json] = {"type": "integer"}
_WEB_SEARCH: Mapping[str, Json] = {
    "query": _TEXT,
    "kind": {"enum": ["auto", "web", "literature"]},
    "k": _WHOLE,
    "since": {"type": "string", "description": "2024-03"},
    "max_tokens": _WHOLE,
}
_SEARCH_ARXIV: Mapping[str, Json] = {
    "query": _TEXT,
    "max_results": _WHOLE,
    "categories": {"type": "array", "items": _TEXT, "description": "cs.AI"},
}
_FOUND = _object({}, ["results"])
WEB_KINDS: Sequence[Kind] = (
    _kind(
        WEB_SCOPE,
        "web_search",
        "Search the web or literature; sends the query to others.",
        _object(_WEB_SEARCH, ["query"]),
        _FOUND,
    ),
    _kind(
        WEB_SCOPE, "search_arxiv", "Search arXiv: abstracts, ids, PDF links.", _object(_SEARCH_ARXIV, ["query"]), _FOUND
    ),
)
"""Tools that ask others: listed only if the configuration enables web search."""


def listed(scopes: frozenset[str], *, writes: bool, web: bool = False, local: bool = False) -> list[Kind]:
    """Return the tools that a caller of these scopes may call, in the same order; `local`: a search takes paths."""
    search, *others = KINDS
    if local:
        search = search._replace(tool=search.tool.model_copy(update={"input_schema": _search_schema(files=_FILES)}))
    kinds = [search, *others, *(WEB_KINDS if web else ())]
    return [kind for kind in kinds if kind.scope in scopes and (writes or not kind.writes)]


_TYPES: Mapping[str, type] = {"string": str, "array": list}


def read_arguments(given: Mapping[str, Json], name: str) -> dict[str, Any]:
    """Return the arguments of a tool by the names in its schema: those that models invent are understood, others are
    answered by the nearest known one.

    Raises:
        UsageError: an argument is unknown or missing, or of another type.
    """
    schema = next(kind.tool.input_schema for kind in KINDS if kind.tool.name == name)
    known: Mapping[str, Json] = schema.get("properties", {})
    values: dict[str, Any] = {}
    for key, value in given.items():
        argument = key if key in known else _ALIASES.get(key, key)
        if argument not in known:
            near = nearest(key.casefold(), [*known, *(alias for alias, meant in _ALIASES.items() if meant in known)])
            hint = f"did you mean {_ALIASES.get(near, near)}?" if near else f"arguments: {', '.join(known) or 'none'}"
            raise UsageError(f"{name} has no argument {quoted(key)}", hint=hint)
        wanted = _TYPES.get(known[argument]["type"], object)
        if argument not in ("cursor", "fields") and value is not None and not isinstance(value, wanted):
            what = "list" if wanted is list else "text"
            raise UsageError(f"{argument} is not a {what}: {quoted(value)}", hint="")
        if value is not None:
            values[argument] = value
    for argument in schema.get("required", ()):
        if not values.get(argument):
            raise UsageError(f"{name} needs {argument}", hint=f'for example: {{"{argument}": "…"}}')
    return values


def read_names(given: Json) -> Sequence[str]:
    """Return the fields that are wanted; none: a few of all. Raises: UsageError."""
    names = [name.strip() for name in given.split(",") if name.strip()] if isinstance(given, str) else given or []
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return names
    raise UsageError(f"fields is not a list of names: {quoted(given)}", hint="list_fields has the names")


def read_budget(given: Json, *, default: int = MOST_TOKENS) -> int:
    """Return the most tokens of an answer. Raises: UsageError."""
    if given is None:
        return default
    if type(given) is not int or not _LEAST_TOKENS <= given <= _GREATEST_TOKENS:
        said = f"max_tokens is a whole number from {_LEAST_TOKENS} to {_GREATEST_TOKENS}, not {quoted(given)}"
        raise UsageError(said, hint=f"omit it for {default:,}")
    return given


def counter_of(index: Index) -> Count:
    """Return the counter of an index: by `budget.tokenizer` if it is set, else by its encoder's tokenizer.

    Words are no measure of what a model is sent: if nothing better is at hand, the pieces of words are estimated.
    """
    opened = index.opened
    try:
        found = results.counter_of(opened)
    except STEP_FAILURES:
        found = None
    if found is not None and (found.name != "words" or str(opened.settings.budget.tokenizer) == "words"):
        return found.tokenizer.count
    return counter("pieces", lambda: opened.models.encoder).tokenizer.count
