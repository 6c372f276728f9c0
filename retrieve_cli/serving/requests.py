"""What a request may ask: its JSON, held to the fields, the limits and the values that are known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable

Work = Callable[[], Json]
"""What is asked, already understood; computes the answer."""

_SHOWN = 100
"""Characters of what was sent that an error repeats."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one request may ask, and how many may wait."""

    inputs: int = 2048
    """Texts of one request."""
    characters: int = 4_000_000
    """Of all texts of one request."""
    bytes: int = 32 << 20
    """Of one request's body."""
    waiting: int = 64
    """Requests that are computed or wait for it; who comes after is told to come again."""


class Refused(Exception):
    """A request that is not answered; becomes OpenAI's error object under `status`."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


def read_object(body: bytes) -> dict[str, Any]:
    """The body's keys and values; a key without a value (null) counts as left out."""
    import orjson

    try:
        payload = orjson.loads(body)
    except ValueError as error:
        raise Refused(400, f"the body is no JSON: {error}") from None
    if not isinstance(payload, dict):
        raise Refused(400, "the body is no JSON object")
    return {key: value for key, value in payload.items() if value is not None}


def check_fields(payload: dict[str, Any], known: Collection[str]) -> None:
    """A misspelled `input_type` would give vectors of another kind without a word."""
    for key in payload:
        if key not in known:
            said = f"{_shown(key)} is not known here; known are {', '.join(known)}"
            raise Refused(400, said, param=key[:_SHOWN], code="unknown_parameter")


def check_model(payload: dict[str, Any], name: str, *, status: int) -> None:
    """Refuses a request for another model than the one of this name."""
    asked = payload.get("model", "")
    if asked not in ("", name):
        said = f"the model {_shown(asked)} is not here; this server has {name}"
        raise Refused(status, said, param="model", code="model_not_found")


def read_texts(given: Json, param: str, limits: Limits, *, blank: bool = False) -> list[str]:
    """The texts of a request, within the limits; `blank` where a text may be empty."""
    if not isinstance(given, list) or not given:
        raise Refused(400, f"`{param}` is no list of texts, or an empty one", param=param)
    if len(given) > limits.inputs:
        said = f"`{param}` has {len(given)} texts, and {limits.inputs} is the most of one request"
        raise Refused(413, said, param=param, code="too_large")
    for place, text in enumerate(given):
        if not isinstance(text, str) or not (text or blank):
            raise Refused(400, f"`{param}` has at place {place} no text, or an empty one", param=param)
    size = sum(map(len, given))
    if size > limits.characters:
        said = f"`{param}` has {size} characters, and {limits.characters} is the most of one request"
        raise Refused(413, said, param=param, code="too_large")
    return given


def one_of(payload: dict[str, Any], key: str, values: Sequence[str]) -> str:
    """The value of a key; the first of `values` where it is left out."""
    value = payload.get(key, values[0])
    if value not in values:
        raise Refused(400, f"`{key}` is {_shown(value)}, and not {' or '.join(filter(None, values))}", param=key)
    return str(value)


def flag(payload: dict[str, Any], key: str, *, default: bool = False) -> bool:
    """The value of a key that is true or false."""
    value = payload.get(key, default)
    if not isinstance(value, bool):
        raise Refused(400, f"`{key}` is neither true nor false", param=key)
    return value


def _shown(value: Json) -> str:
    text = printable(str(value))
    return f"“{text[:_SHOWN]}…”" if len(text) > _SHOWN else f"“{text}”"
