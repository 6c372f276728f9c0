"""A `Fetch` that gives the next of some answers to each call, whatever it asks for: for failures of servers."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st
from websearch.taped import AT

from retrieve_cli.contracts.websearch import Call, ProviderFailed, ProviderFailure, Response


class Answering:
    """Gives bodies, JSON values and failures in turn, the last one again and again; `calls` are those that were made.

    Another status than 200 is a failure unless the call accepts it.
    """

    def __init__(self, *answers: Any, status: int = 200) -> None:
        self.answers, self.status = list(answers), status
        self.calls: list[Call] = []

    def __call__(self, call: Call, *, accept: Sequence[int] = (200,)) -> Response:
        self.calls.append(call)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ProviderFailure):
            raise ProviderFailed(answer.kind, answer.message, retry_after=answer.retry_after)
        if self.status not in accept:
            raise ProviderFailed("rejected", f"status {self.status}")
        body = answer if isinstance(answer, bytes | str) else json.dumps(answer)
        body = body.encode() if isinstance(body, str) else body
        return Response(self.status, body, AT)


def json_values(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Return values of JSON, small ones."""
    numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(
        st.none() | st.booleans() | numbers | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=8,
    )


def failure(ask: Callable[[Answering], object], *answers: Any, status: int = 200) -> Any:
    """Return the failure that these answers are to somebody who asks."""
    with pytest.raises(ProviderFailed) as failed:
        ask(Answering(*answers, status=status))
    return failed.value.failure
