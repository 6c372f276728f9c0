"""Tools that agents call, as records of a catalog: their text, and the definition as its server sent it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms.tenants import KEYS
from retrieve_cli.contracts.tools import ABOUT_SERVER, DEFINITION, DIGEST, SERVER, TOOL, digest_of
from retrieve_cli.errors import UsageError, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.sources.fields import SPELLINGS
from retrieve_cli.sources.values import DEEPEST, first, first_at, strings, too_deep

DEFINITIONS: Final = (b'"inputSchema"', b'"input_schema"', b'"parameters"')
"""Keys of which one is in the line of a definition: its schema for MCP, for Anthropic, for OpenAI."""
_SCHEMAS: Final = ("inputSchema", "input_schema", "parameters")
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_KEPT: Final = frozenset(KEYS).union(
    *(SPELLINGS[field] for field in "url license keywords category domain group".split())
)
"""Keys of a definition in a file that mean the same in any record."""
_LEVELS, _MOST_ARGUMENTS = 3, 200
"""Levels of objects whose arguments are text, and the most arguments that are."""
_LONGEST_TEXT, _LONGEST_NAME, _LONGEST_ARGUMENT, _LONGEST_SERVER = 20_000, 200, 500, 500
"""Characters that are text: of the description, name, description of an argument, and description of the server."""
_BETWEEN_WORDS = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")


class ToolText(Frozen):
    """Texts of a tool, and the schema of its arguments."""

    name: str
    title: str
    description: str
    schema: Json
    root: Mapping[str, Json]
    """The document that a `$ref` of the schema leads into."""

    def item(self, definition: Mapping[str, Json], *, server: str, about: str) -> dict[str, Json]:
        """Return the object of a catalog.

        Raises:
            UsageError: the definition has no name, or is nested too deeply.
        """
        where = shortened(f"{server}/{self.name}".lstrip("/"), 80)
        if not self.name:
            hint = "a definition is an object with `name` and `inputSchema`"
            raise UsageError(f"a tool of {server or 'the list'} has no name", hint=hint)
        if too_deep([definition], DEEPEST - 2):  # an object of a catalog has it in its metadata
            message = f"the definition of {where} is nested deeper than {DEEPEST - 3} levels"
            raise UsageError(message, hint="simplify the schema of its arguments")
        item = {
            "id": f"{server}/{self.name}" if server else self.name,
            "name": self.title or self.name,
            "description": self.description[:_LONGEST_TEXT],
            "tool_words": self._heading[:_LONGEST_NAME],
            "tool_arguments": "; ".join(_arguments(_object(self.schema), self.root)),
            "tool_server": ": ".join(filter(None, (_plain(server)[:_LONGEST_NAME], about[:_LONGEST_SERVER].strip()))),
            TOOL: self.name,
            SERVER: server,
            ABOUT_SERVER: about,
            DEFINITION: definition,
            DIGEST: digest_of(self.name, self.description, self.schema),
        }
        return {key: value for key, value in item.items() if value != ""}

    @property
    def _heading(self) -> str:
        """The title with the words of the name, unless the title has these words, or the same letters."""
        words = _plain(self.name)
        own, titles = words_of(words).split(), words_of(self.title).split()
        if not self.title or set(own) <= set(titles) or "".join(own) == "".join(titles):
            return self.title or words
        return f"{self.title} ({words})"


def tool_item(definition: Mapping[str, Json], *, server: str = "", about: str = "") -> dict[str, Json]:
    """Return the object of a catalog for the definition of a tool, as MCP, Anthropic or OpenAI spell it.

    `definition` is kept unchanged; `about` is the description of the server. The id is `server/tool`, without a server
    the name of the tool.

    Raises:
        UsageError: the definition has no name, or is nested too deeply.
    """
    inner = _inner(definition)
    notes = _object(inner.get("annotations"))
    schema = _schema(inner)
    text = ToolText(
        name=first(strings(inner.get("name"))),
        title=first(strings(inner.get("title"))) or first(strings(notes.get("title"))),
        description=first(strings(inner.get("description"))),
        schema=schema,
        root=_object(schema),
    )
    hints = {hint: notes[hint] for hint in _HINTS if isinstance(notes.get(hint), bool)}
    return {**text.item(definition, server=server, about=about), **hints}


def item_of(definition: Mapping[str, Json]) -> dict[str, Json]:
    """Return the object of a catalog for a definition in a file, which may name its server, and may have an id and
    other keys of records.

    Raises:
        UsageError: as `tool_item` does.
    """
    server, about = server_of(definition)
    item = tool_item(definition, server=server, about=about)
    own = {key: value for key, value in definition.items() if key in _KEPT}
    return {**own, **item, "id": first_at(definition, SPELLINGS["id"]) or item["id"]}


def server_of(item: Mapping[str, Json]) -> tuple[str, str]:
    """Return name and description of the server that an object names by `server` or `serverInfo`."""
    server = item.get("server") or item.get("serverInfo")
    if not isinstance(server, Mapping):
        return first(strings(server)), first(strings(item.get(ABOUT_SERVER)))
    about = [first(strings(server.get(key))) for key in ("description", "instructions")]
    return first(strings(server.get("name"))), "\n".join(dict.fromkeys(filter(None, about)))


def is_definition(item: Json) -> bool:
    """Return True if an object defines a tool: it has a name, and the schema of its arguments."""
    inner = _inner(item) if isinstance(item, dict) else {}
    if inner.keys().isdisjoint(_SCHEMAS) or not isinstance(inner.get("name"), str) or TOOL in inner:
        return False
    if any(isinstance(inner.get(key), Mapping) for key in _SCHEMAS[:2]):
        return True
    schema = inner.get(_SCHEMAS[2])
    if schema == {}:
        return bool(strings(inner.get("description")))
    is_schema = isinstance(schema, Mapping) and schema.get("type") == "object"
    return is_schema or isinstance(_object(schema).get("properties"), Mapping)


def words_of(name: str) -> str:
    """Return the words of an identifier: `git_status`, `gitStatus` and `git-status` are `git status`."""
    return " ".join(_BETWEEN_WORDS.sub(" ", name).lower().split())


def _plain(name: str) -> str:
    """Return a name that has words, or the words of an identifier."""
    return name if " " in name else words_of(name)


def _inner(item: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the definition in the envelope of a function for language models."""
    inner = item.get("function")
    return inner if item.get("type") == "function" and isinstance(inner, Mapping) else item


