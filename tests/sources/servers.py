"""Real servers on loopback: one that answers as it is told, and a SPARQL endpoint over a real store."""

import base64
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyoxigraph


@dataclass
class Answer:
    """What the server says to one request."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    chunks: int = 0
    """Where above 0: the body goes in chunks of that many bytes, without a Content-Length."""
    sent: int | None = None
    """How much of the body is sent before the connection is closed; None for all."""
    drip: bool = False
    """Whether the body is followed by one byte after the other, as long as the client listens."""
    stall: bool = False
    """Whether nothing is sent after the headers."""
    drop: bool = False
    """Whether the connection is closed without an answer."""


@dataclass
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: Message
    body: bytes


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Callable[["Handler", bytes], None]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.closing = threading.Event()

    def handle_error(self, *_: Any) -> None:
        """A client that leaves early is what many tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        """Nothing: the tests look at `asked`."""

    def reply(self, answer: Answer) -> None:
        self.close_connection = True
        if answer.drop:
            return
        self.send_response(answer.status)
        self.send_header("Connection", "close")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        sized = not (answer.chunks or answer.drip or answer.status == 304)
        if answer.chunks:
            self.send_header("Transfer-Encoding", "chunked")
        elif sized:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if answer.stall:
            self.server.closing.wait()
            return
        self.write(answer)

    def write(self, answer: Answer) -> None:
        whole = answer.sent is None
        body = answer.body[: answer.sent]
        if answer.chunks:
            for start in range(0, len(body), answer.chunks):
                chunk = body[start : start + answer.chunks]
                self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            self.wfile.write(b"0\r\n\r\n" if whole else b"")
        else:
            self.wfile.write(body)
        while answer.drip and not self.server.closing.wait(0.02):
            self.wfile.write(b" ")
            self.wfile.flush()


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

    def _answer(self, handler: Handler, body: bytes) -> None:
        self.asked.append(Asked(handler.command, handler.path, handler.headers, body))
        waiting = self.answers.get(urlsplit(handler.path).path, [Answer(b"not here", 404)])
        answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        etag, modified = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
        if answer.status == 200 and (
            (etag and handler.headers["If-None-Match"] == etag)
            or (modified and handler.headers["If-Modified-Since"] == modified)
        ):
            answer = Answer(status=304)
        handler.reply(answer)


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

    def _answer(self, handler: Handler, body: bytes) -> None:
        self.asked.append(Asked(handler.command, handler.path, handler.headers, body))
        wanted = "Basic " + base64.b64encode(self.login.encode()).decode()
        if handler.command in self.refused:
            handler.reply(Answer(b"no", 405))
        elif self.login and handler.headers["Authorization"] != wanted:
            handler.reply(Answer(b"who are you?", 401, {"WWW-Authenticate": "Basic"}))
        else:
            text = body.decode() if handler.command == "POST" else urlsplit(handler.path).query
            query = parse_qs(text)["query"][0]
            self.queries.append(query)
            handler.reply(self._result(query, handler.headers["Accept"]))

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


def running(place: Any) -> Iterator[Any]:
    """The site or endpoint while it serves: what a fixture yields from."""
    thread = threading.Thread(target=place.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield place
    stop(place)
    thread.join()


def stop(place: Any) -> None:
    """Nobody listens at its address any more."""
    place.server.closing.set()
    place.server.shutdown()
    place.server.server_close()
