"""Configurations of clients that name servers of tools: Claude Code and Desktop, Cursor, VS Code, Codex, Gemini.

A file is one of these by its content. Its keys and its folder tell which client wrote it, and so how it writes
variables; the servers have all of them in one form (`ToolServer`).
"""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.tools import ToolServer
from retrieve_cli.errors import SourceFailed, UsageError, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.http.secrets import Secret
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.foreign_json import foreign_json

_MOST_BYTES = 16 * files.MB
"""Size of a configuration: ~/.claude.json also has the history of projects."""
_MOST_SERVERS = 2000
_MARKS = (b"mcpServers", b"mcp_servers", b'"servers"')
_NOT_JSON = re.compile(r'("(?:[^"\\]|\\.)*+"?)|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?', re.DOTALL)
"""Comments, and the strings that are none."""
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+"?)|,(?=\s*+[}\]])', re.DOTALL)
_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_/]\w*+)(?::(-)?([^{}]*+))?\}|([A-Za-z_]\w*+))")
"""A variable as the clients write it: `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `$NAME`."""
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_]\w*+)(?::-([^{}]*+))?\}")
_INPUT = "INPUT_"
"""Beginning of the names of environment variables that give what VS Code asks for."""
_PROJECT_FOLDERS = (".cursor", ".vscode", ".gemini", ".codex", ".claude")
_SSE, _HTTP, _STDIO = ("sse",), ("http", "streamable-http", "streamableHttp"), ("stdio", "local")
_SHORTEST_VARIABLE, _SHORTEST_LITERAL = 6, 12
"""Characters from which on a value is hidden in what a server says: shorter ones are words that occur anywhere."""


class Configured(NamedTuple):
    """Servers of a configuration, and the names of those that it switches off."""

    servers: list[ToolServer]
    disabled: list[str]


class _Client(NamedTuple):
    """The client that wrote a file, and the folder of the project."""

    name: str
    workspace: Path
    inputs: Mapping[str, str]
    """Values that VS Code has for its inputs unless the user enters others."""


def is_configuration(path: Path) -> bool:
    """Return True if a file names servers of tools."""
    try:
        body = files.read_bytes(path, limit=_MOST_BYTES)
        return any(mark in body for mark in _MARKS) and bool(_tables(_document(body)))
    except (OSError, ValueError):
        return False


def servers_in(path: Path) -> Configured:
    """Return the servers of a configuration, each with a name of its own.

    Raises:
        UsageError: it cannot be read, or names no server.
    """
    try:
        document = _document(files.read_bytes(path, limit=_MOST_BYTES))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="check the path") from error
    except ValueError as error:
        raise UsageError(f"{path} is neither JSON nor TOML: {error}", hint="fix it there") from error
    found = Configured([], [])
    for client, table, off in _tables_of(path, document):
        for name, entry in table.items():
            if name in off or (isinstance(entry, dict) and (entry.get("disabled") or entry.get("enabled") is False)):
                found.disabled.append(name)
            else:
                _add(found.servers, _server(name, entry, client), client)
    if not found.servers and not found.disabled:
        hint = 'an example: {"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}'
        raise UsageError(f"{path} names no servers of tools", hint=hint)
    if len(found.servers) > _MOST_SERVERS:
        raise UsageError(f"{path} names more than {_MOST_SERVERS:,} servers", hint="divide it")
    return found


def typed_server(*, command: str = "", url: str = "", name: str = "", folder: Path | None = None) -> ToolServer:
    """Return the server that a command or an address names; its variables are written as in `.mcp.json`.

    Raises:
        UsageError: the command cannot be split into words.
    """
    client = _Client("claude", Path(folder or ""), {})
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"cannot read the command {quoted(command)}: {error}", hint="check its quotes") from error
    where = str(folder.absolute()) if folder and words else None
    return ToolServer(name, tuple(_form(word, client) for word in words), folder=where, url=_form(url, client))


def resolved(server: ToolServer) -> tuple[ToolServer, list[Secret]]:
    """Return a server with the values of its variables, and those that must not be shown.

    Raises:
        SourceFailed: a variable is not set, and has no default.
    """
    secrets = set[str]()

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        text = os.environ.get(match[1]) or match[2]
        if text is None:
            asked = ", which VS Code asks for," if match[1].startswith(_INPUT) else ""
            message = f"the environment variable {match[1]}{asked} is not set"
            raise SourceFailed(message, hint=f"set it: export {match[1]}=…")
        if len(text) >= _SHORTEST_VARIABLE:
            secrets.add(text)
        return text

    fill = partial(_VARIABLE.sub, value)
    environment = {name: fill(text) for name, text in server.environment.items()}
    headers = {name: fill(text) for name, text in server.headers.items()}
    words = (*environment.values(), *(word for text in headers.values() for word in text.split()))
    secrets |= {word for word in words if len(word) >= _SHORTEST_LITERAL}
    command, folder = tuple(map(fill, server.command)), fill(server.folder) if server.folder else None
    whole = replace(
        server, command=command, environment=environment, headers=headers, folder=folder, url=fill(server.url)
    )
    return whole, [Secret(text) for text in sorted(secrets)]


