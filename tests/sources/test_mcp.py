"""Servers of tools as a source: six configurations of clients, consent, secrets, failures; servers that mean harm."""

import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from samples import Program, fails, succeeds
from waiting import until

from retrieve_cli.api.named_sources import named_sources
from retrieve_cli.assemble.sources import sources_of
from retrieve_cli.assemble.trusted import trust_of_servers
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.tools import ToolServer
from retrieve_cli.errors import RetrieveError, SourceFailed, UsageError
from retrieve_cli.sources.remote.client_files import is_configuration, resolved, servers_in, typed_server
from retrieve_cli.sources.remote.tool_servers import ServerLimits, call, listings

SECRET = "marked-s3cret-value"
SHORT = ServerLimits(seconds=5)


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


def test_a_variable_is_written_as_its_client_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = {"mcpServers": {"git": {"command": "uvx", "args": ["${REPO:-.}", "$HOME", "${TOKEN}"]}}}
    rows = {
        ".mcp.json": (".", "$HOME", SECRET),
        ".cursor/mcp.json": ("${REPO:-.}", "$HOME", "${TOKEN}"),
        "claude_desktop_config.json": ("${REPO:-.}", "$HOME", "${TOKEN}"),
        ".gemini/settings.json": (".", os.environ["HOME"], SECRET),
    }
    for name, words in rows.items():
        found = found_in(tmp_path / name, plain, monkeypatch)["git"]
        assert found.command == ("uvx", *words), name
        assert found.folder == str(tmp_path), name


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


# ------------------------------------------------------------------------------------------------------ consent


def configurations(marker: Path, port: int) -> Iterator[tuple[str, str]]:
    """Yield generated files of all shapes, with the name of each; whatever they start or contact leaves a trace."""
    draw = random.Random(58)
    url, touch = f"http://127.0.0.1:{port}/mcp", ["/bin/sh", "-c", f"touch {marker}"]
    for number in range(1000):
        entries: dict[str, Any] = {}
        for each in range(draw.randint(1, 4)):
            stdio = {"command": touch[0], "args": touch[1:], "env": {"K": draw.choice(("", "${HOME}", "$HOME", "x"))}}
            http = {draw.choice(("url", "httpUrl")): url, "headers": {"Authorization": "Bearer ${HOME}"}}
            entry = dict(draw.choice((stdio, http)))
            entry |= draw.choice(
                ({}, {"trust": True}, {"alwaysAllow": ["*"]}, {"autoApprove": ["*"]}, {"disabled": False})
            )
            entries[draw.choice(("git", "fs", "\u202egit", "a\x1b[2J", "x" * 200)) + str(each)] = entry
        name = draw.choice((".mcp.json", ".cursor/mcp.json", ".gemini/settings.json", "claude_desktop_config.json"))
        shape = draw.randrange(4)
        if shape == 0:
            yield ".vscode/mcp.json", "// x\n" + json.dumps({"inputs": [], "servers": entries})
        elif shape == 1:
            tables = (f"[mcp_servers.s{i}]\ncommand = {json.dumps(touch[0])}\nargs = {touch[1:]!r}" for i in range(3))
            yield ".codex/config.toml", "\n".join(tables)
        elif shape == 2:
            yield ".claude.json", json.dumps({"projects": {f"/src/{number}": {"mcpServers": entries}}})
        else:
            yield name, json.dumps({"mcpServers": entries})


def test_nothing_is_started_or_contacted_without_consent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 generated configurations in cloned folders: no process, no connection, one sentence each."""
    events: list[str] = []
    watching = [True]

    def see(event: str, _: Any) -> None:
        if watching and event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "socket.connect"):
            events.append(event)

    sys.addaudithook(see)
    sentences = []
    for number, (name, text) in enumerate(configurations(tmp_path / "marker", 9)):
        path = tmp_path / str(number) / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        with pytest.raises(UsageError) as caught:  # no source is made, of which a build or sync could fetch something
            sources_of(named_sources([str(path)], [], []), Settings(), fetched=tmp_path / "fetched")
        sentences.append(caught.value.message)
        assert f"retrieve trust {path}" in caught.value.hint
    watching.clear()
    assert events == []
    assert not (tmp_path / "marker").exists()
    assert all("names servers of tools that you did not agree to: " in sentence for sentence in sentences)


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
    fails(retrieve("build", ".mcp.json", "--dry-run"), 0)


# ------------------------------------------------------------------------------------------------------ servers

SERVER = """
import json, os, subprocess, sys, time
def page(tools, **more):
    return {"tools": tools, **more}
