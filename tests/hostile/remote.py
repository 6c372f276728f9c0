"""Attacks by servers: encoders, rerankers, chat models and catalogs that answer nonsense, too much, or too slowly."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hostile import odd
from hostile.tries import DROP, PORT, Try

BASE = f"http://127.0.0.1:{PORT}/v1"
CLIENT = "timeout_s: 1, retries: 1"
_HEADERS = ("Retry-After: 1e999", "Retry-After: -5", "Retry-After: " + "9" * 400,
            "Retry-After: Thu, 99 Foo 2020 00:00:00 GMT", "Content-Encoding: gzip", "Content-Encoding: br",
            "Content-Length: 5", "Content-Length: -1", "Transfer-Encoding: chunked", "Location: file:///etc/passwd",
            f"Location: http://127.0.0.1:{PORT}/x", "Location: //[", "X: " + "a" * 70_000, "Content-Type: text/html",
            "ETag: \x1b[31m", "Set-Cookie: a=b", "Content-Type: application/json; charset=\u00ff",
            "Link: </x>; rel=next", "Digest: SHA=" + "=" * 5000)  # fmt: skip
_STATUSES = (*[200] * 4, 204, 206, 301, 302, 304, 308, 400, 401, 403, 404, 413, 418, 422, 429, 500, 503, 599, 999, 100)
_PLACES: dict[str, tuple[tuple[Any, ...], ...]] = {
    "embeddings": ((), ("data",), ("data", 0), ("data", 0, "index"), ("data", 0, "embedding"), ("data", 0, "embedding",
    0), ("data", 1, "index"), ("data", 2), ("model",)),
    "rerank": ((), ("results",), ("results", 0), ("results", 0, "index"), ("results", 0, "relevance_score"),
    ("results", 1, "index"), ("results", 3)),
    "llm": ((), ("choices",), ("choices", 0), ("choices", 0, "message"), ("choices", 0, "message", "content"),
    ("choices", 0, "finish_reason")),
    "http": ((),),
    "search": ((), ("results",), ("results", 0), ("results", 0, "id"), ("results", 0, "score"), ("results", 0, "name"),
    ("generation",), ("error",), ("error", "code"), ("error", "message")),
    "sparql": ((), ("head", "vars"), ("results",), ("results", "bindings"), ("results", "bindings", 0), ("results",
    "bindings", 0, "id"), ("results", "bindings", 0, "id", "value")),
}  # fmt: skip
_SAID = ("```" + "\n" * 300_000, "```json\n{}\n```", "<think>" * 20_000, '{"scores": []}',
    '{"scores": [{"number": 1, "score": NaN}]}', "[" * 100_000, '{"scores": 1}', "\x1b[31m", "", "null",
         '{"picked": [1]}', '{"picked": [1e400]}', '{"picked": []}', '{"picked": [1, "\\u0000"]}',
         "```json\n" * 20_000, '{"scores": [{"number": 1e400, "score": 1}]}',
         '{"scores":[{"number":99999999999999999999,"score":5}]}')  # fmt: skip


def http(dice: Random) -> Try:
    """Return a run against a server that answers badly."""
    role = dice.choice(sorted(_PLACES.keys() - {"search"}))
    answers = tuple(_answer(dice, role) for _ in range(dice.choice((1, 1, 2))))
    if dice.random() < 0.3:
        answers = (("fit", (), 200, ()), *answers)
    if role in ("rerank", "llm"):
        backend = "remote" if role == "rerank" else "llm"
        settings = f"rerank: {{backend: {backend}, model: m, base_url: '{BASE}', {CLIENT}}}\n"
        mode: tuple[str, ...] = ()
        if role == "llm" and dice.random() < 0.5:
            settings, mode = f"llm: {{model: m, base_url: '{BASE}', {CLIENT}}}\n", ("--mode", "llm")
        shown = dice.choice(((), ("--json",), ("--explain",), ("-v",)))
        commands = (("query", "segment lungs", "-k", "5", *mode, *shown),)
        return Try("http", commands, {"config.yaml": settings.encode()}, index="tools", answers=answers)
    if role == "embeddings":
        settings = f"encoder: {{kind: remote, model: m, base_url: '{BASE}', build_timeout_s: 1, {CLIENT}}}\n"
        commands = (
            ("build", "--catalog", "tools.jsonl", "--artifacts", "other"),
            ("query", "lungs", "--artifacts", "other", *dice.choice(((), ("--json",)))),
        )
        files, remote = {"config.yaml": settings.encode()}, {"RETRIEVE_ENCODER__KIND": "remote"}
        return Try("http", commands, files, index="tools", answers=answers, environment=remote, control=True)
    settings = f"sources: [{{kind: catalog, path: tools.jsonl}}, {_source(dice, role)}]\n"
    commands = (("sync", "--json", "--max-fail", "1000"), dice.choice((("query", "tool"), ("sync",), ("doctor",))))
    query = b"SELECT ?id ?name WHERE { ?id <http://schema.org/name> ?name }"
    files = {"config.yaml": settings.encode(), "q.rq": query}
    return Try("http", commands, files, index="tools", answers=answers, control=True)


def _source(dice: Random, role: str) -> str:
    if role == "sparql":
        return f"{{kind: sparql, name: hub, endpoint: 'http://127.0.0.1:{PORT}/sparql', query: q.rq, {CLIENT}}}"
    name = dice.choice(("tools.jsonl", "tools.jsonl.gz", "x", "a%1b[31m"))
    return f"{{kind: http, name: far, url: 'http://127.0.0.1:{PORT}/{name}', {CLIENT}, max_mb: 5}}"


def _new(dice: Random) -> Any:
    return dice.choice((DROP, odd.value(dice), odd.number(dice), odd.number(dice), None, []))


def _answer(dice: Random, role: str) -> tuple[Any, ...]:
    roll = dice.random()
    if roll < 0.5:
        edits = [(dice.choice(_PLACES[role]), _new(dice)) for _ in range(dice.choice((1, 1, 2)))]
        if role == "llm" and dice.random() < 0.6:
            edits.append((("choices", 0, "message", "content"), dice.choice(_SAID)))
        headers = tuple(dice.sample(_HEADERS, dice.choice((0, 0, 1, 2))))
        return "fit", tuple(edits), dice.choice(_STATUSES), headers
    body = dice.choice((b"", b"<html><body>Bad gateway \x1b[31m</body></html>", b"\xff\xfe", odd.nested(dice).encode(),
        odd.utf8(dice).encode(), json.dumps(odd.value(dice)).encode("utf-8", "replace"),
                        b'{"id": "a", "name": "' + odd.utf8(dice).encode() + b'"}\n', b"\x1f\x8b" + dice.randbytes(50),
                        b"\0" * 1000))  # fmt: skip
    lines = [f"HTTP/1.1 {dice.choice(_STATUSES)} X", *dice.sample(_HEADERS, dice.choice((0, 1, 2)))]
    if dice.random() < 0.7:
        lines.append(f"Content-Length: {len(body)}")
    raw = "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body
    if roll < 0.75:
        return "raw", raw
    if roll < 0.9:
        return "raw", odd.mutated(dice, raw)
    if roll < 0.93:
        return "drip", raw[:200], dice.choice((0.005, 0.02))
    if roll < 0.96:
        return ("stall",)
    return "endless", dice.choice(
        (raw, b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_000, b"HTTP/1.1 100 Continue\r\n\r\n", b"X-A: b\r\n" * 100)
    )


def servers(dice: Random) -> Try:
    """Return a query that another server answers, badly."""
    shown = dice.choice(
        ((), ("--json",), ("--explain",), ("--format", "md"), ("--format", "csv"), ("--format", "jsonl"))
    )
    command = ("query", "segment lungs", "--server", f"http://127.0.0.1:{PORT}", *shown)
    return Try("servers", (command,), index="tools", answers=(_answer(dice, "search"),))
