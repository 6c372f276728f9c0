"""Answers of engines that are JSON of another shape than the server's: an error that names the server."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from retrieve_cli.errors import Unavailable

_Kind = TypeVar("_Kind", bound=type)
_MISREAD = (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError, RecursionError)
"""Errors of the reading of such an answer."""


def reading(product: str) -> Callable[[_Kind], _Kind]:
    """Let public methods of a class raise Unavailable for an answer of its `_server` that they cannot read."""

    def guarded(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return method(self, *arguments, **options)
            except _MISREAD as error:
                message = f"{product} at {self._server.address} answers as no {product} does: {type(error).__name__}"
                raise Unavailable(message, hint=f"check that this is the address of {product}, and its log") from error

        return call

    def decorate(kind: _Kind) -> _Kind:
        for name, method in list(vars(kind).items()):
            if callable(method) and not name.startswith("_"):
                setattr(kind, name, guarded(method))
        return kind

    return decorate
