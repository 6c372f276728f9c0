"""What a server wants to know about who asks: read from the environment at each fetch, kept nowhere."""

from __future__ import annotations

import os
from base64 import b64encode
from dataclasses import dataclass

from retrieve_cli.errors import UsageError


@dataclass(frozen=True, slots=True)
class Authorization:
    """The value of a request's Authorization header, and what may never be shown."""

    header: str = ""
    """Empty where the request goes without."""
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Credentials:
    """Names of the environment variables that hold a bearer token, or a user and a password."""

    token_env: str | None = None
    user_env: str | None = None
    password_env: str | None = None

    def __post_init__(self) -> None:
        """Raises: UsageError where the names do not go together."""
        if bool(self.user_env) != bool(self.password_env):
            raise UsageError(
                "a user and a password go together: one of user_env and password_env is missing",
                hint="set both to names of environment variables, or use token_env",
            )
        if self.token_env and self.user_env:
            raise UsageError("token_env and user_env are both set; a request carries one of them", hint="remove one")

    @property
    def names(self) -> str:
        """The variables, for people."""
        return " and ".join(f"${name}" for name in (self.token_env, self.user_env, self.password_env) if name)

    def read(self) -> Authorization:
        """What the variables say now.

        Raises:
            UsageError: a variable that was named is not set, or holds what a header cannot carry.
        """
        if self.token_env:
            return _bearer(self.token_env)
        if self.user_env and self.password_env:
            return _basic(self.user_env, self.password_env)
        return Authorization()


def _bearer(token_env: str) -> Authorization:
    token = _variable(token_env)
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise UsageError(
            f"the environment variable {token_env} holds no token: it has blanks or letters beyond ASCII",
            hint=f"set it again, without quotes or a 'Bearer' in front: export {token_env}=…",
        )
    return Authorization(f"Bearer {token}", (token,))


def _basic(user_env: str, password_env: str) -> Authorization:
    user, password = _variable(user_env), _variable(password_env)
    if ":" in user:
        raise UsageError(f"the user in {user_env} has a colon, which Basic cannot carry", hint="remove it")
    encoded = b64encode(f"{user}:{password}".encode("utf-8", "replace")).decode()
    return Authorization(f"Basic {encoded}", (encoded, password))


def _variable(name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise UsageError(f"the environment variable {name} is not set", hint=f"set it: export {name}=…")
    return value
