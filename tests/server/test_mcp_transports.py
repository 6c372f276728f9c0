"""MCP over standard input and output as a process, and over HTTP by a real server; revisions, purity, conformance."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from npm_packages import installed
from servers import Server
from waiting import PATIENCE_S

_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_CONFORMANCE = "0.2.0-alpha.12"
"""Folder in which npm has installed the suite, and `node` if the one of the machine is too old."""


def process_of(artifacts: Path, *flags: str, **environment: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "retrieve_cli", "mcp", "--artifacts", str(artifacts), *flags]
    own, pipe = {**os.environ, "RETRIEVE_ENCODER__KIND": "hashed", **environment}, subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=own)


def session(process: "subprocess.Popen[bytes]", version: str, *requests: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the answers to a handshake and requests; each line of the output is a message of the protocol."""
    client = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    handshake = [{"id": 0, "method": "initialize", "params": client}, {"method": "notifications/initialized"}]
    assert process.stdin is not None
    assert process.stdout is not None
    answers: list[dict[str, Any]] = []
    with process:
        try:
            for message in [*handshake, *requests]:
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
                process.stdin.flush()
                if "id" in message:
                    answers.append(json.loads(process.stdout.readline()))
            process.stdin.close()
            assert process.stdout.read() == b""
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    return answers


def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


@pytest.mark.parametrize("version", _REVISIONS[1::2])
def test_older_revisions_are_spoken_with_what_they_know(artifacts: Path, version: str) -> None:
    asked = (call(1, "search", query="lungs"), {"id": 2, "method": "tools/list"})
    first, answer, tools = session(process_of(artifacts), version, *asked)
    assert first["result"]["protocolVersion"] == version
    assert "5 tools" in first["result"]["instructions"]
    structured = version >= "2025-06-18"
    assert ("structuredContent" in answer["result"]) is structured
    kinds = {"text", "resource_link"} if structured else {"text"}
    assert {block["type"] for block in answer["result"]["content"]} == kinds
    assert len(tools["result"]["tools"]) == 4


def test_a_file_of_the_working_folder_is_named_by_its_path(artifacts: Path, tmp_path: Path) -> None:
    """Seed A: "User uploads: scan.dcm", and "format tokens are added to the query"."""
    (tmp_path / "scan.nii").write_bytes(b"")
    inside, outside = (call(1, "search", query="lungs", files=[{"path": path}]) for path in ("scan.nii", "/"))
    asked = (inside, outside, {"id": 2, "method": "tools/list"})
    _, answer, other, tools = session(process_of(artifacts), _REVISIONS[-1], *asked)
    assert "scan.nii is empty" in answer["result"]["structuredContent"]["notices"][0]
    assert other["result"]["isError"]
    assert str(tmp_path) in other["result"]["content"][0]["text"]
    assert "path" in tools["result"]["tools"][0]["inputSchema"]["properties"]["files"]["items"]["properties"]


