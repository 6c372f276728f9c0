"""HTTP sessions, each used by one thread at a time and kept for the next request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from retrieve_cli.errors import Unavailable

if TYPE_CHECKING:
    from requests import Session

INSTALL = "pip install 'retrieve-cli[remote]'"

_HEADERS = {
    "User-Agent": "retrieve-cli",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
}


class Sessions:
    """As many sessions as there were requests at once."""

    def __init__(self) -> None:
        self._idle: list[Session] = []

    @contextmanager
    def one(self) -> Iterator[Session]:
        """A session; its connection is kept where nothing went wrong.

        Raises:
            Unavailable: requests is not installed.
        """
        try:
            session = self._idle.pop()
        except IndexError:
            session = _new()
        try:
            yield session
        except BaseException:
            session.close()
            raise
        self._idle.append(session)

    def close(self) -> None:
        """Closes those that wait; a request after that opens new ones."""
        while self._idle:
            self._idle.pop().close()


def _new() -> Session:
    try:
        import requests
    except ImportError as error:
        raise Unavailable("a remote model needs the package requests, which is not installed", hint=INSTALL) from error

    class Session(requests.Session):
        """Leaves redirects alone: even where it is not to follow one, requests reads its whole body into memory."""

        def resolve_redirects(self, *_: Any, **__: Any) -> Iterator[Any]:
            return iter(())

    session = Session()
    session.headers.update(_HEADERS)
    return session
