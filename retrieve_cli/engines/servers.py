"""Addresses, versions and unreadable answers of servers."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import urlsplit

from retrieve_cli.errors import Unavailable, UsageError

_Kind = TypeVar("_Kind", bound=type)
_MISREAD = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of the reading of an answer that has another form than the server's."""


def address(url: str, key: str, port: int) -> str:
    """Return the address of a server, with its port.

    Raises:
        UsageError: the URL is not one of a server, or has a password in it; names its key in the configuration.
    """
    try:
        parts = urlsplit(url)
        host, given_port = parts.hostname, parts.port
    except ValueError:
        host, given_port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise UsageError(f"{key} is not the address of a server", hint=f"write it as http://HOST:{port}")
    if parts.username is not None or parts.password is not None:
        hint = "let the configuration name environment variables with them (docs/engines.md)"
        raise UsageError(f"{key} has a user name or a password in it", hint=hint)
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{given_port or port}"


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; (0, 0) if it has others."""
    numbers = version.split(".")[:2]
    return tuple(map(int, numbers)) if all(number.isdecimal() for number in numbers) else (0, 0)


def reading(product: str) -> Callable[[_Kind], _Kind]:
    """Let public methods of a class raise Unavailable for an answer of a server that they cannot read."""

    def guarded(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return method(self, *arguments, **options)
            except _MISREAD as error:
                message = f"{product} at {self.address} answers as no {product} does: {type(error).__name__}"
                raise Unavailable(message, hint=f"check that this is the address of {product}") from error

        return call

    def decorate(kind: _Kind) -> _Kind:
        for name, method in list(vars(kind).items()):
            if callable(method) and not name.startswith("_"):
                setattr(kind, name, guarded(method))
        return kind

    return decorate
