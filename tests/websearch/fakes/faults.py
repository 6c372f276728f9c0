"""Faults of servers, and the failures as which they must be reported: never as an empty page, never as a result."""

import gzip
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from raw_servers import Conversation
from waiting import PATIENCE_S

LIMIT = 10_000_000
"""Bytes of the largest answer that is accepted, about: 10 MB or 10 MiB."""
_DRIP_S = 0.02
_PAGE = b"<!doctype html><html><head><title>503</title></head><body><h1>Back soon</h1><p>Maintenance</p></body></html>"
_TEXT_OF_ELEMENT = re.compile(r">([^<>]{20,})<")


@dataclass(frozen=True)
class Answer:
    """A proper answer, from a file."""

    status: int
    content_type: str
    body: bytes
    headers: list[str]

    def tell(self, talk: Conversation, body: bytes | None = None, *headers: str) -> None:
        """Send it, or another body in its place."""
        told = self.body if body is None else body
        talk.answer(told, f"Content-Type: {self.content_type}", *self.headers, *headers, status=self.status)

    @property
    def form(self) -> str:
        """`json`, `xml` or `html`."""
        return next((form for form in ("json", "html", "xml") if form in self.content_type), "xml")


Say = Callable[[Conversation, Answer, str], None]
"""Sends the fault in place of the answer; the text is the address of the trap."""


class Fault(NamedTuple):
    """Misbehaviour of a server."""

    say: Say
    kinds: frozenset[str]
    """Kinds of failure that describe it; `ok` if a proper answer is one, too."""


