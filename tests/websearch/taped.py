"""Exchanges with a provider from a file, as a `Fetch`: parsing is tested without a server."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from retrieve_cli.contracts.websearch import Call, ProviderFailed, Response, WebQuery

FOLDER = Path(__file__).parent / "providers"
AT = "2026-11-23T04:00:00Z"


def read(name: str) -> dict[str, Any]:
    """Return the file of a provider."""
    value: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return value


def body_of(response: Mapping[str, Any]) -> bytes:
    """Return the body of a response in a file."""
    body = response["body"]
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def comparable(body: str | bytes | None) -> Any:
    """Return a body for comparison: JSON as its value."""
    try:
        return None if body is None else json.loads(body)
    except ValueError:
        return body.decode() if isinstance(body, bytes) else body


class Taped:
    """Answers calls from the exchanges of a file; `calls` are those that were made."""

    def __init__(self, name: str) -> None:
        self.file = read(name)
        self.calls: list[Call] = []

    @property
    def query(self) -> WebQuery:
        given = self.file["query"]
        return WebQuery(given["text"], given["k"], given.get("since", ""), tuple(given.get("categories", ())))

    def __call__(self, call: Call, *, accept: Sequence[int] = (200,)) -> Response:
        self.calls.append(call)
        for exchange in self.file["exchanges"]:
            request, response = exchange["request"], exchange["response"]
            same = (request["url"], request.get("parameters", {})) == (call.url, dict(call.parameters))
            if same and comparable(request.get("body")) == comparable(call.body):
                if response["status"] not in accept:
                    raise ProviderFailed("rejected", f"status {response['status']}")
                return Response(response["status"], body_of(response), AT)
        raise LookupError(f"no file has an answer to {call}")
