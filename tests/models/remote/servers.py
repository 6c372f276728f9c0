"""A model server on loopback that answers as it is told, and keeps account of who asked what at the same time."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import told_servers
from told_servers import Answer, Asked, Server

__all__ = ["Answer", "Api", "Asked", "chat", "embedder", "running", "vector"]


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
        self.server = Server(self.answer, persistent=True)
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
    yield from told_servers.running(Api())


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
