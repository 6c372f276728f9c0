"""A `Fetch` that gives the next of some answers to each call, whatever it asks for: for failures of servers."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from websearch.taped import AT

from retrieve_cli.contracts.websearch import Call, Failure, ProviderFailed, Response


class Answering:
    """Gives bodies, JSON values and failures in turn; `calls` are those that were made."""

    def __init__(self, *answers: bytes | dict[str, Any] | Failure) -> None:
        self.answers = list(answers)
        self.calls: list[Call] = []

    def __call__(self, call: Call, *, accept: Sequence[int] = (200,)) -> Response:
        self.calls.append(call)
        answer = self.answers.pop(0)
        if isinstance(answer, dict):
            answer = json.dumps(answer).encode()
        if not isinstance(answer, bytes):
            raise ProviderFailed(answer)
        return Response(accept[0], "text/plain", answer, AT, hashlib.sha256(answer).hexdigest())