def _schema(inner: Mapping[str, Json]) -> Json:
    return next((inner[key] for key in _SCHEMAS if key in inner), {})


def _arguments(schema: Mapping[str, Json], root: Mapping[str, Json]) -> Iterator[str]:
    """Yield the arguments of a schema, each with its description; at most `_MOST_ARGUMENTS`, the outer ones first."""
    waiting = deque([(schema, 0, frozenset[str]())])
    number = 0
    while waiting:
        node, level, seen = waiting.popleft()
        for part, seen_by_part in _parts(node, root, seen):
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
    """Yield a schema and its parts: items, alternatives, and what each `$ref` leads to, once on a path."""
    waiting = deque([(node, seen, 0)])
    number = 0
    while waiting and number < _MOST_ARGUMENTS:
        part, known, depth = waiting.popleft()
        number += 1
        yield part, known
        reference = part.get("$ref")
        if isinstance(reference, str) and reference not in known:
            waiting.append((_object(target(root, reference)), known | {reference}, depth))
        if depth < _LEVELS:
            inner = [part.get("items"), part.get("additionalProperties")]
            for key in ("allOf", "anyOf", "oneOf"):
                inner += part[key] if isinstance(part.get(key), list) else []
            waiting += [(schema, known, depth + 1) for schema in inner[:_MOST_ARGUMENTS] if isinstance(schema, Mapping)]


def target(root: Mapping[str, Json], reference: str) -> Json:
    """Return the part of a document that a local JSON pointer (RFC 6901) leads to; None if nothing is there."""
    if not reference.startswith("#"):
        return None
    value: Json = root
    for step in reference.removeprefix("#").split("/")[1:]:
        value = value.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(value, Mapping) else None
    return value


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}
