"""The tools `search_tools`, `describe_tool` and `list_servers`: the tools of other servers, found by task.

2 of 258 tools
1. git/git_log: Shows the commit logs
   repo_path, max_count?: integer = 10
2. git/git_diff (changed since approval): Shows the differences between branches or commits
   repo_path, target
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from retrieve_cli.api.asked import read_asked
from retrieve_cli.api.live import LiveIndex
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.tools import APPROVAL, DEFINITION, SERVER, TOOL, tool_marks
from retrieve_cli.errors import RetrieveError, UsageError, escaped_json, printable, quoted, shortened
from retrieve_cli.output.compact import Count
from retrieve_cli.output.places import fence_of
from retrieve_cli.retrieval.queries.filters import Condition
from retrieve_cli.search.named import named_tools
from retrieve_cli.search.tool_records import ServerTools, ToolRecords, arguments_line, schema_key
from retrieve_cli.server.mcp.addresses import CursorPlace, cursor_of, read_cursor
from retrieve_cli.server.mcp.outcomes import ToolOutcome, compact_json
from retrieve_cli.server.mcp.tools import READ_TOKENS, counter_of, read_arguments, read_budget

_RESULTS, _MOST_RESULTS, _EACH = 5, 50, 80
"""Default number of results, the most of them, and the tokens of one on average."""
_MOST_NAMED = 20
"""Most tools that are results because the task names them, if the limit is less."""
_WIDEST = 240
"""Most characters of a key, a description and arguments."""
_NAME = 24
"""Characters of a key that is too long for an answer."""
_OPTIONAL = ("outputSchema", "output_schema", "_meta", "icons", "$defs", "annotations")
"""Keys that a definition which does not fit loses first."""
_APPROVALS: Mapping[str, str] = {
    "changed": "Its definition has changed since the user approved it; `retrieve trust` shows the difference.",
    "new": "The user has not approved it yet; `retrieve trust` shows it.",
}


class _Tool(NamedTuple):
    """A tool of an answer."""

    key: str
    server: str
    description: str
    arguments: str
    marks: str

    @classmethod
    def of(cls, record: Mapping[str, Json]) -> _Tool:
        metadata = record["metadata"]
        texts = (record["id"], metadata.get(SERVER) or "", record["description"] or "")
        key, server, about = (printable(" ".join(str(text)[: 4 * _WIDEST].split())) for text in texts)
        return cls(key, server, about, arguments_line(metadata[DEFINITION]), tool_marks(metadata))

    def cut(self, room: int, names: int) -> _Tool:
        """Return the tool with texts of at most `room` characters, and `names` of its key and its server."""
        names_cut = (shortened(name, names) for name in (self.key, self.server))
        texts = (shortened(text, room) for text in (self.description, self.arguments))
        return _Tool(*names_cut, *texts, self.marks)

    def to_json(self) -> dict[str, Json]:
        return {key: value for key, value in self._asdict().items() if value}


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
    filters = [] if tools.view.size == int(tools.rows.sum()) else [f"{TOOL}=*"]
    filters += [str(Condition(SERVER, "=", (values["server"],)))] if "server" in values else []
    filters += [str(Condition("id", "=", (name,), negated=True)) for name in ids]
    request = {"query": values.get("task", ""), "limit": limit, "filters": filters or None, "like": like or None}
    asked = read_asked(request, where="search_tools", tenant=tenant)
    (answer,) = live.answer([asked._replace(generation=index.generation)])
    if isinstance(answer, RetrieveError):
        raise answer
    found = [_Tool.of(result.record) for result in answer.results]
    notices = [printable(shortened(notice)) for notice in answer.notices[:1]]

    def page(shown: Sequence[_Tool]) -> tuple[dict[str, Json], str]:
        first = f"{len(shown)} of {total:,} tool{'' if total == 1 else 's'}"
        structured = {"total": total, "tools": [tool.to_json() for tool in shown]}
        more = {"notices": notices} if notices else {}
        return {**structured, **more}, "\n".join([first, *notices, *_lines(shown)])

    shown = _fitted(found, page, most=most, count=counter_of(index))
    structured, text = page(shown)
    summary = f"{text.partition(chr(10))[0]}, in structuredContent"
    return ToolOutcome(structured, text, summary, answers=[answer])


def _lines(tools: Sequence[_Tool]) -> list[str]:
    lines = []
    for number, tool in enumerate(tools, 1):
        marks = f" ({tool.marks})" if tool.marks else ""
        lines.append(f"{number}. {tool.key}{marks}{f': {tool.description}' if tool.description else ''}")
        lines += [f"   {tool.arguments}"] if tool.arguments else []
    return lines


_Page = Callable[[Sequence[_Tool]], tuple[dict[str, Json], str]]


def _fitted(tools: Sequence[_Tool], page: _Page, *, most: int, count: Count) -> list[_Tool]:
    """Return the tools with texts as long as fit into `most` tokens, in both channels; the first of them if not all
    fit. A key is cut only if no tool fits otherwise."""

    def too_long(number: int, room: int, names: int) -> bool:
        structured, text = page([tool.cut(room, names) for tool in tools[:number]])
        return max(count(text), count(compact_json(structured))) > most

    for names in (_WIDEST, _NAME):
        number = bisect_left(range(1, len(tools) + 1), x=True, key=lambda number: too_long(number, 1, names))
        if number:
            room = bisect_left(range(1, _WIDEST), x=True, key=lambda room: too_long(number, room, names))
            return [tool.cut(room, names) for tool in tools[:number]]
    return []


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

    def page(definition: Mapping[str, Json], cut: str) -> tuple[dict[str, Json], str]:
        more = {"definition": definition, "cut": cut}
        structured = {key: value for key, value in {**head, **more}.items() if value}
        body = escaped_json(compact_json(definition))
        marks = f" ({head['marks']})" if head["marks"] else ""
        lines = [f"{printable(shortened(record['id'], _WIDEST))}{marks}", _APPROVALS.get(approval, ""), cut]
        fence = fence_of(body)
        return structured, "\n".join([*filter(None, lines), fence, body, fence])

    def fits(definition: Mapping[str, Json], cut: str) -> bool:
        structured, text = page(definition, cut)
        return max(count(text), count(compact_json(structured))) <= most

    structured, text = page(*_cut(metadata[DEFINITION], fits))
    return ToolOutcome(structured, text, text.partition("\n")[0])


def _cut(
    definition: Mapping[str, Json], fits: Callable[[Mapping[str, Json], str], bool]
) -> tuple[Mapping[str, Json], str]:
    """Return as much of a definition as fits, and a sentence on the rest: whole arguments, in their order.

    Raises:
        UsageError: not even the name fits.
    """
    if fits(definition, ""):
        return definition, ""
    short = {key: value for key, value in definition.items() if key not in _OPTIONAL}
    key = schema_key(definition)
    properties = short[key].get("properties") if key else None
    listed = [*properties.items()] if isinstance(properties, Mapping) else []

    def first(number: int) -> tuple[Mapping[str, Json], str]:
        said = f"Cut to fit: {number} of {len(listed)} arguments, and no {', '.join(_OPTIONAL[:1])}; raise max_tokens."
        schema = {**short[key], "properties": dict(listed[:number])} if listed else {}
        return {**short, **({key: schema} if listed else {})}, said

    number = bisect_left(range(len(listed) + 1), x=True, key=lambda number: not fits(*first(number)))
    if number:
        return first(number - 1)
    name = {"name": definition.get("name")}
    about = str(definition.get("description") or "")
    said = "Cut to fit: the beginning of its description, and no arguments; raise max_tokens."
    length = bisect_left(
        range(len(about) + 1), x=True, key=lambda size: not fits({**name, "description": about[:size]}, said)
    )
    if not length:
        raise UsageError("nothing of the definition fits", hint="raise max_tokens")
    return {**name, "description": about[: length - 1]}, said


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
    total, rest = sum(server.tools for server in servers), servers[place.offset :]
    count = counter_of(index)

    def page(shown: Sequence[ServerTools], room: int = _WIDEST // 2) -> tuple[dict[str, Json], str]:
        after = place.offset + len(shown)
        following = cursor_of(CursorPlace(index.generation, after), values) if after < len(servers) else None
        rows = [_server_json(server, room) for server in shown]
        lines = [f"{len(shown)} of {len(servers):,} servers, {total:,} tools in all", *map(_server_line, rows)]
        more = {"next_cursor": following} if following else {}
        text = "\n".join([*lines, *([f"next_cursor: {following}"] if following else [])])
        return {"total": len(servers), "tools": total, "servers": rows, **more}, text

    def fits(number: int) -> bool:
        structured, text = page(rest[:number])
        return max(count(text), count(compact_json(structured))) <= most

    shown = bisect_left(range(1, len(rest) + 1), x=True, key=lambda number: not fits(number))
    structured, text = page(rest[:shown]) if shown else page(rest[:1], 1)
    return ToolOutcome(structured, text, f"{len(structured['servers'])} servers in structuredContent")


def _server_json(server: ServerTools, room: int) -> dict[str, Json]:
    texts = (printable(shortened(text, room)) for text in (server.name, server.description, server.marks))
    name, about, marks = texts
    row = {"name": name or "(none)", "tools": server.tools, "marks": marks, "description": about}
    return {key: value for key, value in row.items() if value}


def _server_line(row: Mapping[str, Json]) -> str:
    marks = f" ({row['marks']})" if "marks" in row else ""
    return f"{row['name']}: {row['tools']} tool{'' if row['tools'] == 1 else 's'}{marks}" + (
        f" - {row['description']}" if "description" in row else ""
    )
