"""Callers of the server: who asks, and what they may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.serving.admission import admit
from retrieve_cli.web.secrets import Secret

if TYPE_CHECKING:
    from starlette.requests import Request

SCOPES = ("search", "documents:write", "index:admin", "metrics", "judge")
"""Scopes of a credential."""


class Caller(NamedTuple):
    """Identity of a client, with its rights."""

    tenant: str | None = None
    """The only tenant whose records exist for the caller; None: all records."""
    scopes: frozenset[str] = frozenset(SCOPES)
    name: str = "anonymous"


class Callers:
    """Credentials of a server."""

    def __init__(self, key: Secret | None = None) -> None:
        """`key`: the only key, with all scopes; None: no key is required."""
        self._key = key

    @property
    def required(self) -> bool:
        """True if a request without a credential is rejected."""
        return self._key is not None

    def of(self, request: Request, scope: str) -> Caller:
        """Return the caller of a request that needs a scope.

        Raises:
            Rejected: the credential is missing or wrong (401), or has not the scope (403).
        """
        del scope
        admit(request, self._key)
        return Caller()
