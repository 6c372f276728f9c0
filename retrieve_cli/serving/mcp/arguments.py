"""Arguments of a tool: names that models invent are understood, others are answered by the nearest known one;
and the tokens that an answer may have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrieve_cli.api.index import Index
from retrieve_cli.assemble.tokenizers import counter
from retrieve_cli.contracts import Json
from retrieve_cli.errors import STEP_FAILURES, UsageError, quoted
from retrieve_cli.output.compact import Count
from retrieve_cli.serving.mcp.tools import MOST_TOKENS
from retrieve_cli.untrusted.nearest import nearest

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
_KINDS: Mapping[str, type] = {"id": str, "query": str, "field": str, "documents": list}


def read_arguments(given: Mapping[str, Json], tool: str, *keys: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the arguments of a tool by their names. Raises: UsageError."""
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = key if key in keys else _ALIASES.get(key, key)
        if name not in keys:
            near = nearest(key.casefold(), [*keys, *(alias for alias, name in _ALIASES.items() if name in keys)])
            hint = f"did you mean {_ALIASES.get(near, near)}?" if near else f"arguments: {', '.join(keys) or 'none'}"
            raise UsageError(f"{tool} has no argument {quoted(key)}", hint=hint)
        if value is not None:
            values[name] = value
    for name, kind in _KINDS.items():
        if name in values and not isinstance(values[name], kind):
            raise UsageError(f"{name} is not a {'list' if kind is list else 'text'}: {quoted(values[name])}", hint="")
    for name in required:
        if not values.get(name):
            raise UsageError(f"{tool} needs {name}", hint=f'for example: {{"{name}": "…"}}')
    return values


def read_budget(given: Json, *, default: int = MOST_TOKENS) -> int:
    """Return the most tokens of an answer. Raises: UsageError."""
    if given is None:
        return default
    if type(given) is not int or not _LEAST_TOKENS <= given <= _GREATEST_TOKENS:
        said = f"max_tokens is a whole number from {_LEAST_TOKENS} to {_GREATEST_TOKENS}, not {quoted(given)}"
        raise UsageError(said, hint=f"omit it for {default:,}")
    return given


_ESTIMATE = "pieces"
_WORDS = "words"


def counter_of(index: Index) -> Count:
    """Return the counter of an index: by `budget.tokenizer` if it is set, else by its encoder's tokenizer.

    Words are no measure of what a model is sent: if nothing better is at hand, the pieces of words are estimated.
    """
    searcher = index.searcher
    try:
        found = searcher.counter()
    except STEP_FAILURES:
        found = None
    if found is not None and (found.name != _WORDS or str(searcher.settings.budget.tokenizer) == _WORDS):
        return found.tokenizer.count
    return counter(_ESTIMATE, lambda: searcher.ranker.models.encoder).tokenizer.count
