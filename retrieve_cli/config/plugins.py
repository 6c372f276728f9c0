"""Names of retrievers and plug-ins, without importing them: a line for each built-in retriever, and packages that
extend the program through entry points of the group `retrieve.plugins`. The name of an entry point is the name of the
part that it adds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from retrieve_cli.errors import Unavailable, quoted

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "retrieve.plugins"
RETRIEVERS = (
    "retrieve_cli.retrieval.retrievers.bm25",
    "retrieve_cli.retrieval.retrievers.dense",
    "retrieve_cli.retrieval.retrievers.splade",
)
"""Modules of the built-in retrievers, in the order in which they run; each is named after its module."""
LLM = "llm"
"""The retriever that has no index: a language model chooses among the records themselves."""
HYBRID = "hybrid"
"""The mode in which all retrievers of the index answer; every other mode is the name of one."""


def retriever_names() -> tuple[str, ...]:
    """Return the names of the built-in retrievers."""
    return tuple(module.rpartition(".")[2] for module in RETRIEVERS)


def answering_names() -> tuple[str, ...]:
    """Return the names of all retrievers that a query can ask without a plug-in."""
    return (*retriever_names(), LLM)


def modes() -> tuple[str, ...]:
    """Return the values of `search.mode` that need no plug-in."""
    return (HYBRID, *answering_names())


@cache
def installed() -> dict[str, EntryPoint]:
    """Return the entry points by name, without loading any. Reading them takes some 20 ms: call only when needed."""
    from importlib.metadata import entry_points

    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


@cache
def load(name: str) -> Any:
    """Return the part that a plug-in adds.

    Raises:
        Unavailable: it cannot be loaded; names the plug-in and its package.
    """
    point = installed()[name]
    package = point.dist.name if point.dist else point.module
    try:
        return point.load()
    except Exception as error:  # third-party code may raise anything
        message = (
            f"the plug-in {quoted(name)} of {package} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
        )
        raise Unavailable(message, hint=f"fix it, or remove it: pip uninstall {package}") from error
