"""Answers of a server: their JSON, the complaint in an error, and the beginning of either for people."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from reprlib import Repr

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, ModelFailed, Unavailable
from retrieve_cli.http.failures import TransientFailure
from retrieve_cli.untrusted.foreign_json import foreign_json

MOST = 4096
"""Characters that are looked at."""


def parsed(body: bytes, headers: Mapping[str, str]) -> Json:
    """Return the body as JSON; neither NaN nor Infinity is a number.

    Raises:
        TransientFailure: it is not JSON, and no header gave its length.
        ValueError: it is not JSON.
    """
    if "Content-Length" in headers or "Transfer-Encoding" in headers:
        return foreign_json(body)
    with suppress(ValueError):
        return foreign_json(body)
    raise TransientFailure("the answer was cut short")


def complaint(body: bytes) -> str:
    """Return the message in the body of an error: from the usual places, or else the whole body."""
    with suppress(ValueError):
        said = foreign_json(body)
        while isinstance(said, dict):
            said = next((said[key] for key in ("error", "message", "detail") if said.get(key)), None)
        if said and isinstance(said, str):
            return said
    return body.decode("utf-8", "replace")


def beginning(part: Json) -> str:
    """Return the first characters of a value as Python writes it, or of a text unchanged.

    `str` would recurse into an answer of 1,000 nested lists until the interpreter gives up, and spell out 128 MB.
    """
    return (part if isinstance(part, str) else _REPR.repr(part))[:MOST]


_REPR = Repr()
_REPR.maxlevel = _REPR.maxlist = _REPR.maxdict = 20
_REPR.maxstring = MOST


class ServerFailed(ModelFailed):
    """A model's server gave an invalid answer, or rejected the request for its content."""

    kind = "server_failed"

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        """`status` is the answer's HTTP status if that is the failure, else 0."""
        super().__init__(message, hint=hint)
        self.status = status


class ServerUnavailable(Unavailable):
    """A model's server cannot be reached, reports an internal error, or requires a key."""

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        """`status` is the HTTP status of the last answer; 0 without an answer."""
        super().__init__(message, hint=hint)
        self.status = status


class OtherModel(IndexCorrupt, ModelFailed):
    """A server answers as another model than the one that the index was built with."""
