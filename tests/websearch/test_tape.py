"""Tapes: what a saved run holds is what it answers from, and nothing that was changed is taken for it."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.contracts.websearch import (
    Failure,
    Malformed,
    NoKey,
    NotStored,
    RateLimited,
    Rejected,
    Response,
    Timeout,
    Unreachable,
)
from retrieve_cli.errors import UsageError
from retrieve_cli.websearch.stored import Answered, Outcome, Tape, digest_of, request_key

AT = "2026-11-23T04:00:00Z"
texts = st.text(max_size=20)
seconds = st.none() | st.floats(0, 1e9)
failures: st.SearchStrategy[Failure] = st.one_of(
    *(st.builds(kind, texts) for kind in (Malformed, NoKey, Timeout, Unreachable)),
    st.builds(RateLimited, seconds),
    st.builds(Rejected, texts, st.integers(0, 599)),
    st.just(NotStored()),
)
responses = st.binary().map(lambda body: Response(200, "text/xml", body, AT, digest_of(body)))
answers = st.builds(Answered, responses, seconds)
tapes = st.dictionaries(st.integers(), st.one_of(answers, failures), max_size=6)


def taped(outcomes: Mapping[int, Outcome], failures: Mapping[str, Failure]) -> Tape:
    tape = Tape()
    for number, outcome in outcomes.items():
        tape.keep(request_key(number), number, outcome)
    for asked, failure in failures.items():
        tape.keep_failure(asked, failure)
    return tape


def saved(tape: Tape) -> Any:
    """Return the JSON of a tape after a round trip as text."""
    return json.loads(json.dumps(tape.to_json()))


@given(tapes, st.dictionaries(texts, failures, max_size=3))
def test_a_tape_is_read_as_it_was_written(outcomes: dict[int, Outcome], failed: dict[str, Failure]) -> None:
    tape = taped(outcomes, failed)
    again = Tape.of(saved(tape), tape.bodies().__getitem__)
    assert [again.outcome(request_key(number)) for number in outcomes] == list(outcomes.values())
    assert [again.failure(asked) for asked in failed] == list(failed.values())
    assert again.to_json() == tape.to_json()
    assert again.bodies() == tape.bodies()


@given(tapes)
def test_the_order_of_exchanges_changes_nothing(outcomes: dict[int, Outcome]) -> None:
    turned = dict(reversed(outcomes.items()))
    assert json.dumps(taped(outcomes, {}).to_json()) == json.dumps(taped(turned, {}).to_json())


def test_the_first_outcome_of_a_request_stays() -> None:
    tape = Tape()
    assert [tape.keep("key", {}, failure) for failure in (NotStored(), Timeout("late"))] == [NotStored()] * 2
    assert tape.outcome("key") == NotStored()
    assert tape.outcome("other") is None


BODY = b'{"a": 1}'
GOOD = taped({1: Answered(Response(200, "text/xml", BODY, AT, digest_of(BODY)), 7.0)}, {"provider:a": NoKey("A_KEY")})


def changed(*path: str, to: Any) -> Any:
    """Return the JSON of a good tape with another value at a path; `*` is its only exchange."""
    value = saved(GOOD)
    inner = value
    for part in path[:-1]:
        inner = next(iter(inner.values())) if part == "*" else inner[part]
    inner[path[-1]] = to
    return value


WRONG = [
    None, [], {}, {"exchanges": []}, {"exchanges": {}}, changed("exchanges", to=None), changed("failures", to=[1]),
    changed("exchanges", "*", "request", to=2), changed("exchanges", "*", "response", to=None),
    changed("exchanges", "*", "response", "digest", to="../../etc/passwd"),
    changed("exchanges", "*", "response", "at", to="now"), changed("exchanges", "*", "response", "status", to="200"),
    changed("exchanges", "*", "age_s", to="old"), changed("exchanges", "*", "age_s", to=-1),
    changed("exchanges", "*", "failure", to={"kind": "unknown"}), changed("exchanges", "*", "failure", to={}),
    changed("failures", "provider:a", to={"kind": "no_key"}), changed("failures", "provider:a", to="no_key"),
    changed("failures", "provider:a", to={"kind": "no_key", "variable": 7}),
    changed("failures", "provider:a", to={"kind": "no_key", "variable": "x", "more": "y"}),
    changed("failures", "provider:a", to={"kind": "rejected", "reason": "x", "status": "y"}),
    changed("failures", "provider:a", to={"kind": "rate_limited", "retry_after": float("inf")}),
]  # fmt: skip


@pytest.mark.parametrize("value", WRONG, ids=range(len(WRONG)))
def test_a_damaged_tape_is_rejected(value: Any) -> None:
    with pytest.raises(UsageError, match="the saved run is damaged") as caught:
        Tape.of(value, lambda _: BODY)
    assert "--save-run" in caught.value.hint


@pytest.mark.parametrize("body", [b"", b'{"a": 2}', BODY + b" "])
def test_a_body_that_was_changed_is_rejected(body: bytes) -> None:
    with pytest.raises(UsageError, match="has other bytes"):
        Tape.of(saved(GOOD), lambda _: body)


def test_a_body_that_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match=digest_of(BODY)):
        Tape.of(saved(GOOD), {}.__getitem__)


def test_a_body_that_cannot_be_read_is_an_error_with_its_reason() -> None:
    def read(_: str) -> bytes:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(UsageError, match="Permission denied"):
        Tape.of(saved(GOOD), read)
