"""`--server URL`: a running server answers `retrieve query` and `retrieve mcp`, which load no index."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from raw_servers import serving
from samples import Program
from servers import Server, started
from waiting import PATIENCE_S

KEY = "x" * 32
FORMATS = ("text", "json", "jsonl", "csv", "md", "trec")
LOGIN = b"<!DOCTYPE html><html><body><form>Sign in to the portal</form></body></html>"


@pytest.fixture(scope="module")
def server(artifacts: Path) -> Iterator[Server]:
    """A server that wants a key."""
    environment = {"RETRIEVE_ENCODER__KIND": "hashed", "SERVER_KEY": KEY}
    with started(artifacts, "--api-key-env", "SERVER_KEY", cwd=artifacts.parent, **environment) as running:
        yield running


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of the server, by the configuration."""
    monkeypatch.setenv("SERVER_KEY", KEY)
    monkeypatch.setenv("RETRIEVE_QUERY__API_KEY_ENV", "SERVER_KEY")


def both(server: Server, artifacts: Path, retrieve: Program, *words: str) -> list[tuple[int, str, str]]:
    """Return what is printed by a command that asks the server, from a folder without an index, and by one that
    does not."""
    there = retrieve("query", *words, "--server", server.url)
    here = retrieve("query", *words, "--artifacts", artifacts)
    return [(done.code, done.out, done.err) for done in (there, here)]


@pytest.mark.usefixtures("keyed")
@pytest.mark.parametrize("form", FORMATS)
def test_a_server_answers_in_every_format_as_an_index_here(
    server: Server, artifacts: Path, retrieve: Program, form: str
) -> None:
    words = ("brain", "--format", form, "-k", "2", "--color", "always", "--no-timing")
    there, here = both(server, artifacts, retrieve, *words)
    assert there == here


@pytest.mark.usefixtures("keyed")
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_an_error_of_the_server_is_an_error_of_the_command(
    server: Server, artifacts: Path, retrieve: Program, form: tuple[str, ...]
) -> None:
    there, here = both(server, artifacts, retrieve, "brain", "--filter", "licence=MIT", *form)
    assert there == here
    assert here[0] == 2


@pytest.mark.usefixtures("keyed")
def test_exit_status_holds_and_a_flag_about_this_machine_is_rejected(server: Server, retrieve: Program) -> None:
    words = ("query", "--server", server.url, "--exit-status")
    assert retrieve(*words, "brain", "--json").code == 0
    assert retrieve(*words, "zzz", "--mode", "bm25", "--json").code == 3
    for flags, code in ((("--save-run",), 2), (("--tenant", "a"), 2)):
        command = "query" if flags == ("--save-run",) else "mcp"
        done = retrieve(command, *(["brain"] if command == "query" else []), *flags, "--server", server.url)
        assert done.code == code
        assert f"{flags[0]} does not go with --server URL" in done.err


@pytest.mark.parametrize("command", [("query", "brain"), ("mcp",)])
def test_an_address_that_is_none_is_rejected(retrieve: Program, command: tuple[str, ...]) -> None:
    done = retrieve(*command, "--server", "nonsense")
    assert (done.code, done.out) == (2, "")
    assert "'nonsense' is not an http or https address" in done.err


def test_a_server_that_is_not_there_is_named(retrieve: Program) -> None:
    done = retrieve("query", "brain", "--server", "http://127.0.0.1:9", "--json")
    assert (done.code, done.out) == (6, "")
    assert "http://127.0.0.1:9 does not answer" in json.loads(done.err)["error"]["message"]


def test_without_its_key_the_server_does_not_answer(server: Server, retrieve: Program) -> None:
    done = retrieve("query", "brain", "--server", server.url)
    assert (done.code, done.out) == (2, "")


# ------------------------------------------------------------------------------------------------- foreign servers

NONSENSE = (b"", b"[" * 100_000, b"null", b'{"error": []}', b'"\xff"', b"NaN", b"[1e400]")
NONSENSE += (b'{"error": {"code": 1e300, "kind": [], "message": {}, "hint": 1}}', LOGIN, b"rank,score\r\n1,2\r\n")
NONSENSE += ("\x1b[2J\x9b\u202e\u200b\U000e0041".encode(),)
NONSENSE += (b'{"error": {"code": {}, "kind": "a", "message": "\xc2\x9b\\u001b[2J\xe2\x80\xae", "hint": "c"}}',)


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("form", FORMATS)
def test_a_foreign_answer_is_an_error_that_names_the_server_in_every_format(
    retrieve: Program, status: int, form: str
) -> None:
    bodies = iter(NONSENSE)
    with serving(lambda talk: talk.answer(next(bodies), "Content-Type: text/html", status=status)) as other:
        for _ in NONSENSE:
            done = retrieve("query", "brain", "--server", other.url, "--format", form)
            assert done.code in (1, 6)
            assert done.out == ""
            assert "bug in retrieve" not in done.err
            assert status != 200 or (other.url in done.err and "is it `retrieve serve`?" in done.err)
            assert all(char == "\n" or char.isprintable() for char in done.err)