def long_text(body: bytes, size: int) -> bytes:
    """Return the body of a proper answer with its longest text, an abstract or a snippet, made `size` characters."""
    text = body.decode()
    try:
        value = json.loads(text)
    except ValueError:
        longest = max(_TEXT_OF_ELEMENT.findall(text), key=len)
        return text.replace(longest, (longest + " ") * (size // len(longest) + 1), 1).encode()
    longest = max(_texts(value), key=len)
    said, longer = json.dumps(longest), json.dumps((longest + " ") * (size // len(longest) + 1))
    return json.dumps(value).replace(said, longer, 1).encode()


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in _texts(part)] or [""]


def _status(status: int, body: bytes = b'{"error": "busy"}', *headers: str) -> Say:
    return lambda talk, _, __: talk.answer(body, "Content-Type: application/json", *headers, status=status)


def _redirect(target: str) -> Say:
    """Redirect to an address; `{trap}` in it stands for the trap."""

    def say(talk: Conversation, _: Answer, trap: str) -> None:
        talk.answer(b"", f"Location: {target.format(trap=trap)}", status=302)

    return say


def _redirect_for_ever(talk: Conversation, _: Answer, __: str) -> None:
    path, _, query = talk.asked.line.split()[1].partition("?")
    step = int(found[1]) + 1 if (found := re.search(r"step=(\d+)", query)) else 1
    talk.answer(b"", f"Location: {path}?step={step}", status=307)


def _complain_with_credentials(status: int) -> Say:
    """Reject the credentials and quote them, as some servers do."""

    def say(talk: Conversation, _: Answer, __: str) -> None:
        said = {"error": f"invalid key in {talk.asked.line}, {talk.asked.headers}"}
        said |= {"detail": said.copy(), "message": said["error"]}
        talk.answer(json.dumps(said).encode(), "Content-Type: application/json", status=status)

    return say


def _page(talk: Conversation, _: Answer, __: str) -> None:
    talk.answer(_PAGE, "Content-Type: text/html; charset=utf-8")


def _page_called_as_the_answer(talk: Conversation, answer: Answer, _: str) -> None:
    talk.answer(_PAGE, f"Content-Type: {answer.content_type}")


def _other_shape(talk: Conversation, answer: Answer, _: str) -> None:
    body = {"json": b'{"ok": true}', "xml": b"<ok/>", "html": b"<html><body><p>ok</p></body></html>"}[answer.form]
    answer.tell(talk, body)


def _too_deep(talk: Conversation, answer: Answer, _: str) -> None:
    many = 100_000
    opening, closing = {"json": (b"[", b"]"), "xml": (b"<a>", b"</a>"), "html": (b"<div>", b"</div>")}[answer.form]
    answer.tell(talk, opening * many + closing * many)


def _entities(talk: Conversation, answer: Answer, _: str) -> None:
    """Send entities that expand to 10^9 texts (CWE-776)."""
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    answer.tell(talk, f'<!DOCTYPE a [<!ENTITY e0 "lol">{levels}]><a>&e9;</a>'.encode())


def _truncated(talk: Conversation, answer: Answer, _: str) -> None:
    answer.tell(talk, answer.body[: len(answer.body) // 2])


def _cut(talk: Conversation, answer: Answer, _: str) -> None:
    """Announce the whole answer, send half of it and hang up."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {answer.content_type}\r\nContent-Length: {len(answer.body)}\r\n\r\n"
    talk.send(head.encode(), answer.body[: len(answer.body) // 2])
    raise ConnectionAbortedError


def _hang_up(talk: Conversation, _: Answer, __: str) -> None:
    raise ConnectionAbortedError


def _drip(talk: Conversation, answer: Answer, _: str) -> None:
    """Send a blank again and again: every read succeeds, and the answer never ends."""
    talk.send(f"HTTP/1.1 200 OK\r\nContent-Type: {answer.content_type}\r\nContent-Length: 100000\r\n\r\n".encode())
    while not talk.server.closing.wait(_DRIP_S):
        talk.send(b" ")


def _silence(talk: Conversation, _: Answer, __: str) -> None:
    talk.server.closing.wait(PATIENCE_S)


def _long(talk: Conversation, answer: Answer, _: str) -> None:
    answer.tell(talk, long_text(answer.body, LIMIT + (1 << 20)))


def _long_enough(talk: Conversation, answer: Answer, _: str) -> None:
    """Send an answer just below the limit: a proper one, whose text is cut."""
    answer.tell(talk, long_text(answer.body, LIMIT - (1 << 20)))


def _unannounced_length(talk: Conversation, answer: Answer, _: str) -> None:
    """Send more than the limit in pieces, without a length."""
    talk.send(f"HTTP/1.1 200 OK\r\nContent-Type: {answer.content_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    piece = b" " * (1 << 16)
    for _ in range(LIMIT // len(piece) + 40):
        talk.send(b"10000\r\n", piece, b"\r\n")
    talk.send(b"0\r\n\r\n")


def _zipped(talk: Conversation, answer: Answer, _: str) -> None:
    """Send 100 MB of blanks, compressed to 100 kB."""
    answer.tell(talk, gzip.compress(b" " * (10 * LIMIT), 1), "Content-Encoding: gzip")


def _picture(talk: Conversation, answer: Answer, _: str) -> None:
    talk.answer(answer.body, "Content-Type: image/png")


def _kinds(*kinds: str) -> frozenset[str]:
    return frozenset(kinds)


FAULTS = {
    "429": Fault(_status(429), _kinds("rate_limited")),
    "429 with Retry-After": Fault(_status(429, b"{}", "Retry-After: 7"), _kinds("rate_limited")),
    "503 with Retry-After": Fault(_status(503, b"{}", "Retry-After: 7"), _kinds("rate_limited")),
    "500": Fault(_status(500), _kinds("rejected")),
    "400": Fault(_status(400), _kinds("rejected", "malformed")),
    "403": Fault(_status(403), _kinds("rejected")),
    "401 that quotes the credentials": Fault(_complain_with_credentials(401), _kinds("rejected")),
    "200 that quotes the credentials": Fault(_complain_with_credentials(200), _kinds("rejected", "malformed")),
    "error page with status 200": Fault(_page, _kinds("malformed", "rejected")),
    "error page under the documented type": Fault(_page_called_as_the_answer, _kinds("malformed", "rejected")),
    "empty body": Fault(lambda talk, answer, _: answer.tell(talk, b""), _kinds("malformed")),
    "answer of another shape": Fault(_other_shape, _kinds("malformed")),
    "null": Fault(lambda talk, answer, _: answer.tell(talk, b"null"), _kinds("malformed")),
    "too deep": Fault(_too_deep, _kinds("malformed")),
    "entities": Fault(_entities, _kinds("malformed")),
    "not UTF-8": Fault(lambda talk, answer, _: answer.tell(talk, b"\xff\xfe\x00\x81" * 50), _kinds("malformed")),
    "truncated": Fault(_truncated, _kinds("malformed")),
    "connection closed early": Fault(_cut, _kinds("unreachable")),
    "connection closed without an answer": Fault(_hang_up, _kinds("unreachable")),
    "slow drip": Fault(_drip, _kinds("timeout")),
    "silence": Fault(_silence, _kinds("timeout")),
    "redirect to loopback": Fault(_redirect("{trap}/elsewhere"), _kinds("rejected")),
    "redirect to link-local": Fault(_redirect("http://169.254.169.254/latest/meta-data/"), _kinds("rejected")),
    "redirect to a private address": Fault(_redirect("https://192.168.0.1/"), _kinds("rejected")),
    "redirect to http": Fault(_redirect("http://www.example.org/search"), _kinds("rejected")),
    "redirect to a file": Fault(_redirect("file:///etc/passwd"), _kinds("rejected")),
    "redirect without end": Fault(_redirect_for_ever, _kinds("rejected")),
    "10 MB abstract": Fault(_long, _kinds("rejected")),
    "9 MB abstract": Fault(_long_enough, _kinds("ok", "malformed")),
    "10 MB without a length": Fault(_unannounced_length, _kinds("rejected")),
    "100 MB compressed": Fault(_zipped, _kinds("rejected")),
    "picture": Fault(_picture, _kinds("malformed")),
}
"""Faults by name."""
