"""Errors of the HTTP door: hints of its own, statuses that are described, and the form of RFC 9457 on request."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from servers import sent, state_of
from starlette.types import ASGIApp

from retrieve_cli.server.http.app import server_app

SOUND: dict[str, Any] = {"query": "lungs", "requests": [{}]}
BODIES: list[dict[str, Any]] = [
    {},
    {"content": b" "},
    {"content": b"{"},
    {"json": []},
    {"json": {}},
    {"json": {"query": ""}},
    {"json": {"query": "[EXCLUDE:lungs]"}},
    {"json": {"query": "x", "nope": 1}},
    {"json": {"id": "a"}},
    {"json": {"action": "nope"}},
    {"json": {"action": "rollback", "generation": "no!"}},
    {"json": {"inputs": []}},
    {"content": b"x", "headers": {"Content-Type": "multipart/form-data"}},
    *({"json": {"query": "x", **more}} for more in (
        {"limit": 0}, {"mode": "nope"}, {"mode": "splade"}, {"retrievers": ["y"]}, {"filters": "a"},
        {"filters": "zz=1"},
        {"filters": {"license": {"like": 1}}}, {"facets": ["zz"]}, {"boosts": ["zz"]}, {"boosts": ["zz=1:2"]},
        {"tenant": "t"}, {"generation": "abc"}, {"at_least": 9, "deadline_ms": 1}, {"min_confidence": 0.5},
        {"rerank": True}, {"files": ["a.nii"]}, {"files": [{"name": "a"}]}, {"also": [""]}, {"offset": -1},
        {"min_score": 1, "also": ["y"]}, {"providers": ["y"]}, {"top_k": 1, "limit": 2},
        {"rerank": {"strategy": "llm"}}, {"documents": []}, {"related": "some"}, {"deadline_ms": 0},
    )),
]  # fmt: skip
QUERIES = ["", "?q=", "?q=x&k=no", "?q=x&q=y", "?limit=0", "?cursor=x", "?filters=zz%3D1", "?page=x", "?chunk=99",
           "?zz=1",
           "?page=1&generation=abc", "?format=x", "?shape=x", "?q=x&generation=abc"]  # fmt: skip
OPERATOR = "for the operator of the server: "


@pytest.fixture(scope="module")
def app(artifacts: Path) -> Iterator[ASGIApp]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        patch.chdir(artifacts.parent)
        state = state_of(artifacts)
        yield server_app(state)
        state.close()


def bad_requests(description: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every route with every wrong body, parameter and id."""
    yield from ((method, "/nope", {}) for method in ("GET", "POST", "DELETE", "PATCH"))
    for path, methods in description["paths"].items():
        yield "PATCH", path, {}
        for method, each in methods.items():
            for id_ in ("nope", "lungs"):
                named = path.replace("{id}", id_).replace("{name}", "nope")
                if "requestBody" in each:
                    yield from ((method.upper(), named, body) for body in BODIES)
                else:
                    yield from ((method.upper(), named + query, {}) for query in QUERIES)


def test_every_error_has_a_described_status_and_a_hint_that_is_no_command_of_a_shell(app: ASGIApp) -> None:
    description = sent(app, ("GET", "/openapi.json", {}))[0].json()
    requests = list(bad_requests(description))
    assert len(requests) > 500
    kinds, commands = set(), set()
    for (method, path, options), answer in zip(requests, sent(app, *requests), strict=True):
        if answer.status_code < 400:
            continue
        route = next(
            (p for p in description["paths"] if re.fullmatch(re.sub(r"{\w+}", "[^/]+", p), path.split("?")[0])), ""
        )
        described = description["paths"].get(route, {}).get(method.lower(), {}).get("responses")
        assert described is None or str(answer.status_code) in described, (method, path, options, answer.text)
        value = answer.json()
        error = value.get("error", value)
        text = str(error.get("hint", "")) or error.get("error_msg", "")
        if "retrieve " in text:
            assert OPERATOR in text, (method, path, options, text)
            commands.add(text.partition("retrieve ")[2].partition(" ")[0])
        assert not re.search(r"(?<!\w)--?[a-z]", text.partition(OPERATOR)[0]), text
        if "kind" in error:
            assert error["hint"], (method, path, options, answer.text)
            kinds.add(error["kind"])
    assert kinds >= {"usage", "not_found", "unavailable", "error", "method"}
    assert commands
    assert commands <= {"build", "config", "eval"}, "a client is told what only the operator can do"


def test_a_missing_route_and_an_empty_body_say_what_to_send(app: ASGIApp) -> None:
    missing, empty, blank = sent(app, ("GET", "/nope", {}), ("POST", "/search", {}), ("GET", "/search?q=", {}))
    assert missing.json()["error"]["message"] == "there is no route GET /nope"
    assert missing.json()["error"]["hint"] == "GET /docs lists the routes"
    assert empty.json()["error"]["message"] == "the body is empty"
    assert '{"query": "…"}' in empty.json()["error"]["hint"]
    assert blank.json()["error"]["hint"] == "for example: segment lungs in CT"


@pytest.mark.parametrize(
    ("method", "path", "kind", "status"),
    [("GET", "/documents/nope", "not_found", 404), ("POST", "/search", "error", 400),
     ("GET", "/nope", "not_found", 404),
     ("POST", "/v1/embeddings", "error", 400)],
)  # fmt: skip
def test_a_client_that_accepts_problems_gets_the_same_error_as_rfc_9457(
    app: ASGIApp, method: str, path: str, kind: str, status: int
) -> None:
    def ask(accept: str) -> httpx.Response:
        return sent(app, (method, path, {"headers": {"Accept": accept, "X-Request-Id": "r1"}}))[0]

    plain, problem = ask("*/*"), ask("application/json;q=0.5, application/problem+json")
    assert (plain.headers["Content-Type"], problem.headers["Content-Type"]) == (
        "application/json",
        "application/problem+json",
    )
    value = problem.json()
    members = {key: value.pop(key) for key in ("type", "title", "status", "detail")}
    assert value == plain.json()
    assert members["type"] == f"/docs#error-{kind}"
    assert (members["status"], plain.status_code, problem.status_code) == (status, status, status)
    assert members["title"] == kind.replace("_", " ")
    assert members["detail"]
    assert members["detail"] in str(value)
