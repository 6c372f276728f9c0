"""The tools as a client lists them: names, schemas and hints, and their arguments, read by the same schemas.

Every token of these is in every conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import mcp_types as types

from retrieve_cli.api.choices import SEARCH
from retrieve_cli.api.index import Index
from retrieve_cli.api.table import LISTED
from retrieve_cli.assemble.tokenizers import most_tokens
from retrieve_cli.contracts import Json
from retrieve_cli.errors import STEP_FAILURES, UsageError, quoted
from retrieve_cli.output.compact import Count
from retrieve_cli.search import results
from retrieve_cli.untrusted.nearest import nearest

MOST_TOKENS, READ_TOKENS = 900, 2000
"""Default limits of the tokens of an answer, and of a text that is read."""
_LEAST_TOKENS, _GREATEST_TOKENS = 50, 50_000
_ALIASES: Mapping[str, str] = {
    "id": "doc_id document_id record_id chunk_id record uri",
    "query": "q question text",
    "field": "name",
    "max_tokens": "token_budget maxTokens",
    "cursor": "next_cursor",
    "documents": "items records",
    "task": "query q question text",
    "limit": "k top_k n max_results",
    "key": "id name tool tool_name",
    "server": "server_name",
}
"""Names that models invent for arguments, by argument."""
_TEXT: Mapping[str, Json] = {"type": "string"}
_TEXTS: Mapping[str, Json] = {"type": "array", "items": _TEXT}
_CURSOR: Mapping[str, Json] = {"cursor": _TEXT}
WEB_SCOPE, CALL_SCOPE = "web", "tools:call"
_WRITES = ("replace", "add")
"""Hints of tools that change the index."""


class Kind(NamedTuple):
    """A tool, and the scope that a caller needs to see it."""

    tool: types.Tool
    scope: str
    writes: bool = False
    unlisted: Mapping[str, Json] = {}
    """Arguments that it takes although clients do not see them: each token of a list is in every conversation."""


def _object(properties: Mapping[str, Json], required: Sequence[str] = ()) -> dict[str, Json]:
    shown = {"properties": dict(properties)} if properties else {}
    return {"type": "object", **shown, **({"required": list(required)} if required else {})}


def _search_properties() -> dict[str, Json]:
    """The arguments of a search: those keys of a request that models see, without bounds; some fields of records that
    are wanted, with commas; and the page."""
    rows = SEARCH.in_door(LISTED)
    shown = {name: _TEXTS if row.several else {"type": row.schema["type"]} for name, row in rows.items()}
    return {**shown, "fields": _TEXT, "max_tokens": _WHOLE, **_CURSOR}


_FILES: Json = {"type": "array", "items": {"properties": {"path": _TEXT}}}
_WHOLE: Mapping[str, Json] = {"type": "integer"}


def _kind(
    scope: str,
    name: str,
    description: str,
    given: Mapping[str, Json],
    *required: str,
    hint: str = "read",
    unlisted: Mapping[str, Json] = {},
) -> Kind:
    """A tool with the hints that differ from the worst that a client assumes without them."""
    hints = types.ToolAnnotations(
        read_only_hint=True if hint == "read" else None,
        destructive_hint=False if hint == "add" else None,
        idempotent_hint=True if hint in _WRITES else None,
        open_world_hint=None if scope in (WEB_SCOPE, CALL_SCOPE) else False,
    )
    tool = types.Tool(name=name, description=description, input_schema=_object(given, required), annotations=hints)
    return Kind(tool, scope, hint in _WRITES, unlisted)


_ADDED: Json = {"type": "array", "items": {"type": "object"}}
_SIZE: Mapping[str, Json] = {"max_tokens": _WHOLE}
DOCUMENTS: Sequence[Kind] = (
    _kind("search", "search", "{about}; filters: dims>=3, !group=x; sort: year:desc", _search_properties(), "query"),
    _kind(
        "search", "fetch", "Read a document by id", {"id": _TEXT, **_CURSOR}, "id", unlisted={**_SIZE, "fields": _TEXT}
    ),
    _kind("search", "list_fields", "List fields and values", {"field": _TEXT}, unlisted={**_SIZE, **_CURSOR}),
    _kind("search", "explain", "Explain a rank", {"query": _TEXT, "id": _TEXT}, "query", "id"),
)
"""Tools of an index of documents or records."""
TOOLS: Sequence[Kind] = (
    _kind(
        "search",
        "search_tools",
        "{about}; exclude: keys you have seen; like: a key",
        {"task": _TEXT, "limit": _WHOLE, "server": _TEXT, "exclude": _TEXTS, "like": _TEXT},
        "task",
        unlisted=_SIZE,
    ),
    _kind("search", "describe_tool", "Read the definition of a tool", {"key": _TEXT}, "key", unlisted=_SIZE),
    _kind("search", "list_servers", "List the servers of tools", _CURSOR, unlisted=_SIZE),
)
"""Tools of an index of tools."""
CALLING: Sequence[Kind] = (
    _kind(
        CALL_SCOPE,
        "call_tool",
        "Call a tool",
        {"key": _TEXT, "arguments": {"type": "object"}},
        "key",
        hint="call",
    ),
)
"""The tool that passes calls on: listed only if the configuration allows any."""
WRITING: Sequence[Kind] = (
    _kind(
        "documents:write",
        "add_documents",
        "Add documents {id, title, text, metadata}, or replace documents of the same id.",
        {"documents": _ADDED},
        "documents",
        hint="replace",
    ),
    _kind("index:admin", "sync", "Update the index from its sources.", {}, hint="add"),
)
WEB_KINDS: Sequence[Kind] = (
    _kind(
        WEB_SCOPE,
        "web_search",
        "Search the web or literature; sends the query to others.",
        {
            "query": _TEXT,
            "kind": {"enum": ["auto", "web", "literature"]},
            "k": _WHOLE,
            "since": {"type": "string", "description": "2024-03"},
            "max_tokens": _WHOLE,
        },
        "query",
    ),
    _kind(
        WEB_SCOPE,
        "search_arxiv",
        "Search arXiv: abstracts, ids, PDF links.",
        {"query": _TEXT, "max_results": _WHOLE, "categories": {**_TEXTS, "description": "cs.AI"}},
        "query",
    ),
)
"""Tools that ask others: listed only if the configuration enables web search."""
KINDS: Sequence[Kind] = (*DOCUMENTS, *TOOLS, *CALLING, *WRITING)
"""The tools that read the index, pass calls on, or write."""


class Offer(NamedTuple):
    """Contents of an index for a caller, in phrases that describe the tools which search them; empty without any of a
    kind, whose tools are not listed then."""

    documents: str = "Search the index"
    tools: str = ""
    name: str = ""
    """Name of the index."""


def listed(
    scopes: frozenset[str],
    offer: Offer,
    *,
    writes: bool,
    calls: bool = False,
    web: bool = False,
    local: bool = False,
) -> list[Kind]:
    """Return the tools that a caller of these scopes sees, in the same order; `local`: a search takes paths."""
    found = [*TOOLS, *(CALLING if calls else ())] if offer.tools else []
    kinds = [*(DOCUMENTS if offer.documents else ()), *found]
    shown = []
    for kind in (*kinds, *WRITING, *(WEB_KINDS if web else ())):
        if kind.scope in scopes and (writes or not kind.writes):
            about = offer.tools if kind in TOOLS else offer.documents
            update: dict[str, Any] = {"description": str(kind.tool.description).replace("{about}", about)}
            if local and kind.tool.name == "search":
                update["input_schema"] = _object({**_search_properties(), "files": _FILES}, ["query"])
            shown.append(kind._replace(tool=kind.tool.model_copy(update=update)))
    return shown


_IN_WORDS: Mapping[type, str] = {str: "a text", list: "a list", dict: "an object"}
_TYPES: Mapping[str, type] = {"string": str, "array": list, "object": dict}


def read_arguments(given: Mapping[str, Json], name: str) -> dict[str, Any]:
    """Return the arguments of a tool by the names in its schema: those that models invent are understood, others are
    answered by the nearest known one.

    Raises:
        UsageError: an argument is unknown or missing, or of another type.
    """
    kind = next(kind for kind in KINDS if kind.tool.name == name)
    schema = kind.tool.input_schema
    known: Mapping[str, Json] = {**schema.get("properties", {}), **kind.unlisted}
    aliases = {alias: argument for argument in known for alias in _ALIASES.get(argument, "").split()}
    values: dict[str, Any] = {}
    for key, value in given.items():
        argument = key if key in known else aliases.get(key, key)
        if argument not in known:
            near = nearest(key.casefold(), [*known, *aliases])
            hint = f"did you mean {aliases.get(near, near)}?" if near else f"arguments: {', '.join(known) or 'none'}"
            raise UsageError(f"{name} has no argument {quoted(key)}", hint=hint)
        wanted = _TYPES.get(known[argument]["type"], object)
        if argument not in ("cursor", "fields") and value is not None and not isinstance(value, wanted):
            raise UsageError(f"{argument} is not {_IN_WORDS[wanted]}: {quoted(value)}", hint="")
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
    """Return the counter of an index: by `budget.tokenizer` if it is set, else as `most_tokens` counts."""
    opened = index.opened
    if opened.settings.budget.tokenizer is not None:
        with suppress(*STEP_FAILURES):
            return results.counter_of(opened).tokenizer.count
    return most_tokens(lambda: opened.models.encoder)
