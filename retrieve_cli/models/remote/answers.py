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
    """The body as JSON; neither NaN nor Infinity is a number.

    Raises:
        TransientFailure: it is not JSON, and nothing said how long it should have been.
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


def beginning(said: Json) -> str:
    """The first characters of a value as Python writes it; a text stands as it is.

    `str` would recurse into an answer of 1,000 nested lists until the interpreter gives up, and spell out 128 MB.
    """
    return (said if isinstance(said, str) else _REPR.repr(said))[:MOST]


_REPR = Repr()
_REPR.maxlevel = _REPR.maxlist = _REPR.maxdict = 20
_REPR.maxstring = MOST


class ServerFailed(ModelFailed):
    """A model's server answered with what cannot be believed, or refused the request for what it says."""

    kind = "server_failed"

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        """`status` is that of the answer, where the status is what is wrong."""
        super().__init__(message, hint=hint)
        self.status = status


class ServerUnavailable(Unavailable):
    """A model's server is not there, is not well, or lets nobody in without a key."""

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        """`status` is that of the last answer; 0 where there was none."""
        super().__init__(message, hint=hint)
        self.status = status


class OtherModel(IndexCorrupt, ModelFailed):
    """A server answers as another model than the one that the index was built with."""
