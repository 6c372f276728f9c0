"""A server on loopback that answers each request with prepared bytes, most of them malformed.

An answer is ("raw", bytes), every byte of a response; ("drip", bytes, seconds), one byte after the other;
("stall",), nothing; ("endless", bytes), the bytes again and again; or ("fit", edits, status, headers): what the request
asks for, with values at some places of its JSON replaced. The last answer is given to every request that follows.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from typing import Any

from hostile.prepared import catalog
from hostile.tries import edited
from waiting import PATIENCE_S

_MOST = 300 << 20
"""Bytes of an answer without an end."""


@contextmanager
def serving(answers: tuple[Any, ...]) -> Iterator[int]:
    """The port of a server that gives these answers, while it is there; 0 if there are none."""
    if not answers:
        yield 0
        return
    numbers, over = count(), Event()

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError, ValueError):  # the client has gone, or has sent what is no request
                _answer(self, answers[min(next(numbers), len(answers) - 1)], over)

    class Server(ThreadingTCPServer):
        daemon_threads, block_on_close, request_queue_size = True, False, 64

    with Server(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            over.set()
            server.shutdown()


def _answer(request: StreamRequestHandler, answer: tuple[Any, ...], over: Event) -> None:
    stream, send = request.rfile, request.wfile.write
    line = stream.readline().decode("latin-1")
    headers = dict(iter(lambda: stream.readline().decode("latin-1").strip().lower().partition(": ")[::2], ("", "")))
    body = stream.read(int(headers.get("content-length", 0)))
    kind, *rest = answer
    if kind == "raw":
        send(rest[0])
    elif kind == "fit":
        send(_response(line, body, *rest))
    elif kind == "drip":
        for byte in rest[0]:
            send(bytes([byte]))
            over.wait(rest[1])
    elif kind == "endless":
        for _ in range(_MOST // max(len(rest[0]), 1)):
            send(rest[0])
    else:
        over.wait(PATIENCE_S)
    request.connection.shutdown(socket.SHUT_WR)


def _response(line: str, body: bytes, edits: Any, status: int, headers: tuple[str, ...]) -> bytes:
    path = line.split(" ")[1] if line.count(" ") > 1 else "/"
    value = fitting(path, body)
    if isinstance(value, bytes):
        content, kind = value, "application/x-ndjson"
    else:
        for place, new in edits:
            value = edited(value, place, new)
        content, kind = json.dumps(value).encode("utf-8", "surrogatepass"), "application/json"
    lines = [f"HTTP/1.1 {status} OK", f"Content-Type: {kind}", f"Content-Length: {len(content)}", "Connection: close"]
    return "\r\n".join([*lines, *headers, "", ""]).encode("latin-1", "replace") + content


def fitting(path: str, body: bytes) -> Any:
    """Return what a request asks for: embeddings, scores, a choice, or a catalog."""
    try:
        request = json.loads(body) if body else {}
    except ValueError:
        request = {}
    if path.endswith("/embeddings"):
        given = request.get("input", [])
        count = len(given) if isinstance(given, list) else 1
        rows = [
            {"object": "embedding", "index": n, "embedding": [0.1 * ((n + i) % 7) for i in range(8)]}
            for n in range(count)
        ]
        return {"object": "list", "data": rows, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    if path.endswith("/rerank"):
        return {
            "results": [{"index": n, "relevance_score": 1 / (n + 1)} for n in range(len(request.get("documents", [])))]
        }
    if path.endswith("/chat/completions"):
        said = json.dumps({"scores": [{"number": n + 1, "score": 50} for n in range(8)]})
        return {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}]}
    if path.endswith("/sparql"):
        rows = [
            {"id": {"type": "literal", "value": f"t{n}"}, "name": {"type": "literal", "value": "tool"}}
            for n in range(5)
        ]
        return {"head": {"vars": ["id", "name"]}, "results": {"bindings": rows}}
    if "/search?" in path or path.endswith("/search"):
        hit = {"id": "t1", "name": "tool", "score": 1.0, "content": "segments lungs"}
        return {"results": [hit], "generation": "0123456789ab"} if "format=" not in path else b"1  tool  id t1\n"
    if path.endswith("/models"):
        return {"object": "list", "data": [{"id": "m", "object": "model"}]}
    return catalog(10)
