"""Configurations of clients that name servers of tools: six of them, and the agreement to what they start."""

import copy
import json
import random
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from samples import Program, fails, succeeds

from retrieve_cli.assemble.trusted import trust_of_servers
from retrieve_cli.contracts.tools import ToolServer
from retrieve_cli.errors import SourceFailed, UsageError
from retrieve_cli.sources.remote.client_files import described, is_configuration, resolved, servers_in

SECRET = "marked-s3cret-value"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agreements of the user are kept in a folder of the test; there are none yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("RETRIEVE_TRUST")


# -------------------------------------------------------------------------------------------- six configurations

CLAUDE = {
    "mcpServers": {
        "git": {
            "command": "uvx",
            "args": ["mcp-server-git", "--repository", "${REPO:-.}", "$HOME", "${env:TOKEN}"],
            "env": {"TOKEN": "${TOKEN}", "LEVEL": "info", "N": 3, "ON": True},
        },
        "hub": {
            "type": "http",
            "url": "https://${HOST:-hub.example}/mcp",
            "headers": {"Authorization": "Bearer ${TOKEN}"},
        },
        "old": {"type": "sse", "url": "https://hub.example/sse"},
    }
}
CURSOR = {
    "mcpServers": {
        "files": {
            "command": "node",
            "args": ["${workspaceFolder}${/}serve.js", "${workspaceFolderBasename}", "${TOKEN}"],
            "env": {"TOKEN": "${env:TOKEN}"},
            "envFile": "${workspaceFolder}/.env",
        }
    }
}
DESKTOP = {"mcpServers": {"git": {"command": "uvx", "args": ["${TOKEN}", "$TOKEN"], "env": {"KEY": "${TOKEN}"}}}}
GEMINI = {
    "mcpServers": {
        "new": {"httpUrl": "https://hub.example/mcp", "headers": {"X-Key": "$TOKEN"}, "trust": True},
        "old": {"url": "https://hub.example/sse", "includeTools": ["a"], "excludeTools": ["b"]},
        "out": {"command": "x"},
    },
    "mcp": {"excluded": ["out"]},
}
VSCODE = """// Servers of this folder
{
  "inputs": [{"type": "promptString", "id": "hub-key", "password": true}, {"id": "level", "default": "info"},],
  "servers": {
    /* a server // of files */
    "files": {"type": "stdio", "command": "npx", "args": ["${workspaceFolder}", "${input:level}", "http://a//b"],
              "env": {"TOKEN": "${env:TOKEN}", "KEY": "${input:hub-key}"},},
    "hub": {"type": "http", "url": "https://hub.example/mcp"},
  },
}
"""
CODEX = """
model = "any"
[mcp_servers.git]
command = "uvx"
args = ["mcp-server-git", "${TOKEN}"]
env_vars = ["TOKEN", {name = "HOST"}]
cwd = "sub"
enabled_tools = ["a"]
[mcp_servers.git.env]
LEVEL = "info"
[mcp_servers.hub]
url = "https://hub.example/mcp"
bearer_token_env_var = "TOKEN"
http_headers = {Region = "eu"}
env_http_headers = {Host = "HOST"}
[mcp_servers.off]
command = "x"
enabled = false
"""
PROJECTS = {
    "mcpServers": {"git": {"command": "a"}},
    "projects": {
        "/src/one": {"mcpServers": {"git": {"command": "b"}, "time": {"command": "c"}}, "disabledMcpServers": ["time"]},
        "/src/two": {"mcpServers": {}, "history": []},
    },
}


def found_in(path: Path, content: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, ToolServer]:
    """Return the servers of a file by name, with their variables resolved."""
    monkeypatch.setenv("TOKEN", SECRET)
    monkeypatch.setenv("HOST", "example.org")
    monkeypatch.setenv("INPUT_HUB_KEY", "typed-into-the-editor")
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    assert is_configuration(path)
    return {server.name: resolved(server)[0] for server in servers_in(path).servers}


def test_claude_code_expands_variables_with_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = found_in(tmp_path / ".mcp.json", CLAUDE, monkeypatch)
    assert found["git"].command == ("uvx", "mcp-server-git", "--repository", ".", "$HOME", "${env:TOKEN}")
    assert found["git"].environment == {"TOKEN": SECRET, "LEVEL": "info", "N": "3", "ON": "true"}
    assert found["hub"].url == "https://example.org/mcp"
    assert found["hub"].headers == {"Authorization": f"Bearer {SECRET}"}
    assert (found["hub"].transport, found["old"].transport) == ("http", "sse")


