"""Configurations of clients that name servers of tools: Claude Code and Desktop, Cursor, VS Code, Codex, Gemini.

A file is one of these by its content. Its keys and its folder tell which client wrote it, and so how it writes
variables; the result has all of them in one form (`ToolServer`).
"""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.tools import ToolServer
from retrieve_cli.errors import SourceFailed, UsageError, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.http.secrets import Secret
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.foreign_json import foreign_json

_MOST_BYTES, _MOST_SERVERS = 16 * files.MB, 2000
"""Limits of a configuration: ~/.claude.json also has the history of projects."""
_MARKS = (b"mcpServers", b"mcp_servers", b'"servers"')
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*+"?)|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+"?)|,(?=\s*+[}\]])', re.DOTALL)
"""Comments and commas that VS Code permits in JSON; strings are matched first, because they may hold the same."""
_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_/]\w*+)(?::(-)?([^{}]*+))?\}|([A-Za-z_]\w*+))")
"""A variable as clients write it: `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `$NAME`."""
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_]\w*+)(?::-([^{}]*+))?\}")
"""A variable, or a dollar sign, in a value of a `ToolServer`."""
_INPUT = "INPUT_"
"""Beginning of the names of environment variables for values that VS Code asks for."""
_NAMES = {".mcp.json": "claude", ".claude.json": "claude", "claude_desktop_config.json": "desktop"}
_PROJECT_FOLDERS = (".cursor", ".vscode", ".gemini", ".codex", ".claude")
_KINDS = (None, "stdio", "local", "http", "streamable-http", "sse")
_FILTERS = (("includeTools", "enabled_tools"), ("excludeTools", "disabled_tools"))
"""Keys of tools that are read, and of tools that are not: of Gemini, of Codex."""
_SHORTEST_VARIABLE, _SHORTEST_LITERAL = 6, 12
"""Characters of values that are hidden wherever a server repeats them: shorter ones are words that occur anywhere."""


class ConfiguredServers(NamedTuple):
    """Servers of a configuration, and the names of servers that it switches off."""

    servers: list[ToolServer]
    disabled: list[str]


class _Client(NamedTuple):
    """The client that wrote a file, the folder of the project, and defaults of what VS Code asks for."""

    name: str
    workspace: Path
    inputs: Mapping[str, str] = {}


def is_configuration(path: Path) -> bool:
    """Return True if a file names servers of tools."""
    try:
        body = files.read_bytes(path, limit=_MOST_BYTES)
        return any(mark in body for mark in _MARKS) and any(table for _, table, _ in _tables(path, _document(body)))
    except (OSError, ValueError, RecursionError):
        return False


def servers_in(path: Path) -> ConfiguredServers:
    """Return the servers of a configuration, whose names differ.

    Raises:
        UsageError: it cannot be read, or names no server.
    """
    try:
        tables = list(_tables(path, _document(files.read_bytes(path, limit=_MOST_BYTES))))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="check the path") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot read {path} as JSON or TOML: {error}", hint="fix it there") from error
    servers: dict[str, ToolServer] = {}
    disabled: list[str] = []
    for client, table, off in tables:
        for name, entry in table.items():
            if name in off or _object(entry).get("disabled") is True or _object(entry).get("enabled") is False:
                disabled.append(name)
                continue
            server, place = _server(name, entry, client), client.workspace.name
            names = chain((name, f"{name}-{place}"), (f"{name}-{place}-{number}" for number in count(2)))
            free = next(each for each in names if each not in servers)  # several projects may have one of this name
            servers[free] = replace(server, name=free)
    if not 0 < len(servers) + len(disabled) <= _MOST_SERVERS:
        hint = 'an example: {"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}'
        raise UsageError(f"{path} names {len(servers):,} servers of tools (limit: {_MOST_SERVERS:,})", hint=hint)
    return ConfiguredServers(list(servers.values()), disabled)


def typed_server(*, command: str = "", url: str = "", name: str = "", folder: Path = Path()) -> ToolServer:
    """Return the server of a command, which runs in a folder, or of an address; variables are as in `.mcp.json`.

    Raises:
        UsageError: the command cannot be split into words.
    """
    form = partial(_form, client=_Client("claude", folder))
    try:
        words = tuple(map(form, shlex.split(command)))
    except ValueError as error:
        raise UsageError(f"cannot read the command {quoted(command)}: {error}", hint="check its quotes") from error
    return ToolServer(name, words, folder=_escaped(str(folder.absolute())), url=form(url))


