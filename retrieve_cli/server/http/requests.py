"""Parsing of requests: JSON with known fields and values, within limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from retrieve_cli.contracts import Json
from retrieve_cli.errors import Exit, printable
from retrieve_cli.frozen import Frozen

Work = Callable[[], Json]
"""Computes the answer to a parsed request."""

_SHOWN = 100
"""Characters of the sent value that an error repeats."""


_BODY = 'send an object of JSON, such as {"query": "…"}; GET /docs has an example for each route'


class Limits(Frozen):
    """Limits of one request, and of waiting requests."""

    inputs: int = 2048
    """Texts of one request."""
    characters: int = 4_000_000
    """Of all texts of one request."""
    bytes: int = 32 << 20
    """Of one request's body."""
    waiting: int = 64
    """Requests that are computed or wait for it; later ones get 503."""


class RejectedRequest(Exception):
    """A request that is not answered; becomes an error object under `status`."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        hint: str = "",
        exit_code: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`code` is the kind of the error, `param` the key of the body that is at fault, `exit_code` that with which
        the command line would end."""
        super().__init__(message)
        self.status, self.param, self.code, self.hint = status, param, code, hint
        self.exit_code = exit_code or int(Exit.USAGE if status < 500 else Exit.ERROR)
        self.headers = dict(headers or {})


def read_object(body: bytes) -> dict[str, Any]:
    """Return the keys and values of the body; a key with the value null counts as absent."""
    import orjson

    try:
        payload = orjson.loads(body)
    except ValueError as error:
        said = f"the body is not JSON: {error}" if body.strip() else "the body is empty"
        raise RejectedRequest(400, said, hint=_BODY) from None
    if not isinstance(payload, dict):
        raise RejectedRequest(400, "the body is not a JSON object", hint=_BODY)
    return {key: value for key, value in payload.items() if value is not None}


def check_fields(payload: dict[str, Any], known: Collection[str]) -> None:
    """Reject unknown keys: a misspelled `input_type` would silently give other vectors."""
    for key in payload:
        if key not in known:
            said = f"{_shown(key)} is unknown; known keys: {', '.join(known)}"
            raise RejectedRequest(400, said, param=key[:_SHOWN], code="unknown_parameter")


def check_model(payload: dict[str, Any], names: Collection[str], *, status: int) -> None:
    """Reject a request for another model than the one that goes by these names, the published one first."""
    asked = payload.get("model", "")
    if asked == "" or (isinstance(asked, str) and asked.casefold() in {name.casefold() for name in names}):
        return
    said = f"the model {_shown(asked)} is not served; this server has {' or '.join(names)}"
    raise RejectedRequest(status, said, param="model", code="model_not_found")


def read_texts(given: Json, param: str, limits: Limits, *, blank: bool = False) -> list[str]:
    """Return the texts of a request, within the limits; `blank` if a text may be empty."""
    if not isinstance(given, list) or not given:
        raise RejectedRequest(400, f"`{param}` must be a list of texts that is not empty", param=param)
    if len(given) > limits.inputs:
        said = f"`{param}` has {len(given)} texts; the limit is {limits.inputs} per request"
        raise RejectedRequest(413, said, param=param, code="too_large")
    for place, text in enumerate(given):
        if not isinstance(text, str) or not (text or blank):
            raise RejectedRequest(400, f"`{param}` has no text, or an empty one, at place {place}", param=param)
    size = sum(map(len, given))
    if size > limits.characters:
        said = f"`{param}` has {size} characters; the limit is {limits.characters} per request"
        raise RejectedRequest(413, said, param=param, code="too_large")
    return given


def one_of(payload: dict[str, Any], key: str, values: Sequence[str]) -> str:
    """Return the value of a key; the first of `values` if it is absent."""
    value = payload.get(key, values[0])
    if value not in values:
        said = f"`{key}` is {_shown(value)}; it takes {' or '.join(filter(None, values))}"
        raise RejectedRequest(400, said, param=key)
    return str(value)


def flag(payload: dict[str, Any], key: str, *, default: bool = False) -> bool:
    """Return the value of a key that is true or false."""
    value = payload.get(key, default)
    if not isinstance(value, bool):
        raise RejectedRequest(400, f"`{key}` must be true or false", param=key)
    return value


def _shown(value: Json) -> str:
    text = printable(str(value))
    return f"“{text[:_SHOWN]}…”" if len(text) > _SHOWN else f"“{text}”"