def test_desktop_expands_nothing_and_values_may_be_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = found_in(tmp_path / "claude_desktop_config.json", DESKTOP, monkeypatch)["git"]
    assert (found.command, found.environment) == (("uvx", "${TOKEN}", "$TOKEN"), {"KEY": "${TOKEN}"})
    settings = {"mcpServers": {"a": {"command": "x", "args": [1], "env": {"N": 3, "ON": True}}}}
    assert found_in(tmp_path / "mcp.json", settings, monkeypatch)["a"].environment == {"N": "3", "ON": "true"}


def test_cursor_knows_folders_and_files_of_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("# keys\nexport A=1\nB = 'two words'\nTOKEN=other\nno sign\n")
    found = found_in(tmp_path / ".cursor" / "mcp.json", CURSOR, monkeypatch)["files"]
    assert found.command == ("node", f"{tmp_path}/serve.js", tmp_path.name, "${TOKEN}")
    assert found.environment == {"A": "1", "B": "two words", "TOKEN": SECRET}


def test_gemini_names_both_transports_and_filters_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = found_in(tmp_path / "settings.json", GEMINI, monkeypatch)
    assert {name: server.transport for name, server in found.items()} == {"new": "http", "old": "sse"}
    assert found["new"].headers == {"X-Key": SECRET}
    assert (found["old"].only, found["old"].without) == (("a",), ("b",))
    assert servers_in(tmp_path / "settings.json").disabled == ["out"]


def test_vs_code_has_comments_and_asks_for_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / ".vscode" / "mcp.json"
    found = found_in(path, VSCODE, monkeypatch)
    assert found["files"].command == ("npx", str(tmp_path), "info", "http://a//b")
    assert found["files"].environment == {"TOKEN": SECRET, "KEY": "typed-into-the-editor"}
    monkeypatch.delenv("INPUT_HUB_KEY")
    with pytest.raises(SourceFailed, match="INPUT_HUB_KEY, which VS Code asks for, is not set"):
        resolved(servers_in(path).servers[0])


def test_codex_names_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = found_in(tmp_path / ".codex" / "config.toml", CODEX, monkeypatch)
    assert found["git"].command == ("uvx", "mcp-server-git", "${TOKEN}")
    assert found["git"].environment == {"TOKEN": SECRET, "HOST": "example.org", "LEVEL": "info"}
    assert (found["git"].folder, found["git"].only) == (str(tmp_path / "sub"), ("a",))
    assert found["hub"].headers == {"Region": "eu", "Host": "example.org", "Authorization": f"Bearer {SECRET}"}
    assert servers_in(tmp_path / ".codex" / "config.toml").disabled == ["off"]


def test_servers_of_projects_have_names_that_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = found_in(tmp_path / ".claude.json", PROJECTS, monkeypatch)
    assert {name: (server.command, server.folder) for name, server in found.items()} == {
        "git": (("a",), str(tmp_path)),
        "git-one": (("b",), "/src/one"),
    }
    assert servers_in(tmp_path / ".claude.json").disabled == ["time"]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("uvx", "needs either `command` or `url`"),
        ({}, "needs either `command` or `url`"),
        ({"command": "a", "url": "https://b"}, "needs either `command` or `url`"),
        ({"command": ["a"]}, "needs either `command` or `url`"),
        ({"type": "ws", "url": "wss://b"}, "type 'ws' is not supported"),
        ({"command": "a", "args": [{}]}, "is not a text"),
        ({"command": "a", "args": ["${workspaceFolder}", "${command:pick}"]}, "is known to the editor alone"),
        ({"command": "a", "envFile": "missing"}, "envFile"),
        ({"url": "https://b", "headersHelper": "./keys.sh"}, "headersHelper is a command"),
    ],
)
def test_an_entry_that_cannot_be_used_has_its_reason(tmp_path: Path, entry: Any, problem: str) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"odd": entry, "well": {"command": "a"}}}))
    odd, well = servers_in(tmp_path / "mcp.json").servers
    assert problem in odd.problem
    assert well.problem == ""


