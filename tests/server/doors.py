"""A server as its callers see it: each with a key of its own, and waiting for the tasks that it begins."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import urllib3
from servers import Server, served, started, state_of
from urllib3.filepost import encode_multipart_formdata
from waiting import PATIENCE_S, until

from retrieve_cli.server.auth.keys import KeyFile, KeyRing
from retrieve_cli.server.http.callers import Callers
from retrieve_cli.server.http.pool import WebSearching

WAIT = {"Prefer": "wait=60"}
WRITING = ["search", "documents:write"]


class Door(NamedTuple):
    """A server as one caller sees it."""

    server: Server
    key: str

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> urllib3.BaseHTTPResponse:
        """Send a request; a body that is not bytes is JSON."""
        sent = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **headers}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        url = self.server.url + path
        return urllib3.request(method, url, body=data, headers=sent, timeout=PATIENCE_S, retries=False)

    def upload(self, *files: tuple[str, bytes], headers: Any = WAIT, **fields: str) -> urllib3.BaseHTTPResponse:
        parts: list[Any] = [("file", (name, content, "application/octet-stream")) for name, content in files]
        body, kind = encode_multipart_formdata([*parts, *fields.items()])
        return self.send("POST", "/documents", body, **{"Content-Type": kind, **headers})

    def settled(self, answer: urllib3.BaseHTTPResponse) -> Any:
        """Return what an answer says when its task has ended, though that takes longer than the server waits."""
        assert answer.status in (200, 202), answer.data
        told = answer.json()
        return told if answer.status == 200 else {**told, **self.ended(told["task"])}

    def ended(self, task: str) -> Any:
        """Wait until a task has ended, and return its state."""

        def state() -> Any:
            return self.get(f"/tasks/{task}")

        until(lambda: state()["status"] in ("succeeded", "failed"), f"the end of {task}", progress=state)
        return state()

    def change(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request that begins a task, and return what is said when it has ended."""
        return self.settled(self.send(method, path, body, **WAIT, **headers))

    def add(self, *documents: Any) -> Any:
        """Add documents and wait until they are in the index."""
        return self.change("POST", "/documents", list(documents))

    def add_files(self, *files: tuple[str, bytes], **fields: str) -> Any:
        """Upload files and wait until they are in the index."""
        return self.settled(self.upload(*files, **fields))

    def results(self, query: str, **more: Any) -> list[dict[str, Any]]:
        """Return the results of a search; one that needs a change waits for it as long as anything does."""
        patient = {"deadline_ms": 1000 * PATIENCE_S} if "at_least" in more else {}
        answer = self.send("POST", "/search", {"query": query, "expand": False, **patient, **more})
        assert answer.status == 200, answer.data
        results: list[dict[str, Any]] = answer.json()["results"]
        return results

    def search(self, query: str, **more: Any) -> list[str]:
        return [result["doc_id"] for result in self.results(query, **more)]

    def get(self, path: str) -> Any:
        answer = self.send("GET", path)
        assert answer.status == 200, answer.data
        return answer.json()


Doors = dict[str, Door]


@contextmanager
def opened(artifacts: Path, **environment: str) -> Iterator[Doors]:
    """Start a server, and yield it as an operator without a tenant, two tenants and a reader see it."""
    file = KeyFile(artifacts)
    keys = {
        "operator": file.create([*WRITING, "index:admin"]).text,
        "acme": file.create(WRITING, tenant="acme").text,
        "globex": file.create(WRITING, tenant="globex").text,
        "reader": file.create(["search"]).text,
    }
    with started(artifacts, cwd=artifacts.parent, RETRIEVE_ENCODER__KIND="hashed", **environment) as server:
        yield {name: Door(server, key) for name, key in keys.items()}


@asynccontextmanager
async def web_client(
    artifacts: Path, search: Any, scopes: str | None = None, *, tenant: str | None = None
) -> AsyncIterator[Any]:
    """Yield a client of a server with that web search, whose key has these scopes; without keys if there are none."""
    state, headers = state_of(artifacts), {}
    state.web = WebSearching(search, deadline_ms=10_000)
    if scopes is not None:
        file = KeyFile(artifacts)
        headers["X-API-Key"] = file.create(scopes.split(","), tenant=tenant).text
        state.callers = Callers(ring=KeyRing(file))
    async with served(state, headers) as client:
        yield client
