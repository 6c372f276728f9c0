"""Servers with an HTTP interface: their addresses, versions, and failures in the program's words."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from retrieve_cli.errors import IndexCorrupt, RetrieveError, Unavailable, UsageError, printable, shortened
from retrieve_cli.http.secrets import Secret, hide

_Kind = TypeVar("_Kind", bound=type)
_MISREAD = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of the reading of an answer that has another form than the server's."""
_HINTS = {
    413: "raise the limit of the server for the size of a request",
    429: "try again when its load is lower, or raise the limits of the server",
}


class HttpServer:
    """A server at an address, with a secret that no message repeats."""

    name: ClassVar[str]
    product: ClassVar[str]
    secret_key: ClassVar[str]  # key of the configuration that names the variable of the secret

    def __init__(self, url: str, port: int, secret: str | None) -> None:
        """Raises: UsageError: the URL is not the address of a server, or has a password in it."""
        self.address = _address(url, f"{self.name}.url", port)
        self._secret = Secret(secret or "")

    def _late(self, request: str, seconds: float) -> Unavailable:
        message = f"{self.product} at {self.address} does not answer {request} within {seconds:g} s"
        return Unavailable(message, hint=f"raise {self.name}.timeout_s, or check its load")

    def _unreachable(self, reason: str) -> Unavailable:
        message = f"{self.product} at {self.address} cannot be reached: {self._safe(reason)}"
        return Unavailable(message, hint=f"start the server, or edit {self.name}.url")

    def _rejection(self, status: int, request: str, reason: str, collection: str = "") -> RetrieveError:
        """Return the error for an answer with a status of failure to a request, which may name a collection."""
        if status == 404 and collection:
            message = f"{self.product} at {self.address} does not have {collection}: {self._safe(reason)}"
            return IndexCorrupt(message, hint="run: retrieve engines push")
        message = f"{self.product} at {self.address} answers {status} to {request}: {self._safe(reason)}"
        if status in (401, 403):
            hint = f"set the variable that {self.name}.{self.secret_key} names: it needs the right to write"
            return Unavailable(message, hint=hint)
        return Unavailable(message, hint=_HINTS.get(status, "see the log of the server, or run: retrieve doctor"))

    def _safe(self, text: str) -> str:
        return shortened(printable(hide(text, [self._secret])), 300)


def _address(url: str, key: str, port: int) -> str:
    """Return the address of a server, with its port; errors name its key in the configuration."""
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


def reading(kind: _Kind) -> _Kind:
    """Let public methods of a class raise Unavailable for an answer of a server that they cannot read."""

    def guarded(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: HttpServer, *arguments: Any, **options: Any) -> Any:
            try:
                return method(self, *arguments, **options)
            except _MISREAD as error:
                message = f"{self.product} at {self.address} answers as no {self.product} does: {type(error).__name__}"
                raise Unavailable(message, hint=f"check that this is the address of {self.product}") from error

        return call

    for name, method in list(vars(kind).items()):
        if callable(method) and not name.startswith("_"):
            setattr(kind, name, guarded(method))
    return kind
