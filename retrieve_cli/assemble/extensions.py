"""Parts that plug-ins add in addition to retrievers: an encoder, a chunker, a source, a reranker, a provider of web
search.

An entry point of the group `retrieve.plugins` names a `Plugin`, or a retriever
(`retrieve_cli.retrieval.retrievers.retriever`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

from retrieve_cli.config import plugins
from retrieve_cli.contracts import Plugin
from retrieve_cli.contracts.websearch import Need, WebKind
from retrieve_cli.errors import ModelFailed, RetrieveError, Unavailable, UsageError, quoted

if TYPE_CHECKING:
    from retrieve_cli.contracts.websearch import Provider


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
        return made_provider(name, added.make, *arguments)
    return added.make(*arguments)


def names(kind: str) -> list[str]:
    """Return the names of plug-ins that add a part of this kind. Loads every plug-in; one that cannot be loaded is
    skipped."""
    found = []
    for name in plugins.installed():
        with suppress(Unavailable):
            added = plugins.load(name)
            if isinstance(added, Plugin) and added.kind == kind:
                found.append(name)
    return found


def made_provider(name: str, make: Callable[..., Any], *arguments: Any) -> Provider:
    """Return the provider that a plug-in makes from the arguments under this name.

    Raises:
        ModelFailed: it cannot be made, or does not keep the promise of a provider; names the plug-in.
    """
    try:
        made: Provider = make(*arguments)
        faults = list(_faults(made, name))
    except RetrieveError:
        raise
    except Exception as error:  # noqa: BLE001  third-party code may raise anything
        faults = [f"{type(error).__name__}: {error}"]
    if faults:
        hint = f"fix it, or remove {name} from web.providers"
        raise ModelFailed(f"the plug-in {quoted(name)} cannot be used as a provider: {faults[0]}", hint=hint)
    return made


def _faults(made: Provider, name: str) -> Iterator[str]:
    """Yield what a provider lacks of its promise (`contracts/websearch.py`)."""
    if made.name != name:
        yield f"its name is {quoted(made.name)}"
    if made.kind not in get_args(WebKind):
        yield f"its kind {quoted(made.kind)} is not one of {', '.join(get_args(WebKind))}"
    if not isinstance(made.title, str):
        yield "`title` is not a text"
    if not isinstance(made.needs, tuple) or not all(isinstance(need, Need) for need in made.needs):
        yield "`needs` is not a tuple of Need"
    if not isinstance(made.pause_s, int | float) or not 0 <= made.pause_s < inf:
        yield "`pause_s` is not a number of seconds"
    if not made.servers or not all(_is_origin(server) for server in made.servers):
        yield "`servers` are not origins such as https://api.example.org"
    if not callable(made.search):
        yield "it has no method `search`"


def _is_origin(server: str) -> bool:
    parts = urlsplit(server)
    return parts.scheme == "https" and bool(parts.hostname) and server == f"https://{parts.netloc}"
