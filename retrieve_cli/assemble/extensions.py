"""Parts that plug-ins add besides retrievers: an encoder, a chunker, a source, a reranker, a provider of web search.

An entry point of the group `retrieve.plugins` names a `Plugin`, or a retriever (`retrieve_cli.retrievers.retriever`).
"""

from __future__ import annotations

from typing import Any

from retrieve_cli.config import plugins
from retrieve_cli.contracts import Plugin
from retrieve_cli.errors import Unavailable, UsageError, quoted


def make(kind: str, name: str, *arguments: Any) -> Any:
    """Return the part that a plug-in makes from the arguments (see `contracts.Plugin`).

    Raises:
        UsageError: no plug-in of that name adds a part of this kind.
        Unavailable: it cannot be loaded.
        ModelFailed: it adds a provider that does not keep the promise of one.
    """
    added = plugins.load(name) if name in plugins.installed() else None
    if not isinstance(added, Plugin) or added.kind != kind:
        raise UsageError(
            f"{quoted(name)} is not a {kind}", hint=f"install the package that adds it, or choose another {kind}"
        )
    if kind == "provider":
        from retrieve_cli.assemble.web_plugins import made_provider

        return made_provider(name, added.make, *arguments)
    return added.make(*arguments)


def names(kind: str) -> list[str]:
    """Return the names of plug-ins that add a part of this kind. Loads every plug-in; one that cannot be loaded is
    skipped."""
    return [name for name in plugins.installed() if _adds(name, kind)]


def _adds(name: str, kind: str) -> bool:
    try:
        added = plugins.load(name)
    except Unavailable:
        return False
    return isinstance(added, Plugin) and added.kind == kind