def variables_of(server: ToolServer) -> list[str]:
    """Return the names of the environment variables that a server is given the values of."""
    texts = [*server.command, *server.environment.values(), *server.headers.values(), server.url, server.folder or ""]
    return list(dict.fromkeys(match[1] for text in texts for match in _VARIABLE.finditer(text) if match[1]))


def _document(body: bytes) -> Json:
    """Return JSON, with comments as VS Code permits them, or TOML. Raises: ValueError."""
    text = body.decode("utf-8-sig")
    if not text.lstrip().startswith(("{", "//", "/*")):
        return tomllib.loads(text) if "mcp_servers" in text else None
    with suppress(ValueError):
        return foreign_json(text)
    without_comments = _NOT_JSON.sub(lambda match: match[1] or " ", text)
    return foreign_json(_LAST_COMMA.sub(lambda match: match[1] or "", without_comments))


def _tables(document: Json) -> list[Mapping[str, Json]]:
    """Return the tables of servers in a configuration: one, or several with those of projects."""
    outer = _object(document)
    tables = [_object(outer.get(key)) for key in ("mcpServers", "mcp_servers")]
    tables += [_object(_object(project).get("mcpServers")) for project in _object(outer.get("projects")).values()]
    for holder in (outer, _object(outer.get("mcp"))):
        servers = _object(holder.get("servers"))
        tables += [servers] if all(isinstance(entry, dict) for entry in servers.values()) else []
    return [table for table in tables if table]


def _tables_of(path: Path, document: Json) -> Iterator[tuple[_Client, Mapping[str, Json], list[str]]]:
    """Yield the tables of servers, each with its client and the names that are switched off elsewhere."""
    outer = _object(document)
    folder = path.absolute().parent
    workspace = folder.parent if folder.name in _PROJECT_FOLDERS else folder
    choice = _object(outer.get("mcp"))
    table = _object(outer.get("mcpServers"))
    allowed = choice.get("allowed", outer.get("allowMCPServers"))
    off = [*_texts(choice.get("excluded")), *_texts(outer.get("excludeMCPServers"))]
    off += [name for name in table if allowed and name not in _texts(allowed)]
    yield _Client(_client_of(path, table), workspace, {}), table, off
    yield _Client("codex", workspace, {}), _object(outer.get("mcp_servers")), []
    for holder in (outer, choice):
        inputs = [each for each in holder.get("inputs") or () if isinstance(each, dict)]
        defaults = {str(each.get("id")): str(each["default"]) for each in inputs if each.get("default")}
        yield _Client("vscode", workspace, defaults), _object(holder.get("servers")), []
    for place, project in _object(outer.get("projects")).items():
        inner = _object(project)
        yield (
            _Client("claude", Path(place), {}),
            _object(inner.get("mcpServers")),
            _texts(inner.get("disabledMcpServers")),
        )


def _client_of(path: Path, table: Mapping[str, Json]) -> str:
    """Return the client that wrote a table `mcpServers`, which four of them have."""
    keys = {key for entry in table.values() for key in _object(entry)}
    if path.name == "claude_desktop_config.json":
        return "desktop"
    if path.absolute().parent.name == ".gemini" or keys & {"httpUrl", "includeTools", "excludeTools", "trust"}:
        return "gemini"
    text = str(table)
    marked = "envFile" in keys or any(mark in text for mark in ("${env:", "${workspaceFolder", "${userHome}"))
    return "cursor" if path.absolute().parent.name == ".cursor" or marked else "claude"


def _add(servers: list[ToolServer], server: ToolServer, client: _Client) -> None:
    """Add a server, whose name may be that of another project's server."""
    if replace(server, folder=None) in [replace(other, folder=None) for other in servers]:
        return
    names = {other.name for other in servers}
    if server.name in names:
        choices = (f"{server.name}-{client.workspace.name}", *(f"{server.name}-{number}" for number in range(2, 9999)))
        server = replace(server, name=next(name for name in choices if name not in names))
    servers.append(server)


def _server(name: str, entry: Json, client: _Client) -> ToolServer:
    """Return a server of a configuration; one that cannot be used has the reason as its `problem`."""
    try:
        return _read_server(name, entry, client)
    except ValueError as error:
        return ToolServer(name, problem=str(error))


