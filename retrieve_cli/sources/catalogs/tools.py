"""Tools that agents call, as records of a catalog: their text, and the definition as its server sent it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.tools import ABOUT_SERVER, DEFINITION, DIGEST, SERVER, TOOL, digest_of
from retrieve_cli.errors import UsageError, shortened
from retrieve_cli.sources.catalogs.linked_catalog import too_deep
from retrieve_cli.sources.values import first, strings

DEEPEST: Final = 60
"""Levels of a definition: a record, which has it in its metadata, may have 64."""
_SCHEMAS: Final = ("inputSchema", "input_schema", "parameters")
"""Keys of the schema of the arguments: of MCP, of Anthropic, of OpenAI."""
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_LEVELS, _MOST_ARGUMENTS = 3, 200
"""Levels of objects whose arguments are text, and the most arguments that are."""
_LONGEST_ARGUMENT, _LONGEST_SERVER = 500, 2000
"""Characters of the description of an argument, and of a server, that are text."""
_BETWEEN_WORDS = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")


def tool_item(definition: Mapping[str, Json], *, server: str = "", about: str = "") -> dict[str, Json]:
    """Return the object of a catalog for the definition of a tool.

    `definition` is kept unchanged; `about` is the description of the server. The id is `server/tool`, without a server
    the name of the tool.

    Raises:
        UsageError: the definition has no name, or is nested too deeply.
    """
    name = first(strings(definition.get("name")))
    if not name:
        raise UsageError("a tool has no name", hint="a definition is an object with `name` and `inputSchema`")
    if too_deep(definition, DEEPEST):
        where = shortened(f"{server}/{name}".lstrip("/"), 80)
        raise UsageError(
            f"the definition of {where} is nested deeper than {DEEPEST} levels", hint="simplify its schema"
        )
    hints = _object(definition.get("annotations"))
    title = first(strings(definition.get("title"))) or first(strings(hints.get("title")))
    description = first(strings(definition.get("description")))
    schema = next((definition[key] for key in _SCHEMAS if key in definition), {})
    item = {
        "id": f"{server}/{name}" if server else name,
        "name": title or name,
        "description": description,
        "tool_words": _heading(name, title),
        "tool_arguments": "; ".join(_arguments(_object(schema))),
        "tool_server": ": ".join(filter(None, (server and words_of(server), about[:_LONGEST_SERVER].strip()))),
        TOOL: name,
        SERVER: server,
        ABOUT_SERVER: about,
        **{hint: hints[hint] for hint in _HINTS if isinstance(hints.get(hint), bool)},
        DEFINITION: definition,
        DIGEST: digest_of(name, description, schema),
    }
    return {key: value for key, value in item.items() if value != ""}


def words_of(name: str) -> str:
    """Return the words of an identifier: `git_status`, `gitStatus` and `git-status` are `git status`."""
    return " ".join(_BETWEEN_WORDS.sub(" ", name).lower().split())


def _heading(name: str, title: str) -> str:
    """Return the title with the words of the name, unless the title has them."""
    words = words_of(name)
    if not title or words_of(title) == words:
        return title or words
    return f"{title} ({words})"


def _arguments(schema: Mapping[str, Json]) -> Iterator[str]:
    """Yield the arguments of a schema, each with its description; at most `_MOST_ARGUMENTS`."""
    waiting = [(schema, 0, frozenset[str]())]
    number = 0
    while waiting:
        node, level, seen = waiting.pop(0)
        for part, seen_by_part in _parts(node, schema, seen):
            for name, value in _object(part.get("properties")).items():
                if number == _MOST_ARGUMENTS:
                    return
                number += 1
                inner = _object(value)
                description = first(strings(inner.get("description")))[:_LONGEST_ARGUMENT]
                words = words_of(str(name)[:_LONGEST_ARGUMENT])
                yield f"{words}: {description}" if description else words
                if level + 1 < _LEVELS:
                    waiting.append((inner, level + 1, seen_by_part))


def _parts(
    node: Mapping[str, Json], root: Mapping[str, Json], seen: frozenset[str]
) -> Iterator[tuple[Mapping[str, Json], frozenset[str]]]:
    """Yield a schema and its parts: items, alternatives, and what `$ref` leads to, once."""
    waiting = [(node, seen, 0)]
    number = 0
    while waiting and number < _MOST_ARGUMENTS:
        part, known, depth = waiting.pop(0)
        number += 1
        yield part, known
        reference = part.get("$ref")
        if isinstance(reference, str) and reference not in known:
            waiting.append((_object(_target(root, reference)), known | {reference}, depth))
        if depth < _LEVELS:
            inner = [part.get("items"), part.get("additionalProperties")]
            for key in ("allOf", "anyOf", "oneOf"):
                inner += part[key] if isinstance(part.get(key), list) else []
            waiting += [(schema, known, depth + 1) for schema in inner[:_MOST_ARGUMENTS] if isinstance(schema, Mapping)]


def _target(root: Mapping[str, Json], reference: str) -> Json:
    """Return the part of a document that a local JSON pointer (RFC 6901) leads to; None if nothing is there."""
    if not reference.startswith("#"):
        return None
    value: Json = root
    for step in reference.removeprefix("#").split("/")[1:]:
        value = value.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(value, Mapping) else None
    return value


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}