def test_nothing_but_the_protocol_reaches_standard_output(artifacts: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "import retrieve_cli.search.access as access\n"
        "def shout(own=access.of_tenant):\n"
        "    def loud(*given):\n"
        "        print('printed'); sys.__stdout__.write('written'); sys.__stdout__.flush(); os.system('echo run')\n"
        "        return own(*given)\n"
        "    return loud\n"
        "access.of_tenant = shout()\n",
        "utf-8",
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = process_of(artifacts, "--tenant", "nobody", PYTHONPATH=path)
    answers = session(process, _REVISIONS[-1], call(1, "search", query="lungs"), call(2, "fetch", id="lungs"))
    assert [answer["id"] for answer in answers] == [0, 1, 2]


def test_the_sdks_client_works_over_standard_input_and_output(artifacts: Path) -> None:
    async def ask(mode: str) -> str:
        environment = {**os.environ, "RETRIEVE_ENCODER__KIND": "hashed"}
        arguments = ["-m", "retrieve_cli", "mcp", "--artifacts", str(artifacts), "--mcp-texts", "structured"]
        server = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
        async with Client(stdio_client(server), mode=mode) as client:
            answer = await client.call_tool("search", {"query": "lungs"})
            assert answer.structured_content["results"][0]["text"]
            assert "LungMapper" not in answer.content[0].text
            return str(client.protocol_version)

    assert anyio.run(ask, "auto") == "2026-07-28"
    assert anyio.run(ask, "legacy") == _REVISIONS[-1]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_while_it_waits_for_a_message(artifacts: Path, number: signal.Signals, code: int) -> None:
    heeded = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = process_of(artifacts)
    signal.signal(signal.SIGINT, heeded)
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            process.stdin.flush()
            assert process.stdout.readline()
            process.send_signal(number)
            assert process.wait(PATIENCE_S) == code
        finally:
            process.kill()


def test_it_starts_without_torch_and_without_an_index(artifacts: Path, tmp_path: Path) -> None:
    process = process_of(tmp_path / "none")
    _, answer = session(process, _REVISIONS[-1], call(1, "search", query="lungs"))
    assert answer["result"]["isError"]
    assert "retrieve build" in answer["result"]["content"][0]["text"]
    code = (
        "import sys; sys.argv = ['retrieve', 'mcp', '--artifacts', sys.argv[1]]; import atexit\n"
        "atexit.register(lambda: sys.stderr.write('torch' if 'torch' in sys.modules else 'none of it'))\n"
        "from retrieve_cli.__main__ import run; run()"
    )
    command = [sys.executable, "-c", code, str(artifacts)]
    environment = {**os.environ, "RETRIEVE_ENCODER__KIND": "hashed"}
    done = subprocess.run(command, input=b"", capture_output=True, check=True, env=environment, timeout=PATIENCE_S)
    assert (done.stdout, done.stderr[-10:]) == (b"", b"none of it")


def test_http_answers_both_kinds_of_revisions_and_keeps_no_session(server: Server) -> None:
    async def ask(mode: str) -> str:
        async with Client(f"{server.url}/mcp", mode=mode) as client:
            answer = await client.call_tool("search", {"query": "lungs"})
            assert answer.structured_content["results"][0]["id"] == "lungs#0"
            assert "5 tools" in str(client.instructions)
            return str(client.protocol_version)

    assert anyio.run(ask, "auto") == "2026-07-28"
    assert anyio.run(ask, "legacy") == _REVISIONS[-1]
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": _REVISIONS[-1]}
    alone = server.post("/mcp", {"jsonrpc": "2.0", **call(1, "search", query="lungs")}, **headers)
    assert alone.json()["result"]["structuredContent"]["results"][0]["id"] == "lungs#0"
    assert "mcp-session-id" not in {name.lower() for name in alone.headers}
    assert server.get("/mcp").status == 405


def test_the_conformance_suite_fails_only_where_it_asks_for_its_own_fixtures(server: Server, tmp_path: Path) -> None:
    own = installed("conformance", f"@modelcontextprotocol/conformance@{_CONFORMANCE}", "node@22")
    suite = own / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    node = str(own / "node" / "bin" / "node")
    for revision in ("2026-07-28", "2025-11-25"):
        command = [node, str(suite), "server", "--url", f"{server.url}/mcp", "--requirements", revision]
        failures = Path(__file__).with_name(f"mcp_expected_failures_{revision}.yaml")
        expected = ["--expected-failures", str(failures), "-o", str(tmp_path / revision)]
        done = subprocess.run([*command, *expected], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_a_client_that_may_write_finds_what_it_added(artifacts: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(artifacts, own, ignore=shutil.ignore_patterns("*.lock"))
    document = {"id": "new", "title": "Novelty", "text": "Unravels spectroscopic zebras."}
    asked = (
        call(1, "add_documents", documents=[document, {"id": "empty"}]),
        call(2, "search", query="zebras", at_least=1, deadline_ms=1000 * PATIENCE_S),
        call(3, "sync"),
    )
    _, *answers = session(process_of(own, "--allow-writes"), _REVISIONS[-1], *asked)
    added, answer, synced = (answer["result"] for answer in answers)
    statuses = [each["status"] for each in added["structuredContent"]["documents"]]
    assert statuses[1] == "rejected"
    assert statuses[0] in ("queued", "processing", "processed")
    assert "search with at_least 1" in added["content"][0]["text"]
    assert answer["structuredContent"]["results"][0]["id"] == "new#0"
    assert synced["structuredContent"]["task"]


def test_without_the_flag_nothing_can_be_written(artifacts: Path) -> None:
    asked = (call(1, "add_documents", documents=[{"id": "x", "text": "y"}]), {"id": 2, "method": "tools/list"})
    _, refused, tools = session(process_of(artifacts), _REVISIONS[-1], *asked)
    assert "there is no tool 'add_documents'" in refused["error"]["message"]
    assert not {tool["name"] for tool in tools["result"]["tools"]} & {"add_documents", "sync"}