def tool(name, description="", **schema):
    return {"name": name, "description": description, "inputSchema": {"type": "object", **schema}}
ready = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "instructions": "Does " + "things. " * 3,
         "serverInfo": {"name": "raw/server", "version": "1", "title": "A server"}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method, cursor = asked["method"], (asked.get("params") or {}).get("cursor")
    answer = {"error": {"code": -32601, "message": "unknown"}}
    if method == "initialize":
        answer = {"result": ready}
    elif method == "tools/list":
        answer = {"result": LISTED}
    elif method == "tools/call":
        answer = {"result": {"content": [{"type": "text", "text": json.dumps(asked["params"]["arguments"])}], "odd": 1}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
"""A server of tools without the SDK, which starts in 20 ms; `LISTED` is an expression, its answer to `tools/list`."""
ONE = 'page([tool("one", "The first", properties={"a": {"type": "string"}})])'


def written(folder: Path, listed: str = ONE, *, before: str = "") -> str:
    """Write a server; return the command that starts it."""
    path = folder / f"server{len(list(folder.glob('server*')))}.py"
    path.write_text(before + SERVER.replace("LISTED", listed))
    return f"{sys.executable} -S {path}"


def listed_by(command: str, limits: ServerLimits = SHORT) -> Any:
    [answer] = listings([typed_server(command=command)], limits)
    return answer


def test_all_pages_are_read_and_definitions_are_kept_whole(tmp_path: Path) -> None:
    pages = 'page([tool("one") | {"odd": {"x": [1, None]}}], nextCursor="2") if cursor is None else page([tool("two")])'
    found = listed_by(written(tmp_path, pages))
    assert [tool["name"] for tool in found.tools] == ["one", "two"]
    assert found.tools[0] == {
        "name": "one", "description": "", "inputSchema": {"type": "object"}, "odd": {"x": [1, None]}
    }  # fmt: skip
    assert found.name == "raw/server"
    assert found.about == "A server\nDoes things. things. things."


HOSTILE: dict[str, tuple[str, str, str]] = {
    "endless pages": ('page([tool("t")], nextCursor=str(int(cursor or 0) + 1))', "", "more than 1,000 pages"),
    "the same page for ever": ('page([], nextCursor="x")', "", "more than 1,000 pages"),
    "too many tools": ('page([tool(f"t{i}") for i in range(10_001)])', "", "lists more than 10,000 tools"),
    "100 MB in one line": ('page([tool("t", "x" * 100_000_000)])', "", "sent more than 5,242,880 bytes"),
    "100 MB without an end": (
        ONE,
        "import sys\nwhile True: sys.stdout.write('x' * 65536)\n",
        "sent more than 5,242,880",
    ),
    "no answer": (ONE, "import time\ntime.sleep(1000)\n", "did not answer within 1 s"),
    "ends at once": (ONE, "import sys\nsys.exit('no \\x1b[2J key')\n", "it printed “no"),
    "ends in the middle": ("os._exit(3)", "", "Connection closed"),
    "garbage": ('page("nonsense")', "", "failed: "),
    "a tool without schema": ('page([{"name": "t"}])', "", "failed: "),
    "an error": ("{}['x']", "", "KeyError"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_server_is_bounded_and_named(tmp_path: Path, case: str) -> None:
    listed, before, reason = HOSTILE[case]
    limits = ServerLimits(seconds=1) if "within 1 s" in reason else ServerLimits()
    error = listed_by(written(tmp_path, listed, before=before), limits)
    assert isinstance(error, SourceFailed)
    assert reason in error.message
    assert error.message.isprintable()
    assert len(error.message) < 1000


def test_lines_that_are_no_messages_are_skipped(tmp_path: Path) -> None:
    banner = "print('Starting ...\\n{\\n[]\\n{\"jsonrpc\": 3}', flush=True)\n"
    assert [tool["name"] for tool in listed_by(written(tmp_path, before=banner)).tools] == ["one"]


def test_children_of_a_server_end_with_it(tmp_path: Path) -> None:
    child = "import os, subprocess\nopen('pid', 'w').write(str(subprocess.Popen(['sleep', '1000']).pid))\n"
    assert listed_by(written(tmp_path, before=child)).tools
    pid = int(Path("pid").read_text())
    state = Path(f"/proc/{pid}/stat")
    until(lambda: not state.exists() or state.read_text().split()[2] == "Z", "the end of the child")


def test_servers_are_asked_in_parallel_and_one_failure_is_its_own(tmp_path: Path) -> None:
    slow = "import time\ntime.sleep(1)\n"
    commands = [*(written(tmp_path, before=slow) for _ in range(3)), "/missing/program", written(tmp_path)]
    servers = [typed_server(command=command) for command in commands]
    found = listings(servers, ServerLimits(seconds=20))
    assert [isinstance(answer, RetrieveError) for answer in found] == [False, False, False, True, False]


def test_a_call_sees_the_definition_first_and_returns_the_answer_unchanged(tmp_path: Path) -> None:
    seen: list[Any] = []
    server = typed_server(command=written(tmp_path))
    result = call(server, "one", {"a": "ü"}, check=seen.append)
    assert result == {"content": [{"type": "text", "text": '{"a": "\\u00fc"}'}], "odd": 1}
    assert [definition["description"] for definition in seen] == ["The first"]

    def reject(_: Any) -> None:
        raise UsageError("it has changed")

    with pytest.raises(UsageError, match="it has changed"):
        call(server, "one", {}, check=reject)
    with pytest.raises(SourceFailed, match="does not list two"):
        call(server, "two", {}, check=seen.append)


# -------------------------------------------------------------------------------------------------- build and sync


def configured(folder: Path, **servers: str) -> Path:
    """Write a configuration of servers by command, and agree to it."""
    entries = {name: dict(zip(("command", "args"), _split(command), strict=True)) for name, command in servers.items()}
    path = folder / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": entries}))
    return path


def _split(command: str) -> tuple[str, list[str]]:
    first, *others = command.split()
    return first, others


def lines_of(name: str = "mcp.json") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(f"artifacts/sources/{name}.jsonl").read_text().splitlines()]


def test_a_build_reads_the_tools_and_a_sync_only_those_of_a_server_that_changed(
    tmp_path: Path, retrieve: Program
) -> None:
    commands = {"git": written(tmp_path), "time": written(tmp_path, 'page([tool("now", "The time of day")])')}
    configured(tmp_path, **commands)
    fails(retrieve("build", ".mcp.json"), 2, "did not agree to: git (", "retrieve trust .mcp.json")
    assert not Path("artifacts").exists()
    succeeds(retrieve("trust", ".mcp.json", "--yes"))
    succeeds(retrieve("build", ".mcp.json"))
    assert [line["id"] for line in lines_of()] == ["git/one", "time/now"]
    assert succeeds(retrieve("query", "the time", "--json")).json["results"][0]["doc_id"] == "time/now"
    assert succeeds(retrieve("sync", "--json")).json["status"] == "unchanged"
    (tmp_path / "server1.py").write_text(SERVER.replace("LISTED", 'page([tool("now", "The date"), tool("zone")])'))
    report = succeeds(retrieve("sync", "--json")).json
    assert (report["added"], report["changed"], report["kept"], report["embedded"]) == (1, 1, 1, 2)


def test_a_server_that_fails_keeps_its_last_tools_with_the_time(tmp_path: Path, retrieve: Program) -> None:
    commands = {"git": written(tmp_path), "time": written(tmp_path)}
    configured(tmp_path, **commands)
    succeeds(retrieve("trust", ".mcp.json", "--yes"))
    succeeds(retrieve("build", ".mcp.json"))
    server = tmp_path / "server0.py"
    text = server.read_text()
    server.write_text("import sys\nsys.exit('out of order')")
    done = fails(retrieve("sync"), 8, "git has not answered since 20", "its last 1 tool stay", "“out of order”")
    since = lines_of()[0]["stale"]
    assert since in done.err
    assert "stale" not in lines_of()[1]
    done = fails(retrieve("sync", "--json"), 8)
    assert (done.json["status"], lines_of()[0]["stale"]) == ("unchanged", since)
    assert since in done.json["failures"][0]
    server.write_text(text)
    succeeds(retrieve("sync"))
    assert "stale" not in lines_of()[0]
    configured(tmp_path, git=commands["git"])
    succeeds(retrieve("trust", "--yes"))
    fails(retrieve("sync", "--max-shrink", "0.2"), 1, "refusing to publish a loss of 50 %")
    succeeds(retrieve("sync"))
    assert [line["id"] for line in lines_of()] == ["git/one"]


def test_a_build_without_any_answer_fails(tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"a": {"command": "x", "env": {"K": "${MISSING}"}}}}))
    succeeds(retrieve("trust", ".mcp.json", "--yes"))
    fails(retrieve("build", ".mcp.json"), 1, "the environment variable MISSING is not set", "export MISSING=")


