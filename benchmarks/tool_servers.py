"""Ten thousand tools behind one: build, sync after one server changed, and answers over MCP.

python -m benchmarks.tool_servers [--servers 500] [--tools 20] [--calls 200]

Servers are generated scripts of the standard library, started by their commands in a client's configuration. Times of a
build and a sync include theirs; `alone` is what starting and asking them costs, the encoder taken off: a sync in which
nothing has changed. Latencies are of `search_tools`, one call after another, through the official client.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from random import Random
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from benchmarks.process import ENVIRONMENT, RETRIEVE, WORK, Run, run

FOLDER = WORK / "tool-servers"
_SERVER = """
import json, sys
tools = json.load(open(sys.argv[1]))
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    answer = {"error": {"code": -32601, "message": "unknown method"}}
    if method == "initialize":
        answer = {"result": {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                             "serverInfo": {"name": tools["name"], "version": "1"},
                             "instructions": tools["description"]}}
    elif method == "tools/list":
        answer = {"result": {"tools": tools["tools"]}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
_VERBS = "list create update delete search export import archive merge validate schedule assign close share".split()
_NOUNS = (
    "invoice customer ticket dataset image volume report user calendar message channel repository branch issue order "
    "shipment payment contract meeting document folder dashboard metric alert deployment secret container snapshot"
).split()
_AREAS = "accounting radiology genomics logistics support hiring security analytics storage publishing".split()


def definitions(number: int, *, tools: int, edited: bool = False) -> dict[str, Any]:
    """Return the name, description and tools of a server."""
    random = Random(number)
    area = f"{random.choice(_AREAS)}-{number}"
    listed = []
    for verb, noun in random.sample([(verb, noun) for verb in _VERBS for noun in _NOUNS], tools):
        other = random.choice(_NOUNS)
        properties = {
            f"{noun}_id": {"type": "string", "description": f"Identifier of the {noun}."},
            "limit": {"type": "integer", "description": f"Most {other}s to return.", "default": 10},
        }
        text = f"{verb.capitalize()} the {noun} of a {other} in {area}."
        schema = {"type": "object", "properties": properties, "required": [f"{noun}_id"]}
        listed.append({"name": f"{verb}_{noun}", "description": text, "inputSchema": schema})
    if edited:
        listed[0]["description"] += " Returns a preview first."
    return {"name": area, "description": f"Tools for {area}.", "tools": listed}


def write(servers: int, tools: int) -> None:
    """Write the servers, and the configuration that names them."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    script = FOLDER / "server.py"
    script.write_text(_SERVER, "utf-8")
    named = {}
    for number in range(servers):
        one = definitions(number, tools=tools)
        file = FOLDER / f"{number}.json"
        file.write_text(json.dumps(one), "utf-8")
        named[one["name"]] = {"command": sys.executable, "args": ["-S", "-E", str(script), str(file)]}
    (FOLDER / ".mcp.json").write_text(json.dumps({"mcpServers": named}), "utf-8")


def timed(name: str, *words: str) -> Run:
    """Run a command of the program, and print its cost and its last line."""
    done = run((*RETRIEVE, *words), folder=FOLDER, environment={**ENVIRONMENT, "XDG_STATE_HOME": str(FOLDER / "state")})
    line = (done.output + done.errors).strip().rpartition("\n")[2]
    print(f"  {name:34} {done.seconds:7.1f} s, {done.cpu:6.1f} CPU s, {done.mebibytes:5.0f} MiB: {line}", flush=True)
    return done


async def _ask(target: Any, tasks: list[str]) -> list[float]:
    """Return the seconds of each call."""
    spent = []
    async with Client(target) as client:
        await client.call_tool("search_tools", {"task": "warm up"})
        for task in tasks:
            begun = time.perf_counter()
            answer = await client.call_tool("search_tools", {"task": task})
            spent.append(time.perf_counter() - begun)
            assert not answer.is_error, answer
    return spent


def latency(name: str, target: Any, tasks: list[str]) -> None:
    """Print the median and the 95th percentile of calls."""
    spent = sorted(anyio.run(_ask, target, tasks))
    p95 = spent[int(0.95 * (len(spent) - 1))]
    print(f"  {name:34} p50 {statistics.median(spent) * 1000:.1f} ms, p95 {p95 * 1000:.1f} ms", flush=True)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _over_http(tasks: list[str]) -> None:
    port = _free_port()
    command = (*RETRIEVE, "serve", "--port", str(port))
    with subprocess.Popen(command, cwd=FOLDER, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as server:
        try:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    assert server.poll() is None, "the server has ended"
                    time.sleep(0.1)
            latency("search_tools over HTTP", f"http://127.0.0.1:{port}/mcp", tasks)
        finally:
            server.terminate()


def main() -> int:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=500)
    parser.add_argument("--tools", type=int, default=20)
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    write(options.servers, options.tools)
    print(f"{options.servers} servers, {options.servers * options.tools:,} tools, {os.cpu_count()} cores")
    timed("trust", "trust", ".mcp.json", "--yes")
    timed("build", "build", ".mcp.json")
    timed("sync, nothing changed (alone)", "sync")
    changed = FOLDER / "7.json"
    changed.write_text(json.dumps(definitions(7, tools=options.tools, edited=True)), "utf-8")
    timed("sync, one server changed", "sync")
    random = Random(1)
    tasks = [f"{random.choice(_VERBS)} a {random.choice(_NOUNS)} by its {random.choice(_NOUNS)} in "
             f"{random.choice(_AREAS)}" for _ in range(options.calls)]  # fmt: skip
    latency("search_tools over stdio", StdioServerParameters(command=RETRIEVE[0], args=["mcp"], cwd=FOLDER), tasks)
    _over_http(tasks)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