def _read_server(name: str, entry: Json, client: _Client) -> ToolServer:
    """Raises: ValueError: it cannot be used."""
    if not isinstance(entry, dict):
        raise ValueError("its entry is not an object with `command` or `url`")  # noqa: TRY004  as of its keys
    kind = entry.get("type") or entry.get("transport")
    if kind not in (None, *_STDIO, *_HTTP, *_SSE):
        raise ValueError(f"its type {quoted(kind)} is not supported: stdio, http and sse are")
    if "headersHelper" in entry:
        raise ValueError("its headersHelper is a command, which is not run: write `headers`")
    form = partial(_form, client=client)
    command, url = entry.get("command"), entry.get("httpUrl") or entry.get("url")
    if bool(command) == bool(url) or not isinstance(command or url, str):
        raise ValueError("it takes either `command` or `url`, a text")
    only, without = (_texts(entry.get(key) or entry.get(other)) for key, other in _FILTERS)
    shared = {"only": tuple(only), "without": tuple(without), "description": str(entry.get("description") or "")}
    if url:
        sse = kind in _SSE or (client.name == "gemini" and kind is None and not entry.get("httpUrl"))
        headers = {str(key): form(_plain(value)) for key, value in _object(entry.get("headers")).items()}
        headers |= {str(key): form(_plain(value)) for key, value in _object(entry.get("http_headers")).items()}
        headers |= {str(key): f"${{{value}}}" for key, value in _object(entry.get("env_http_headers")).items()}
        if token := entry.get("bearer_token_env_var"):
            headers["Authorization"] = f"Bearer ${{{token}}}"
        return ToolServer(name, url=form(url), headers=headers, transport="sse" if sse else "http", **shared)
    words = (command, *(_plain(word) for word in entry.get("args") or ()))
    names = (each.get("name") if isinstance(each, dict) else each for each in entry.get("env_vars") or ())
    environment = {str(each): f"${{{each}}}" for each in names}
    environment |= _env_file(form(entry["envFile"]), client) if entry.get("envFile") else {}
    environment |= {str(key): form(_plain(value)) for key, value in _object(entry.get("env")).items()}
    folder = os.path.join(_escaped(str(client.workspace)), form(str(entry.get("cwd") or "")))  # noqa: PTH118
    return ToolServer(name, tuple(map(form, words)), environment=environment, folder=folder, **shared)


_FILTERS = (("includeTools", "enabled_tools"), ("excludeTools", "disabled_tools"))
"""Keys of the tools of a server that are read, and that are not: of Gemini, of Codex."""


def _env_file(name: str, client: _Client) -> dict[str, str]:
    """Return the variables of a file of lines `NAME=value`. Raises: ValueError: it cannot be read."""
    path = client.workspace / _VARIABLE.sub(lambda match: os.environ.get(match[1] or "", "$"), name)
    try:
        text = files.read_text(path, limit=files.CONFIG)
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"its envFile {quoted(str(path))} cannot be read") from None
    lines = [line.strip().removeprefix("export ").partition("=") for line in text.splitlines()]
    pairs = [(key.strip(), value.strip()) for key, sign, value in lines if sign and not key.startswith("#")]
    return {key: _escaped(value[1:-1] if value[:1] in ("'", '"') and value[-1:] == value[:1] else value)
            for key, value in pairs}  # fmt: skip


def _form(text: str, client: _Client) -> str:
    """Return a text with the variables of a client in the form of `ToolServer`. Raises: ValueError."""
    parts, end = [], 0
    for match in _REFERENCE.finditer(text):
        parts += [_escaped(text[end : match.start()]), _reference(match, client)]
        end = match.end()
    return "".join([*parts, _escaped(text[end:])])


def _reference(match: re.Match[str], client: _Client) -> str:
    """Return a variable in the form of `ToolServer`, by the rule of its client; what is none for it stays as it is."""
    word, dash, rest, bare = match.groups()
    if client.name == "gemini" and bare:
        return f"${{{bare}}}"
    if client.name in ("claude", "gemini") and word and "/" not in word and (dash or rest is None):
        return match[0]
    if client.name not in ("cursor", "vscode") or not word or dash:
        return _escaped(match[0])
    if word == "env" and rest:
        return f"${{{rest}}}"
    if word == "input" and rest:
        name = _INPUT + re.sub(r"\W", "_", rest).upper()
        return f"${{{name}:-{client.inputs[rest]}}}" if rest in client.inputs else f"${{{name}}}"
    value = _known(client).get(word) if rest is None else None
    if value is None and rest is not None:
        raise ValueError(f"{match[0]} cannot be resolved outside of the editor: write its value")
    return _escaped(match[0] if value is None else value)


def _known(client: _Client) -> dict[str, str]:
    place = str(client.workspace)
    names = {"workspaceFolder": place, "workspaceRoot": place, "workspaceFolderBasename": client.workspace.name}
    return {**names, "userHome": str(Path.home()), "pathSeparator": os.sep, "/": os.sep, "cwd": place}


def _escaped(text: str) -> str:
    return text.replace("$", "$$")


def _plain(value: Json) -> str:
    """Return a text, a number or a truth value as text. Raises: ValueError."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ValueError(f"{quoted(value)} in its entry is not a text")  # noqa: TRY004  as of its keys
    return str(value)


def _texts(value: Json) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}