def test_a_typed_server_is_agreed_to_and_a_cloned_index_starts_nothing(
    tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "started"
    command = written(tmp_path, before=f"open({str(marker)!r}, 'w')\n")
    succeeds(retrieve("build", "--mcp", command, "--mcp", command))
    assert [line["id"] for line in lines_of("server0.py")] == ["raw-server/one"]
    assert [line["id"] for line in lines_of("server0.py-2")] == ["server0.py-2/one"]
    marker.unlink()
    succeeds(retrieve("sync"))
    assert marker.exists()
    marker.unlink()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    fails(retrieve("sync"), 2, "which you did not agree to read", "retrieve trust")
    for words in (["inspect", "status"], ["doctor"], ["query", "one"], ["build", "--dry-run", "--mcp", command]):
        retrieve(*words)
    assert not marker.exists()


def test_no_secret_leaves_the_environment(tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that repeats its secrets everywhere: in a description, a key, its name, its complaints."""
    monkeypatch.setenv("TOKEN", SECRET)
    key = "literal-k3y-of-the-file"
    leak = 'page([tool("one", "Key " + os.environ["KEY"] + os.environ["TOKEN"], **{"x" + os.environ["TOKEN"]: 1})])'
    command, script = written(tmp_path, leak).rsplit(" ", 1)
    text = (
        Path(script)
        .read_text()
        .replace('"raw/server"', 'os.environ["TOKEN"]')
        .replace("things. ", "' + os.environ['TOKEN'] + '")
    )
    Path(script).write_text(text.replace('"Does "', "os.environ['KEY']"))
    fails_later = tmp_path / "failing.py"
    fails_later.write_text("import os, sys\nsys.exit(os.environ['TOKEN'] + os.environ['KEY'])")
    environment = {"TOKEN": "${TOKEN}", "KEY": key}
    first, *others = command.split()
    entries = {
        "leaks": {"command": first, "args": [*others, script], "env": environment},
        "fails": {"command": first, "args": [*others, str(fails_later), "${TOKEN}"], "env": environment},
        "lost": {"command": "/missing/${TOKEN}"},
        "hub": {"url": "http://127.0.0.1:9/${TOKEN}", "headers": {"Authorization": "Bearer ${TOKEN}", "X": key}},
    }
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    runs = [retrieve("trust", ".mcp.json", "--yes"), retrieve("build", ".mcp.json"), retrieve("sync", "-v")]
    runs += [retrieve("query", "key", "--json"), retrieve("inspect", "records", "--json"), retrieve("doctor")]
    assert [run.code for run in runs[:5]] == [0, 8, 8, 0, 0]
    printed = "".join(run.out + run.err for run in runs)
    stored = [
        file.read_bytes() for folder in ("artifacts", "state") for file in Path(folder).rglob("*") if file.is_file()
    ]
    for secret in (SECRET, key):
        assert secret not in printed
        assert [data for data in stored if secret.encode() in data] == []
    assert "***" in printed
