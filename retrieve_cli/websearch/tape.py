"""Exchanges of one search, as a saved run holds them and a replay answers from them.

    {"exchanges": {<key of the request>: {"request", "response": {"status", "content_type", "at", "digest"}, "age_s"}
                                         | {"request", "failure": {"kind", …}}},
     "failures": {"provider:pubmed": {"kind", …}}}

`failures` are failures of whole providers: no key, no answer in time. Bodies are stored separately, by digest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import NamedTuple, TypeAlias, get_args

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Failure, Response
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import asdict
from retrieve_cli.websearch.stored import digest_of, is_response, request_key

_KINDS = {kind.kind: kind for kind in get_args(Failure)}
_HINT = "save the run again: retrieve web TEXT --save-run"


class Answered(NamedTuple):
    """A response, with its age if it was stored before the search."""

    response: Response
    age_s: float | None
    """Age in seconds; None: it was sent for the search."""


Outcome: TypeAlias = Answered | Failure


class Tape:
    """Exchanges in any order, from any number of threads. The first outcome of a request stays."""

    def __init__(self) -> None:
        self._exchanges: dict[str, tuple[Json, Outcome]] = {}
        self._failures: dict[str, Failure] = {}
        self._lock = Lock()

    def keep(self, key: str, request: Json, outcome: Outcome) -> Outcome:
        """Add the outcome of a request, and return the one that stays: an earlier one if there is one."""
        with self._lock:
            return self._exchanges.setdefault(key, (request, outcome))[1]

    def outcome(self, key: str) -> Outcome | None:
        """Return the outcome of a request; None if it was not sent."""
        with self._lock:
            return self._exchanges[key][1] if key in self._exchanges else None

    def keep_failure(self, asked: str, failure: Failure) -> None:
        """Add the failure of a whole provider or enricher, such as `provider:pubmed`."""
        with self._lock:
            self._failures[asked] = failure

    def failure(self, asked: str) -> Failure | None:
        """Return the failure of a whole provider or enricher; None if it did not fail."""
        with self._lock:
            return self._failures.get(asked)

    def to_json(self) -> Json:
        """Return all exchanges in the order of their keys, without bodies."""
        with self._lock:
            exchanges = {key: _exchange_json(*self._exchanges[key]) for key in sorted(self._exchanges)}
            failures = {name: _failure_json(self._failures[name]) for name in sorted(self._failures)}
        return {"exchanges": exchanges, "failures": failures}

    def bodies(self) -> Mapping[str, bytes]:
        """Return the bodies of all responses, by SHA-256."""
        with self._lock:
            outcomes = [outcome for _, outcome in self._exchanges.values()]
        responses = [outcome.response for outcome in outcomes if isinstance(outcome, Answered)]
        return {response.digest: response.body for response in sorted(responses, key=lambda one: one.digest)}

    @classmethod
    def of(cls, value: Json, read_body: Callable[[str], bytes]) -> Tape:
        """Return the tape that `to_json` described; `read_body` returns a body by its digest.

        Raises:
            UsageError: it is damaged, or a body is missing or does not match its digest.
        """
        tape = cls()
        try:
            for key, entry in value["exchanges"].items():
                if request_key(entry["request"]) != key:
                    raise ValueError(f"the request {key} is a different one")
                tape.keep(key, entry["request"], _outcome(entry, read_body))
            for asked, failure in value["failures"].items():
                tape.keep_failure(str(asked), _failure(failure))
        except KeyError as error:
            raise UsageError(f"the saved run is damaged: {error} is missing", hint=_HINT) from error
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(f"the saved run is damaged: {error}", hint=_HINT) from error
        except OSError as error:
            raise UsageError(f"cannot read a body of the saved run: {error.strerror}", hint=_HINT) from error
        return tape


def _exchange_json(request: Json, outcome: Outcome) -> Json:
    if not isinstance(outcome, Answered):
        return {"request": request, "failure": _failure_json(outcome)}
    response = outcome.response
    kept = {name: getattr(response, name) for name in ("status", "content_type", "at", "digest")}
    return {"request": request, "response": kept, "age_s": outcome.age_s}


def _outcome(entry: Json, read_body: Callable[[str], bytes]) -> Outcome:
    if "failure" in entry:
        return _failure(entry["failure"])
    said, age_s = entry["response"], entry["age_s"]
    if not is_response(said) or not (age_s is None or _is_number(age_s)):
        raise ValueError("it describes a response incompletely")
    body = read_body(said["digest"])
    if digest_of(body) != said["digest"]:
        raise ValueError(f"the body {said['digest']} has other bytes")
    response = Response(said["status"], said["content_type"], body, said["at"], said["digest"])
    return Answered(response, age_s)


def _failure_json(failure: Failure) -> Json:
    return {"kind": failure.kind, **asdict(failure)}


def _failure(said: Json) -> Failure:
    kind = _KINDS[said["kind"]]
    given = {name: value for name, value in said.items() if name != "kind"}
    for name, value in given.items():
        numeric = {"status": type(value) is int, "retry_after": value is None or _is_number(value)}
        if not numeric.get(name, isinstance(value, str)):
            raise ValueError(f"the failure {kind.kind} has an invalid {name}")
    made: Failure = kind(**given)
    return made


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
