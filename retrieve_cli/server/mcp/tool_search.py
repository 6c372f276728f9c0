"""The tools `search_tools`, `describe_tool` and `list_servers`: the tools of other servers, found by task.

2 of 258 tools
1. git/git_log: Shows the commit logs
   repo_path, max_count?: integer = 10
2. git/git_diff (changed since approval): Shows the differences between branches or commits
   repo_path, target
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

from retrieve_cli.api.asked import read_asked
from retrieve_cli.api.live import LiveIndex
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms.figures import count as counted
from retrieve_cli.contracts.tools import APPROVAL, DEFINITION, DIGEST, SERVER, TOOL, is_tool, tool_marks
from retrieve_cli.errors import RetrieveError, UsageError, escaped_json, printable, quoted, shortened
from retrieve_cli.output.compact import Count
from retrieve_cli.output.places import fence_of
from retrieve_cli.retrieval.queries.filters import Condition
from retrieve_cli.search.named import named_tools
from retrieve_cli.search.tool_records import ToolRecords, arguments_line, schema_of
from retrieve_cli.server.mcp.addresses import CursorPlace, cursor_of, read_cursor
from retrieve_cli.server.mcp.outcomes import ToolOutcome, compact_json
from retrieve_cli.server.mcp.tools import READ_TOKENS, counter_of, read_arguments, read_budget

_RESULTS, _MOST_RESULTS, _EACH = 5, 50, 80
"""Default number of results, the most of them, and the tokens of one on average."""
_MOST_NAMED = 20
"""Most tools that are results because the task names them, if the limit is less."""
_WIDEST = 240
"""Most characters of a key, a description and arguments."""
_NAME, _LETTERS, _MOST_LETTERS = 24, 4, 16
"""Characters of a key that is too long for an answer, of a token on average, and the most of one."""
_APPROVALS: Mapping[str, str] = {
    "changed": "Its definition has changed since the user approved it; `retrieve trust` shows the difference.",
    "new": "The user has not approved it yet; `retrieve trust` shows it.",
}


_Tool = Mapping[str, str]
"""A tool of an answer: key, server, marks, description, arguments; without those that are empty."""
_Page = Callable[[Sequence[_Tool]], tuple[dict[str, Json], str]]
"""Structured content and text of an answer."""


def search_tools(live: LiveIndex, given: Mapping[str, Json], *, tenant: str | None) -> ToolOutcome:
    """Return the outcome of a search for tools, as `search` answers it with a filter.

    Raises:
        RetrieveError: an argument cannot be understood, or the search fails.
    """
    values = read_arguments(given, "search_tools")
    limit = values.pop("limit", _RESULTS)
    if type(limit) is not int or not 1 <= limit <= _MOST_RESULTS:
        raise UsageError(f"limit is a whole number from 1 to {_MOST_RESULTS}, not {quoted(limit)}", hint="")
    index = live.index
    with index.reading() as generation:
        tools = ToolRecords(generation, tenant)
        rows = tools.rows if "server" not in values else tools.of_server(values["server"])
        excluded = [row for key in values.get("exclude", ()) for row in tools.find(key)]
        like = [generation.record_id(tools.one(values["like"]))] if "like" in values else []
        ids = [generation.record_id(row) for row in dict.fromkeys(excluded)]
        total = int(rows.sum()) - len({row for row in excluded if rows[row]})
        named = [row for row in named_tools(tools.view, values.get("task", "")) if rows[row] and row not in excluded]
    limit = max(limit, min(len(named), _MOST_NAMED))
    most = read_budget(values.pop("max_tokens", None), default=max(_RESULTS, limit) * _EACH)
    filters = [] if tools.view.size == int(tools.rows.sum()) else [f"{DIGEST}=*"]
    filters += [str(Condition(SERVER, "=", (values["server"],)))] if "server" in values else []
    filters += [str(Condition("id", "=", (name,), negated=True)) for name in ids]
    request = {"query": values.get("task", ""), "limit": limit, "filters": filters or None, "like": like or None}
    asked = read_asked(request, where="search_tools", tenant=tenant)
    (answer,) = live.answer([asked._replace(generation=index.generation)])
    if isinstance(answer, RetrieveError):
        raise answer
    found = [_tool(result.record) for result in answer.results if is_tool(result.record["metadata"])]
    notices = [printable(shortened(notice)) for notice in answer.notices[:1]]

    def page(shown: Sequence[_Tool]) -> tuple[dict[str, Json], str]:
        first = f"{len(shown)} of {counted(total, 'tool')}"
        structured = {"total": total, "tools": list(shown)}
        more = {"notices": notices} if notices else {}
        return {**structured, **more}, "\n".join([first, *notices, *_lines(shown)])

    shown = _fitted(found, page, most=most, count=counter_of(index))
    structured, text = page(shown)
    summary = f"{text.partition(chr(10))[0]}, in structuredContent"
    return ToolOutcome(structured, text, summary, answers=[answer])


def _tool(record: Mapping[str, Json]) -> _Tool:
    metadata = record["metadata"]
    texts = {
        "key": record["id"],
        "server": metadata.get(SERVER),
        "marks": tool_marks(metadata),
        "description": record["description"],
        "arguments": arguments_line(metadata[DEFINITION]),
    }
    return {name: _line(str(text)) for name, text in texts.items() if text}


def _line(text: str, room: int = _WIDEST) -> str:
    return printable(shortened(text, room))


def _lines(tools: Sequence[_Tool]) -> Iterator[str]:
    for number, tool in enumerate(tools, 1):
        yield f"{number}. {_head(tool['key'], tool)}{_after(': ', tool)}"
        if "arguments" in tool:
            yield f"   {tool['arguments']}"


def _head(text: str, row: Mapping[str, Json]) -> str:
    return f"{text} ({row['marks']})" if row.get("marks") else text


def _after(mark: str, row: Mapping[str, Json]) -> str:
    return f"{mark}{row['description']}" if row.get("description") else ""


def _fitted(tools: Sequence[_Tool], page: _Page, *, most: int, count: Count) -> list[_Tool]:
    """Return the tools with texts as long as fit into `most` tokens, in both channels; the first of them if not all
    fit. A key is cut only if no tool fits otherwise."""

    def cut(number: int, room: int, names: int) -> list[_Tool]:
        rooms = {"key": names, "server": names, "description": room, "arguments": room}
        return [{name: _line(text, rooms.get(name, _WIDEST)) for name, text in tool.items()} for tool in tools[:number]]

    def fits(number: int, room: int, names: int) -> bool:
        return _fit(page(cut(number, room, names)), count, most)

    names = next((names for names in (_WIDEST, _NAME) if fits(1, 1, names)), None)
    if not tools or names is None:
        return []
    number = _last(len(tools), lambda number: fits(number, 1, names))
    return cut(number, _last(_WIDEST, lambda room: fits(number, room, names)), names)


def _last(most: int, fits: Callable[[int], bool]) -> int:
    """Return the greatest number up to `most` that fits, as all smaller ones do; 0 if none does."""
    return bisect_left(range(1, most + 1), x=True, key=lambda number: not fits(number))


def _fit(page: tuple[dict[str, Json], str], count: Count, most: int) -> bool:
    """Return True if both channels fit. A text that is far too long is not counted: it may have megabytes."""
    texts = (page[1], compact_json(page[0]))
    return all(len(text) <= most * _MOST_LETTERS and count(text) <= most for text in texts)


def describe_tool(live: LiveIndex, given: Mapping[str, Json], *, tenant: str | None) -> ToolOutcome:
    """Return the outcome of reading the definition of a tool, as its server sent it.

    Raises:
        RetrieveError: an argument cannot be understood, or no tool or several ones have the key.
    """
    values = read_arguments(given, "describe_tool")
    index = live.index
    with index.reading() as generation:
        record = generation.records[ToolRecords(generation, tenant).one(values["key"])]
    count, most = counter_of(index), read_budget(values.get("max_tokens"), default=READ_TOKENS)
    metadata = record["metadata"]
    approval = str(metadata.get(APPROVAL) or "")
    head = {"key": record["id"], SERVER: metadata.get(SERVER), "approval": approval, "marks": tool_marks(metadata)}

    definition = metadata[DEFINITION]

    def page(number: int | None = None) -> tuple[dict[str, Json], str]:
        shown, said = (definition, "") if number is None else _cut(record, most, number)
        structured = {key: value for key, value in {**head, "definition": shown, "cut": said}.items() if value}
        body = escaped_json(compact_json(shown))
        lines = [
            _head(_line(record["id"]), head),
            _APPROVALS.get(approval, ""),
            said,
            fence := fence_of(body),
            body,
            fence,
        ]
        return structured, "\n".join(filter(None, lines))

    number = None
    if not _fit(page(), count, most):
        number = _last(len(_properties(definition)) + 1, lambda number: _fit(page(number - 1), count, most)) - 1
    if number == -1:
        raise UsageError("nothing of the definition fits", hint="raise max_tokens")
    structured, text = page(number)
    return ToolOutcome(structured, text, text.partition("\n")[0])


def _properties(definition: Mapping[str, Json]) -> list[tuple[str, Json]]:
    properties = schema_of(definition).get("properties")
    return [*properties.items()] if isinstance(properties, Mapping) else []


def _cut(record: Mapping[str, Json], most: int, number: int) -> tuple[dict[str, Json], str]:
    """Return the definition of a tool with the first arguments, each whole, and a sentence on the rest."""
    definition = record["metadata"][DEFINITION]
    texts = {"name": record["metadata"][TOOL], "description": record["description"]}
    short = {key: str(text or "")[: most // _LETTERS] for key, text in texts.items()}
    properties = _properties(definition)
    schema = {**schema_of(definition), "properties": dict(properties[:number])}
    said = f"Cut to fit: {number} of {len(properties)} arguments and no other keys; raise max_tokens."
    return {**short, **({"inputSchema": schema} if number else {})}, said


def list_servers(live: LiveIndex, given: Mapping[str, Json], *, tenant: str | None) -> ToolOutcome:
    """Return the outcome of listing the servers of tools.

    Raises:
        RetrieveError: an argument cannot be understood.
    """
    values = read_arguments(given, "list_servers")
    place = read_cursor(values.pop("cursor", None), values)
    most = read_budget(values.get("max_tokens"))
    index = live.at(place.generation)
    with index.reading() as generation:
        servers = ToolRecords(generation, tenant).servers()
    total, rest = sum(server["tools"] for server in servers), servers[place.offset :]
    count = counter_of(index)

    def page(number: int, room: int = _WIDEST // 2) -> tuple[dict[str, Json], str]:
        after = place.offset + number
        following = cursor_of(CursorPlace(index.generation, after), values) if after < len(servers) else None
        rows = [_server(row, room) for row in rest[:number]]
        more = {"next_cursor": following} if following else {}
        sizes = f"{counted(len(servers), 'server')}, {counted(total, 'tool')} in all"
        lines = [f"{number} of {sizes}", *map(_server_line, rows)]
        lines += [f"next_cursor: {following}"] if following else []
        return {"total": len(servers), "tools": total, "servers": rows, **more}, "\n".join(lines)

    shown = _last(len(rest), lambda number: _fit(page(number), count, most))
    structured, text = page(shown) if shown else page(min(len(rest), 1), 1)
    return ToolOutcome(structured, text, f"{len(structured['servers'])} servers in structuredContent")


def _server(row: Mapping[str, Json], room: int) -> dict[str, Json]:
    texts = {key: _line(row[key], room) for key in ("marks", "description") if row[key]}
    return {"name": _line(row["name"] or "(none)", room), "tools": row["tools"], **texts}


def _server_line(row: Mapping[str, Json]) -> str:
    tools = f"{row['name']}: {counted(row['tools'], 'tool')}"
    return f"{_head(tools, row)}{_after(' - ', row)}"