def resolved(server: ToolServer) -> tuple[ToolServer, list[Secret]]:
    """Return a server with the values of its variables, and the values that must not be shown.

    Raises:
        SourceFailed: a variable is not set, and has no default.
    """
    secrets = set[str]()

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        text = os.environ.get(match[1])
        text = match[2] if not text and match[2] is not None else text
        if text is None:
            asked = ", which VS Code asks for," if match[1].startswith(_INPUT) else ""
            message = f"the environment variable {match[1]}{asked} is not set"
            raise SourceFailed(message, hint=f"export {match[1]}=…")
        secrets.update([text] if len(text) >= _SHORTEST_VARIABLE else [])
        return text

    fill = partial(_VARIABLE.sub, value)
    environment, headers = (
        {name: fill(text) for name, text in values.items()} for values in (server.environment, server.headers)
    )
    words = (*environment.values(), *(word for header in headers.values() for word in header.split()))
    secrets |= {word for word in words if len(word) >= _SHORTEST_LITERAL}
    command, folder, url = tuple(map(fill, server.command)), fill(server.folder or ""), fill(server.url)
    whole = replace(server, command=command, environment=environment, headers=headers, folder=folder, url=url)
    return whole, [Secret(text) for text in sorted(secrets)]


def described(server: ToolServer) -> str:
    """Return what starts a server, with all arguments, or its address; and the names of variables and headers."""
    place = f"{shlex.join(server.command)} (in {server.folder})" if server.command else server.url
    values = [*server.environment.values(), *server.headers.values()]
    read = [match[1] for text in values for match in _VARIABLE.finditer(text) if match[1]]
    parts = {"environment": list(server.environment), "headers": list(server.headers), "reads": read}
    lists = [f"{what}: {', '.join(dict.fromkeys(names))}" for what, names in parts.items() if names]
    return "; ".join([place.replace("$$", "$"), *lists])


def _document(body: bytes) -> Json:
    """Return JSON, with comments and commas as VS Code permits them, or TOML. Raises: ValueError."""
    text = body.decode("utf-8-sig")
    if not text.lstrip().startswith(("{", "//", "/*")):
        return tomllib.loads(text)
    with suppress(ValueError):
        return foreign_json(text)
    text = _COMMENT.sub(lambda match: match[1] or " ", text)
    return foreign_json(_LAST_COMMA.sub(lambda match: match[1] or "", text))


def _tables(path: Path, document: Json) -> Iterator[tuple[_Client, Mapping[str, Json], list[str]]]:
    """Yield the tables of servers, each with its client and the names that are switched off elsewhere."""
    outer, folder = _object(document), path.absolute().parent
    workspace = folder.parent if folder.name in _PROJECT_FOLDERS else folder
    choice, table = _object(outer.get("mcp")), _object(outer.get("mcpServers"))
    allowed = choice.get("allowed", outer.get("allowMCPServers"))
    off = [*_texts(choice.get("excluded")), *_texts(outer.get("excludeMCPServers"))]
    off += [name for name in table if allowed and name not in _texts(allowed)]
    yield _Client(_client_of(path, table), workspace), table, off
    yield _Client("codex", workspace), _object(outer.get("mcp_servers")), []
    for holder in (outer, choice):
        inputs = [each for each in _list(holder.get("inputs")) if isinstance(each, dict) and "default" in each]
        servers = _object(holder.get("servers"))
        if all(isinstance(entry, dict) and "tools" not in entry for entry in servers.values()):
            defaults = {str(each.get("id")): str(each["default"]) for each in inputs}
            yield _Client("vscode", workspace, defaults), servers, []
    for place, project in _object(outer.get("projects")).items():
        inner = _object(project)
        off = _texts(inner.get("disabledMcpServers"))
        yield _Client("claude", Path(place)), _object(inner.get("mcpServers")), off


def _client_of(path: Path, table: Mapping[str, Json]) -> str:
    """Return the client that wrote a table `mcpServers`, which four of them have."""
    keys = {key for entry in table.values() for key in _object(entry)}
    folder, text = path.absolute().parent.name, str(table)
    if path.name in _NAMES:
        return _NAMES[path.name]
    if folder == ".gemini" or keys & {"httpUrl", "includeTools", "excludeTools", "trust"}:
        return "gemini"
    marked = "envFile" in keys or any(mark in text for mark in ("${env:", "${workspaceFolder", "${userHome}"))
    return "cursor" if folder == ".cursor" or marked else "claude"


def _server(name: str, entry: Json, client: _Client) -> ToolServer:
    """Return a server of a configuration; one that cannot be used has the reason as its `problem`."""
    try:
        return _read_server(name, _object(entry), client)
    except ValueError as error:
        return ToolServer(name, problem=str(error))


