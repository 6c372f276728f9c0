"""A model server on loopback that answers as it is told, and keeps account of who asked what at the same time."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """What the server says to one request."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    sent: int | None = None
    """How much of the body is sent before the connection is closed; None for all."""
    sized: bool = True
    """Whether its length is said before it."""
    drip: bool = False
    """Whether the body is followed by one byte after the other, as long as the client listens."""
    stall: bool = False
    """Whether nothing is sent after the headers."""
    drop: bool = False
    """Whether the connection is closed without an answer."""


@dataclass
class Asked:
    """A request as it arrived."""

    path: str
    headers: Message
    json: Any
    connection: int
    """The client's port: the same for requests over one connection."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        asked = Asked(self.path, self.headers, body, self.client_address[1])
        self._write(self.server.api.answer(asked))

    def log_message(self, *_: Any) -> None:
        """Nothing: the tests look at `asked`."""

    def _write(self, answer: Answer) -> None:
        whole = answer.sized and answer.sent is None and not (answer.drip or answer.stall)
        self.close_connection = not whole
        if answer.drop:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.sized and not answer.drip:
            self.send_header("Content-Length", str(len(answer.body) + answer.stall))
        self.end_headers()
        if answer.stall:
            self.server.api.closing.wait()
            return
        self.wfile.write(answer.body[: answer.sent])
        while answer.drip and not self.server.api.closing.wait(0.02):
            self.wfile.write(b" ")
            self.wfile.flush()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, api: "Api") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.api = api

    def handle_error(self, *_: Any) -> None:
        """A client that leaves early is what many tests are about."""


class Api:
    """Answers what `say` was told, one after the other, and then by `respond`: status 200 with what it returns."""

    def __init__(self) -> None:
        self.script: list[Answer] = []
        self.asked: list[Asked] = []
        self.respond: Callable[[Asked], Any] = lambda asked: {"said": asked.json}
        self.peak = 0
        """The most requests at once."""
        self._inside = 0
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self.server = _Server(self)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    @property
    def last(self) -> Asked:
        return self.asked[-1]

    def say(self, body: Any = b"", *, times: int = 1, **how: Any) -> None:
        """Adds an answer; what is not bytes is sent as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.script += [Answer(content, **how)] * times

    def answer(self, asked: Asked) -> Answer:
        with self._lock:
            self.asked.append(asked)
            self._inside += 1
            self.peak = max(self.peak, self._inside)
            told = self.script.pop(0) if self.script else None
        try:
            if told:
                return told
            answer = self.respond(asked)
            return answer if isinstance(answer, Answer) else Answer(json.dumps(answer).encode())
        finally:
            with self._lock:
                self._inside -= 1


def running() -> Iterator[Api]:
    """A server while it serves: what a fixture yields from."""
    api = Api()
    thread = threading.Thread(target=api.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield api
    api.closing.set()
    api.server.shutdown()
    api.server.server_close()
    thread.join()


def vector(text: str, dim: int = 8) -> list[float]:
    """A text's vector: the same wherever it is asked for, and of no particular length."""
    raw = hashlib.sha256(text.encode()).digest()
    return [byte - 127.5 for byte in raw[:dim]]


def embedder(model: str = "qwen", dim: int = 8, **more: Any) -> Callable[[Asked], Any]:
    """Answers as an OpenAI-compatible embeddings endpoint does."""

    def respond(asked: Asked) -> Any:
        texts = asked.json["input"]
        data = [{"object": "embedding", "index": at, "embedding": vector(text, dim)} for at, text in enumerate(texts)]
        return {"object": "list", "model": model, "data": data, "usage": {}, **more}

    return respond


def chat(*contents: Any, finish_reason: str = "stop") -> Callable[[Asked], Any]:
    """Answers as a chat endpoint does, with one content after the other; what is no text is said as JSON."""
    waiting = list(contents)

    def respond(_: Asked) -> Any:
        content = waiting.pop(0)
        text = content if content is None or isinstance(content, str) else json.dumps(content)
        message = {"role": "assistant", "content": text}
        return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}

    return respond
