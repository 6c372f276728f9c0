"""Real servers on loopback: one that answers as it is told, and a SPARQL endpoint over a real store."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyoxigraph
from told_servers import Answer, Asked, Server, running, stop

from retrieve_cli.http.secrets import Credentials
from retrieve_cli.sources.remote.transfer import TransferLimits

__all__ = ["Answer", "Endpoint", "Site", "changes", "running", "stop"]


class Site:
    """A web server; `site.put("/x", ...)` says what it answers, several times for one answer after the other."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}
        self.asked: list[Asked] = []
        self.server = Server(self._answer)
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.host}"
        self.other_host = f"http://localhost:{self.server.server_port}"

    def put(self, path: str, body: bytes | str = b"", **how: Any) -> str:
        """Adds an answer; the last one is given again and again. Returns the address."""
        content = body.encode() if isinstance(body, str) else body
        self.answers.setdefault(path, []).append(Answer(content, **how))
        return self.url + path

    def replace(self, path: str, body: bytes | str = b"", **how: Any) -> str:
        self.answers.pop(path, None)
        return self.put(path, body, **how)

    @property
    def last(self) -> Asked:
        return self.asked[-1]

    def _answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        waiting = self.answers.get(urlsplit(asked.path).path, [Answer(b"not here", 404)])
        answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        etag, modified = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
        if answer.status == 200 and (
            (etag and asked.headers["If-None-Match"] == etag)
            or (modified and asked.headers["If-Modified-Since"] == modified)
        ):
            return Answer(status=304)
        return answer


def changes(fetcher: Any, target: Path) -> bool:
    """Whether a fetch puts a new file in place."""
    before = target.stat().st_ino if target.exists() else None
    fetcher.fetch(target)
    return bool(target.stat().st_ino != before)


class Endpoint:
    """A SPARQL 1.1 endpoint over a store in memory."""

    def __init__(self) -> None:
        self.store = pyoxigraph.Store()
        self.queries: list[str] = []
        self.asked: list[Asked] = []
        self.server = Server(self._answer)
        self.url = f"http://127.0.0.1:{self.server.server_port}/sparql"
        self.media_type = ""
        """What it answers a graph in, whatever was asked for; by the Accept header where this is empty."""
        self.login = ""
        """`user:password`, where it wants them."""
        self.refused: tuple[str, ...] = ()
        """Methods it does not take."""
        self.rewrite: Callable[[str], str] = str
        """What it makes of a query before it answers it."""
        self.headers: dict[str, str] = {}

    def load(self, turtle: str, graph: str = "") -> None:
        prefixes = "@prefix s: <https://schema.org/> . @prefix x: <https://x.org/> .\n"
        to_graph = pyoxigraph.NamedNode(graph) if graph else None
        self.store.load(prefixes + turtle, pyoxigraph.RdfFormat.TURTLE, to_graph=to_graph)

    def _answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        wanted = "Basic " + base64.b64encode(self.login.encode()).decode()
        if asked.method in self.refused:
            return Answer(b"no", 405)
        if self.login and asked.headers["Authorization"] != wanted:
            return Answer(b"who are you?", 401, {"WWW-Authenticate": "Basic"})
        text = asked.body.decode() if asked.method == "POST" else urlsplit(asked.path).query
        query = parse_qs(text)["query"][0]
        self.queries.append(query)
        return self._result(query, asked.headers["Accept"])

    def _result(self, query: str, accept: str) -> Answer:
        try:
            result = self.store.query(self.rewrite(query))
        except SyntaxError as error:
            return Answer(f"Parse error: {error}".encode(), 400, {"Content-Type": "text/plain"})
        if isinstance(result, pyoxigraph.QueryTriples):
            media_type = self.media_type or accept.split(",", maxsplit=1)[0]
            body = pyoxigraph.serialize(result, format=pyoxigraph.RdfFormat.from_media_type(media_type))
        else:
            media_type = "application/sparql-results+json"
            body = result.serialize(format=pyoxigraph.QueryResultsFormat.JSON)
        return Answer(body or b"", 200, {"Content-Type": media_type + "; charset=utf-8", **self.headers})


def fetching(settings: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
    """Return settings of a fetch with the names of limits and credentials gathered."""
    limits = {"timeout_s": timeout_s, "retries": 0, "backoff_s": 0.0}
    limits |= {name: settings.pop(name) for name in TransferLimits.__struct_fields__ if name in settings}
    names = {name: settings.pop(name) for name in Credentials.__struct_fields__ if name in settings}
    return {"limits": TransferLimits(**limits), "credentials": Credentials(**names), **settings}