def _read_server(name: str, entry: Mapping[str, Json], client: _Client) -> ToolServer:
    """Raises: ValueError: the server cannot be used."""
    form, kind = partial(_form, client=client), entry.get("type")
    if kind not in _KINDS:
        raise ValueError(f"its type {quoted(kind)} is not supported (stdio, http, sse)")
    if "headersHelper" in entry:
        raise ValueError("its headersHelper is a command, which is not run: write `headers`")
    command, url = entry.get("command"), entry.get("httpUrl") or entry.get("url")
    if bool(command) == bool(url) or not isinstance(command or url, str):
        raise ValueError("it needs either `command` or `url`")
    only, without = (tuple(_texts(entry.get(key) or entry.get(other))) for key, other in _FILTERS)
    own: dict[str, Any] = {"description": str(entry.get("description") or ""), "only": only, "without": without}
    if url:
        is_old = client.name == "gemini" and not kind and not entry.get("httpUrl")
        headers = {
            **{key: form(value) for key, value in _values(entry, "headers", "http_headers")},
            **{key: f"${{{value}}}" for key, value in _values(entry, "env_http_headers")},
        }
        if token := entry.get("bearer_token_env_var"):
            headers["Authorization"] = f"Bearer ${{{token}}}"
        way: Literal["sse", "http"] = "sse" if is_old or kind == "sse" else "http"
        return ToolServer(name, url=form(url), headers=headers, transport=way, **own)
    names = [each.get("name") if isinstance(each, dict) else each for each in _list(entry.get("env_vars"))]
    environment = {str(each): f"${{{each}}}" for each in names}
    environment |= _env_file(entry["envFile"], client) if entry.get("envFile") else {}
    environment |= {key: form(value) for key, value in _values(entry, "env")}
    folder = str(Path(_escaped(str(client.workspace))) / form(entry.get("cwd") or ""))
    words = (form(command), *map(form, _list(entry.get("args"))))
    return ToolServer(name, words, environment, folder, **own)


def _values(entry: Mapping[str, Json], *keys: str) -> Iterator[tuple[str, Json]]:
    for key in keys:
        yield from _object(entry.get(key)).items()


def _env_file(name: Json, client: _Client) -> dict[str, str]:
    """Return the variables of a file of lines `NAME=value`. Raises: ValueError: it cannot be read."""
    path = client.workspace / _form(name, client).replace("$$", "$")
    try:
        text = files.read_text(path, limit=files.CONFIG)
    except OSError:
        raise ValueError(f"its envFile {quoted(str(path))} cannot be read") from None
    pairs = [line.strip().removeprefix("export ").partition("=") for line in text.splitlines()]
    texts = {key.strip(): value.strip() for key, sign, value in pairs if sign and not key.startswith("#")}
    return {key: _escaped(text.strip(text[:1]) if text[:1] in ("'", '"') else text) for key, text in texts.items()}


def _form(text: Json, client: _Client) -> str:
    """Return a text, number or truth value with the variables of a client in the form of `ToolServer`.

    Raises:
        ValueError: it is something else, or has a variable that only the editor knows.
    """
    if not isinstance(text, str | int | float):
        raise ValueError(f"{quoted(text)} in its entry is not a text")  # noqa: TRY004  as of other values
    text = text if isinstance(text, str) else str(text).lower()
    parts, end = [], 0
    for match in _REFERENCE.finditer(text):
        parts += [_escaped(text[end : match.start()]), _reference(match, client)]
        end = match.end()
    return "".join([*parts, _escaped(text[end:])])


def _reference(match: re.Match[str], client: _Client) -> str:
    """Return a variable in the form of `ToolServer`, by the rule of its client; text that it does not know as one stays
    text. Raises: ValueError."""
    word, dash, rest, bare = match.groups()
    if client.name == "gemini" and bare:
        return f"${{{bare}}}"
    if client.name in ("claude", "gemini") and word and word != "/" and (dash or rest is None):
        return match[0]
    if client.name not in ("cursor", "vscode") or not word or dash:
        return _escaped(match[0])
    if word == "env" and rest:
        return f"${{{rest}}}"
    if word == "input" and rest:
        variable = _INPUT + re.sub(r"\W", "_", rest).upper()
        return f"${{{variable}:-{client.inputs[rest]}}}" if rest in client.inputs else f"${{{variable}}}"
    if rest is not None:
        raise ValueError(f"{match[0]} is known to the editor alone: write its value")
    place, name = str(client.workspace), client.workspace.name
    known = {"workspaceFolder": place, "workspaceFolderBasename": name, "userHome": str(Path.home()), "cwd": place}
    return _escaped({**known, "pathSeparator": os.sep, "/": os.sep}.get(word, match[0]))


def _escaped(text: str) -> str:
    return text.replace("$", "$$")


def _list(value: Json) -> list[Json]:
    """Return a list. Raises: ValueError: it is something else."""
    if not isinstance(value, list | None):
        raise ValueError(f"{quoted(value)} is not a list")  # noqa: TRY004  as of other values
    return value or []


def _texts(value: Json) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}