@pytest.mark.parametrize("cell", ["=HYPERLINK(1)", "+1+1", "-2+3", "@SUM(1)", '"=a,b"', "x\r\n=1"])
def test_no_cell_of_a_server_is_a_formula(retrieve: Program, cell: str) -> None:
    body, marked = f"rank,score\r\n1,-0.25\r\n2,{cell}\r\n".encode(), "X-Retrieve-Format: csv"
    with serving(lambda talk: talk.answer(body, marked, status=200)) as other:
        limit = csv.field_size_limit()
        done = retrieve("query", "brain", "--format", "csv", "--server", other.url)
    assert csv.field_size_limit() >= limit  # it is the whole process's
    rows = list(csv.reader(done.out.splitlines(keepends=True)))
    assert rows[:2] == [["rank", "score"], ["1", "-0.25"]]
    assert not any(text.startswith(("=", "+", "@")) or text == "-2+3" for row in rows for text in row)


# ------------------------------------------------------------------------------------------------------------- MCP


def passing(url: str, **environment: str) -> StdioServerParameters:
    """Return the command of `retrieve mcp --server`."""
    arguments = ["-m", "retrieve_cli", "mcp", "--server", url]
    return StdioServerParameters(command=sys.executable, args=arguments, env={**os.environ, **environment})


@pytest.mark.usefixtures("keyed")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_mcp_client_reaches_the_server_and_all_that_it_offers(server: Server, mode: str, tmp_path: Path) -> None:
    async def ask(transport: Any) -> tuple[Any, ...]:
        async with Client(transport, mode=mode) as client:
            tools = sorted(tool.name for tool in (await client.list_tools()).tools)
            async with anyio.create_task_group() as tasks:  # several requests at once
                for text in ("brain", "cells", "lungs"):
                    tasks.start_soon(client.call_tool, "search", {"query": text})
            answer = await client.call_tool("search", {"query": "ünïcode brain"})
            fetched = await client.call_tool("fetch", {"id": answer.structured_content["results"][0]["id"]})
            failed = await client.call_tool("fetch", {"id": "nothing"})
            return client.instructions, tools, answer.structured_content["results"], fetched.content, failed.is_error

    instructions, tools, results, content, failed = anyio.run(ask, stdio_client(passing(server.url)))
    assert "5 tools" in str(instructions)
    assert {"search", "fetch"} <= set(tools)
    assert results
    assert content
    assert failed


def messages(url: str, *lines: bytes, **environment: str) -> list[Any]:
    """Return the messages that the command writes for some lines."""
    parameters = passing(url, **environment)
    done = subprocess.run(
        [parameters.command, *parameters.args],
        input=b"".join(line + b"\n" for line in lines),
        env=parameters.env,
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_request_to_a_server_that_is_not_ours_gets_an_error_that_names_it() -> None:
    request, note = b'{"jsonrpc":"2.0","id":7,"method":"ping"}', b'{"jsonrpc":"2.0","method":"notifications/x"}'
    bodies = iter((LOGIN, b"{}", b'{"error":{"message":"no"}}', b"null"))
    with serving(lambda talk: talk.answer(next(bodies), "Content-Type: text/html", status=200)) as other:
        answers = messages(other.url, *[request] * 4, note, b"nonsense", b"[]")
        for answer in answers[:4]:
            assert answer["id"] in (7, None)
        named = [answer["error"]["message"] for answer in answers if answer["id"] == 7]
        assert len(named) == 4
        assert all(other.url in text for text in named)
        assert [answer["id"] for answer in answers].count(None) == 2
    assert "does not answer" in messages("http://127.0.0.1:9", request)[0]["error"]["message"]


def test_the_command_loads_neither_an_index_nor_the_sdk_nor_numpy() -> None:
    code = (
        "import atexit, sys; sys.argv = ['retrieve', 'mcp', '--server', 'http://127.0.0.1:9']\n"
        "names = ('numpy', 'mcp', 'pydantic', 'faiss', 'retrieve_cli.search.searcher')\n"
        "atexit.register(lambda: sys.stderr.write(str([name for name in names if name in sys.modules])))\n"
        "from retrieve_cli.__main__ import run; run()"
    )
    done = subprocess.run([sys.executable, "-c", code], input=b"", capture_output=True, timeout=PATIENCE_S, check=True)
    assert (done.stdout, done.stderr) == (b"", b"[]")
