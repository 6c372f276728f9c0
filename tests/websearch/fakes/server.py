"""Fakes of the providers on loopback: they answer from the files `providers/*.json`, and misbehave when told to.

Every origin that a file names has a port of its own, and `endpoints` maps the origin to it, as the setting
`web.endpoints` does. One port for all would have to tell them apart by a header that no real request has; and a
redirect from one of them to another one leads to another server, as it would outside.
"""

import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from raw_servers import Conversation, Server
from websearch.fakes.faults import FAULTS, Answer
from websearch.taped import FOLDER, body_of, comparable

CREDENTIALS = frozenset({"api_key", "email", "mailto"})
"""Parameters with keys and contact addresses, which are in no file."""


@dataclass(frozen=True)
class Called:
    """A request that a fake received."""

    origin: str
    """The real one, for which it stands."""
    method: str
    url: str
    """Address without a query, at the real origin."""
    parameters: Mapping[str, str]
    """All of them, keys too."""
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes | None


@dataclass
class _Misbehaviour:
    name: str
    after: int
    """Number of requests that are answered properly before it."""
    times: int | None
    """Number of requests that meet it; None: all."""

    def begins(self) -> bool:
        """Count a request; return True if it meets the fault."""
        self.after -= 1
        if self.after >= 0 or self.times == 0:
            return False
        self.times = None if self.times is None else self.times - 1
        return True


class Fakes:
    """A fake of each origin in the files of a folder; close it after use.

    `calls` are all requests in the order of their arrival; `trap` is a server of nobody, to which the fault
    `redirect to loopback` leads: `trap.asked` has to stay empty.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self.calls: list[Called] = []
        self.any_question = False
        """True: a provider has the answer of its file to every question."""
        self.unknown: list[Called] = []
        """Requests that no file has an answer to; they are answered with status 404."""
        self._exchanges: dict[str, list[dict[str, Any]]] = {}
        self._faults: dict[str, _Misbehaviour] = {}
        self._lock = threading.Lock()
        for path in sorted(folder.glob("*.json")):
            self.add(json.loads(path.read_text("utf-8"))["exchanges"], start=False)
        self._servers = {origin: self._started(origin) for origin in self._exchanges}
        self.trap = Server(lambda talk: talk.answer(b"{}", "Content-Type: application/json"))

    @property
    def endpoints(self) -> dict[str, str]:
        """Address of the fake of each origin."""
        return {origin: server.url for origin, server in self._servers.items()}

    def add(self, exchanges: Sequence[dict[str, Any]], *, start: bool = True) -> None:
        """Answer from further exchanges, before those that are there."""
        for exchange in reversed(exchanges):
            origin = origin_of(exchange["request"]["url"])
            self._exchanges.setdefault(origin, []).insert(0, exchange)
            if start and origin not in self._servers:
                self._servers[origin] = self._started(origin)

    def misbehave(self, origin: str, fault: str, *, after: int = 0, times: int | None = None) -> None:
        """Let the fake of an origin misbehave: `fault` is a name of `FAULTS`."""
        if fault not in FAULTS or origin not in self._servers:
            raise ValueError(f"no fault {fault!r}, or no fake of {origin}")
        with self._lock:
            self._faults[origin] = _Misbehaviour(fault, after, times)

    def behave(self) -> None:
        """Let all answer properly again."""
        with self._lock:
            self._faults.clear()

    def close(self) -> None:
        for server in (*self._servers.values(), self.trap):
            with suppress(OSError):
                server.listener.shutdown(socket.SHUT_RDWR)  # its thread waits for connections, and would do so for ever
            server.close()

    def _started(self, origin: str) -> Server:
        return Server(lambda talk: self._say(origin, talk))

    def _say(self, origin: str, talk: Conversation) -> None:
        call = _called(origin, talk)
        with self._lock:
            self.calls.append(call)
            fault = self._faults.get(origin)
            met = fault.name if fault and fault.begins() else ""
        answer = self._answer(call)
        if met:
            FAULTS[met].say(talk, answer, self.trap.url)
        else:
            answer.tell(talk)

    def _answer(self, call: Called) -> Answer:
        wanted = (call.method, call.url, without_credentials(call.parameters), comparable(call.body))
        for exchange in self._exchanges[call.origin]:
            known = _key(exchange["request"])
            if known == wanted or (self.any_question and known[:2] == wanted[:2]):
                response = exchange["response"]
                headers = [f"{name}: {value}" for name, value in response.get("headers", {}).items()]
                return Answer(response["status"], response["content_type"], body_of(response), headers)
        self.unknown.append(call)
        text = json.dumps({"error": f"no file has an answer to {call.method} {call.url} {dict(call.parameters)}"})
        return Answer(404, "application/json", text.encode(), [])


def origin_of(url: str) -> str:
    """Return scheme and authority of an address."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def without_credentials(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if name not in CREDENTIALS}


def _key(request: Mapping[str, Any]) -> tuple[object, ...]:
    parameters = without_credentials(request.get("parameters", {}))
    return request["method"], request["url"], parameters, comparable(request.get("body"))


def _called(origin: str, talk: Conversation) -> Called:
    method, target, _ = talk.asked.line.split()
    path, _, query = target.partition("?")
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    body = talk.asked.body if method == "POST" else None
    return Called(origin, method, origin + path, parameters, talk.asked.headers, body)


@contextmanager
def faking(folder: Path = FOLDER) -> Iterator[Fakes]:
    fakes = Fakes(folder)
    try:
        yield fakes
    finally:
        fakes.close()
