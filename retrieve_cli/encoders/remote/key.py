"""The key of an API: read from the environment for every request, kept nowhere, shown to nobody."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from urllib.parse import quote

from retrieve_cli.encoders.remote.failures import ServerUnavailable
from retrieve_cli.errors import UsageError

_HIDDEN = "***"


class Secret:
    """A text that does not show when it is printed, logged, or caught among the locals of a traceback."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return _HIDDEN

    @property
    def bearer(self) -> str:
        """The value of an Authorization header (RFC 6750)."""
        return f"Bearer {self._text}"

    def out_of(self, text: str) -> str:
        """The text without the secret, as it is or as JSON and addresses would spell it."""
        escaped = json.dumps(self._text)[1:-1]
        for spelling in (self._text, escaped, escaped.replace("/", "\\/"), quote(self._text, safe="")):
            text = text.replace(spelling, _HIDDEN)
        return text


def read_key(variable: str | None) -> Secret | None:
    """The key that an environment variable holds; None where no variable is named.

    Raises:
        ServerUnavailable: the variable is not set.
        UsageError: it holds what a header cannot carry.
    """
    if not variable:
        return None
    value = os.environ.get(variable, "").strip()
    if not value:
        raise ServerUnavailable(
            f"the environment variable {variable}, which holds the server's key, is not set",
            hint=f"set it: export {variable}=…",
        )
    if not (value.isascii() and value.isprintable() and " " not in value):
        raise UsageError(
            f"the environment variable {variable} holds no key: it has blanks or letters beyond ASCII",
            hint=f"set it again, without quotes or a 'Bearer' in front: export {variable}=…",
        )
    return Secret(value)


def hidden(text: str, secrets: Iterable[Secret]) -> str:
    """The text without any of the secrets."""
    for secret in secrets:
        text = secret.out_of(text)
    return text
