"""Servers for tests: `retrieve serve` as a process, and its application in this process."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
import urllib3
from samples import TOOLS, write_catalog
from starlette.types import ASGIApp
from waiting import PATIENCE_S, brought_about

from retrieve_cli.api.live import LiveIndex
from retrieve_cli.cli.main import main
from retrieve_cli.config.loading import load
from retrieve_cli.http.secrets import Secret
from retrieve_cli.server.http.app import server_app
from retrieve_cli.server.http.callers import Callers
from retrieve_cli.server.http.pool import Pool
from retrieve_cli.server.http.state import State
from retrieve_cli.storage.store import Store


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[str]

    def get(self, path: str, **headers: str) -> urllib3.BaseHTTPResponse:
        return urllib3.request("GET", self.url + path, headers=headers, timeout=PATIENCE_S, retries=False)

    def post(self, path: str, value: Any, **headers: str) -> urllib3.BaseHTTPResponse:
        """Post a value as JSON; bytes as they are."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        sent = {"Content-Type": "application/json", **headers}
        return urllib3.request("POST", self.url + path, body=body, headers=sent, timeout=PATIENCE_S, retries=False)

    def search(self, **request: Any) -> Any:
        """Return the answer of `POST /search`."""
        answer = self.post("/search", request)
        assert answer.status == 200, answer.data
        return answer.json()


@contextmanager
def started(artifacts: Path, *flags: str, cwd: Path | None = None, **environment: str) -> Iterator[Server]:
    """Start `retrieve serve` on a free port, wait until it is ready, and kill it at the end."""
    command = [sys.executable, "-m", "retrieve_cli", "serve", "--artifacts", str(artifacts), "--port", "0", "--json"]
    # A shell's background job ignores SIGINT, one of nohup SIGHUP, and so would what they start.
    heeded = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGHUP, signal.SIG_DFL)
    process = subprocess.Popen(
        [*command, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    for number, handler in zip((signal.SIGINT, signal.SIGHUP), heeded, strict=True):
        signal.signal(number, handler)
    with process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            assert said, process.communicate(timeout=PATIENCE_S)[1]
            server = Server(json.loads(said)["url"], process)
            brought_about(process, lambda: _answers(server), "it answers: workers announce their socket before all do")
            yield server
        finally:
            process.terminate()
            try:
                process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def _answers(server: Server) -> bool:
    try:
        return server.get("/health").status == 200
    except urllib3.exceptions.HTTPError:
        return False


def built(folder: Path, records: Sequence[dict[str, Any]] = TOOLS, *flags: str, **environment: str) -> Path:
    """Return the artifacts of an index of records in a folder, the sample tools by default, with the hashed encoder."""
    catalog = write_catalog(folder / "tools.jsonl", list(records))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"RETRIEVE_ENCODER__KIND": "hashed", **environment}.items():
            patch.setenv(name, value)
        assert main(["build", str(catalog), "--artifacts", str(folder / "artifacts"), "-q", *flags]) == 0
    return folder / "artifacts"


def workers_of(pid: int) -> list[int]:
    """Return the workers of a server, which has started other processes, too."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def kill_all(pid: int) -> None:
    """Kill a process and its children, as a machine that fails does."""
    for each in (pid, *workers_of(pid)):
        os.kill(each, signal.SIGKILL)


def state_of(artifacts: Path, *, key: str | None = None, threads: int = 2, queue: int = 64) -> State:
    """Return the state of a server in this process."""
    live = LiveIndex(Store(artifacts), load(None))
    return State(live, Pool(threads, queue), Callers(None if key is None else Secret(key)), public_url="http://test")


def client_of(app: ASGIApp, headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
    """Return a client of an application in this process, without a socket. Exceptions of the app are raised."""
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url="http://test", headers=dict(headers or {}))


@asynccontextmanager
async def served(state: State, headers: Mapping[str, str] | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a server in this process, and close its state at the end."""
    async with client_of(server_app(state), headers) as client:
        try:
            yield client
        finally:
            state.close()


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """Serve an application in a thread of this process, on a free port of loopback, and yield its address."""
    import uvicorn

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="critical", ws="none"))
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def sent(app: ASGIApp, *requests: tuple[str, str, dict[str, Any]]) -> list[httpx.Response]:
    """Send requests (method, path, options) one after the other to an application in this process."""

    async def all_of_them() -> list[httpx.Response]:
        async with client_of(app) as client:
            return [await client.request(method, path, **options) for method, path, options in requests]

    return asyncio.run(all_of_them())
