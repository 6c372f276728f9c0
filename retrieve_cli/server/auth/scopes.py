"""Callers, and scopes: what a credential permits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.untrusted.nearest import nearest

SCOPES: Mapping[str, str] = {
    "search": "search, and read records",
    "documents:write": "add and delete documents",
    "index:admin": "sync, roll back and verify the index",
    "metrics": "read the metrics of the server",
    "tools:call": "call the tools of other servers that `mcp.allow` names",
    "web": "search the web and literature, which sends queries to others",
}
WHOLE_INDEX = ("index:admin", "metrics")
"""Scopes that show figures of the whole index, other tenants included."""
_MOST_READ = 100
"""Scopes of one token that are read."""


class Caller(NamedTuple):
    """The sender of a request, as its credential names it."""

    tenant: str | None
    """The only tenant whose records exist for the caller; None: all."""
    scopes: frozenset[str]
    name: str
    account: str = ""
    """Name of the credential that no other has; empty for the server's own key and without one."""

    def may(self, scope: str) -> bool:
        """Return True if the credential permits this."""
        return scope in self.scopes

    @property
    def owner(self) -> str:
        """Name under which data of the caller is stored: the tenant, else the credential."""
        return f"tenant {self.tenant}" if self.tenant is not None else self.account and f"key {self.account}"


ANYONE = Caller(None, frozenset(SCOPES), "anyone")
"""Caller of a server that needs no credential."""


def read_scopes(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes that texts list with commas, in the order of `SCOPES`.

    Raises:
        UsageError: a scope is unknown, which names the nearest, or there is no scope.
    """
    names = {name for text in texts for name in text.replace(",", " ").split()}
    for name in sorted(names - SCOPES.keys()):
        near = nearest(name, SCOPES)
        hint = f"did you mean {near}?" if near else f"scopes: {', '.join(SCOPES)}"
        raise UsageError(f"there is no scope {quoted(name)}", hint=hint)
    if not names:
        raise UsageError("the key has no scope", hint=f"scopes: {', '.join(SCOPES)}")
    return tuple(name for name in SCOPES if name in names)


def claimed_scopes(claim: object) -> frozenset[str]:
    """Return the known scopes of a token's claim: a list of strings, or one string with blanks (RFC 8693, 4.2)."""
    several = claim.split(" ", _MOST_READ) if isinstance(claim, str) else claim
    if not isinstance(several, list):
        return frozenset()
    return frozenset(name for name in several[:_MOST_READ] if isinstance(name, str) and name in SCOPES)
