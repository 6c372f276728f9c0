"""Credentials: read from the environment for every request, never stored or displayed."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable
from urllib.parse import quote

from retrieve_cli.errors import Unavailable, UsageError, printable
from retrieve_cli.frozen import Frozen

_HIDDEN = "***"
_SHORTEST_PART = 4
"""Minimum length of a secret's beginning that is hidden if a text is truncated inside the secret."""


class Secret:
    """A text that stays hidden when it is printed, logged, or part of a traceback."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return _HIDDEN

    def reveal(self) -> str:
        """Return the text itself, for the only place that sends it."""
        return self._text

    @property
    def bearer(self) -> str:
        """Value of an Authorization header (RFC 6750)."""
        return f"Bearer {self._text}"

    @property
    def spellings(self) -> set[str]:
        """The text in plain form, and as JSON and addresses encode it."""
        escaped = json.dumps(self._text)[1:-1]
        plain = (self._text, escaped, escaped.replace("/", "\\/"))
        return {*plain, quote(self._text, safe="", errors="replace"), quote(self._text, errors="replace")} - {""}


def hide(text: str, secrets: Iterable[Secret]) -> str:
    """Return the text without any of the secrets."""
    spellings = _longest_first(secrets)
    return re.sub("|".join(map(re.escape, spellings)), _HIDDEN, text) if spellings else text


def quoted(answer: str, secrets: Iterable[Secret], *, most: int) -> str:
    """Return the first `most` characters of a server's answer, quoted, on one line and without the secrets.

    The beginning of a secret at the end of a truncated text is hidden as well.
    """
    secrets = list(secrets)
    text = hide(answer, secrets)
    for spelling in _longest_first(secrets):
        sizes = range(len(spelling) - 1, _SHORTEST_PART - 1, -1)
        cut = next((size for size in sizes if text.endswith(spelling[:size])), 0)
        text = text[:-cut] + _HIDDEN if cut else text
    text = printable(" ".join(text.split()))
    return f"“{text[:most]}…”" if len(text) > most else f"“{text}”"


def _longest_first(secrets: Iterable[Secret]) -> list[str]:
    return sorted({spelling for secret in secrets for spelling in secret.spellings}, key=len, reverse=True)


class Authorization(Frozen):
    """Value of a request's Authorization header, with the texts that must never be displayed."""

    header: Secret | None = None
    secrets: tuple[Secret, ...] = ()


class Credentials(Frozen):
    """Names of the environment variables with a bearer token, or with a user and a password."""

    token_env: str | None = None
    user_env: str | None = None
    password_env: str | None = None

    def __post_init__(self) -> None:
        """Raises: UsageError if the combination of names is invalid."""
        if bool(self.user_env) != bool(self.password_env):
            raise UsageError(
                "a user and a password belong together: one of user_env and password_env is missing",
                hint="set both to names of environment variables, or use token_env",
            )
        if self.token_env and self.user_env:
            raise UsageError("token_env and user_env are both set; only one of them can be used", hint="remove one")

    @property
    def names(self) -> str:
        """Names of the variables, for messages."""
        return " and ".join(f"${name}" for name in (self.token_env, self.user_env, self.password_env) if name)

    def read(self) -> Authorization:
        """Return the current values of the variables.

        Raises:
            UsageError: a named variable is not set, or its value is not valid in a header.
        """
        if self.token_env:
            token = _one_word(self.token_env, _variable(self.token_env), "token")
            return Authorization(Secret(token.bearer), (token,))
        if self.user_env and self.password_env:
            user, password = _variable(self.user_env), _variable(self.password_env)
            if ":" in user:
                message = f"the user in {self.user_env} contains a colon, which Basic does not allow"
                raise UsageError(message, hint="remove it")
            encoded = b64encode(f"{user}:{password}".encode("utf-8", "replace")).decode()  # RFC 7617
            return Authorization(Secret(f"Basic {encoded}"), (Secret(encoded), Secret(password)))
        return Authorization()


def read_key(variable: str | None) -> Secret | None:
    """Return the key in an environment variable; None if no variable is named.

    Raises:
        Unavailable: the variable is not set.
        UsageError: its value is not valid in a header.
    """
    if not variable:
        return None
    value = os.environ.get(variable, "").strip()
    if not value:
        message = f"the environment variable {variable} for the server's key is not set"
        raise Unavailable(message, hint=f"set it: export {variable}=…")
    return _one_word(variable, value, "key")


def _one_word(variable: str, value: str, called: str) -> Secret:
    if not (value.isascii() and value.isprintable() and " " not in value):
        raise UsageError(
            f"the environment variable {variable} is not a valid {called}: it has blanks or characters beyond ASCII",
            hint=f"set it again, without quotes or a leading 'Bearer': export {variable}=…",
        )
    return Secret(value)


def _variable(name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise UsageError(f"the environment variable {name} is not set", hint=f"set it: export {name}=…")
    return value