def test_other_files_are_no_configurations(tmp_path: Path) -> None:
    texts = {
        "a.jsonl": '{"id": "a", "name": "mcpServers"}\n{"id": "b"}\n',
        "b.json": '[{"mcpServers": {"a": {"command": "x"}}}]',
        "c.json": '{"servers": [{"server": {"name": "a"}}]}',
        "d.json": '{"mcpServers": {}, "tools": []}',
        "e.toml": '[tool]\nmcp_servers = "none"\n',
        "f.json": '{"mcpServers": {',
        "g.json": '{"mcpServers": ' + "[" * 5000,
        "h.md": 'An example: {"mcpServers": {"a": {"command": "x"}}}',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        assert not is_configuration(tmp_path / name), name
    with pytest.raises(UsageError, match="0 servers of tools"):
        servers_in(tmp_path / "d.json")


ODD: list[Any] = [
    None,
    0,
    1.5,
    True,
    "",
    "x",
    "${",
    "${A:-${B}",
    "\0",
    [],
    [[]],
    {},
    {"a": 1},
    "${input:",
    ["a", None],
    "/*",
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value within a value of JSON."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(value[key], (*path, key))


def test_any_value_anywhere_is_read_or_rejected_in_words(tmp_path: Path) -> None:
    draw, path = random.Random(58), tmp_path / "mcp.json"
    documents = [CLAUDE, CURSOR, GEMINI, PROJECTS, tomllib.loads(CODEX)]
    for _ in range(300):
        document = copy.deepcopy(draw.choice(documents))
        for _ in range(2):
            *above, last = draw.choice(list(places(document)))
            reduce(getitem, above, document)[last] = copy.deepcopy(draw.choice(ODD))
        path.write_text(json.dumps(document))
        with suppress(UsageError):
            for server in servers_in(path).servers:
                assert described(server) or server.problem
                with suppress(SourceFailed):
                    resolved(server)


# ------------------------------------------------------------------------------------------------------ agreement


def test_any_edit_of_a_server_asks_again(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"

    def digest(entry: Any) -> str:
        path.write_text(json.dumps({"mcpServers": {"a": entry}}))
        return trust_of_servers(path)[0].digest

    stdio = {"command": "a", "args": ["b", "c"], "env": {"K": "v"}, "cwd": "d"}
    http = {"url": "https://a/mcp", "headers": {"K": "v"}}
    edits = [{**stdio, "command": "b"}, {**stdio, "args": ["b c"]}, {**stdio, "env": {"K": "w"}}, {**stdio, "cwd": "e"}]
    edits += [{**stdio, "env": {"L": "v"}}, {**stdio, "args": ["b", "c", "d"]}, {**stdio, "env": {"K": "${v}"}}]
    edits += [http, {**http, "url": "https://b/mcp"}, {**http, "headers": {"K": "w"}}, {**http, "type": "sse"}]
    digests = [digest(entry) for entry in (stdio, *edits)]
    assert len(set(digests)) == len(digests)
    assert digest({**stdio, "alwaysAllow": ["x"]}) == digests[0]  # what does not reach the server does not count


def test_trust_shows_all_arguments_and_no_values(tmp_path: Path, retrieve: Program) -> None:
    words = [*(f"--flag-{number}" for number in range(200)), "\x1b[2Jrm"]
    entry = {"command": "uvx", "args": words, "env": {"KEY": SECRET, "T": "${TOKEN}"}}
    hub = {"url": "https://hub.example/mcp", "headers": {"X-Key": SECRET}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"a": entry, "b": hub}}))
    done = fails(retrieve("trust", ".mcp.json"), 2, "retrieve trust .mcp.json --yes")
    assert all(word in done.err for word in words[:-1])
    assert "\\x1b[2Jrm" in done.err
    assert all(part in done.err for part in ("environment: KEY, T; reads: TOKEN", "https://hub.example/mcp", "X-Key"))
    assert SECRET not in done.err
    succeeds(retrieve("trust", ".mcp.json", "--yes"))
    assert trust_of_servers(tmp_path / ".mcp.json")[0].agreed
    assert all(SECRET.encode() not in file.read_bytes() for file in (tmp_path / "state").rglob("*") if file.is_file())
