"""Providers of web search that plug-ins add, held to the promise of a provider before the first request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

from retrieve_cli.contracts.websearch import Need, Rate, WebKind
from retrieve_cli.errors import ModelFailed, RetrieveError, quoted

if TYPE_CHECKING:
    from retrieve_cli.contracts.websearch import Provider


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
    if not isinstance(made.title, str) or not isinstance(made.terms, str):
        yield "`title` and `terms` are not texts"
    if not isinstance(made.needs, tuple) or not all(isinstance(need, Need) for need in made.needs):
        yield "`needs` is not a tuple of Need"
    if not isinstance(made.rate, Rate) or made.rate.requests < 1 or not made.rate.seconds > 0:
        yield "`rate` is not a Rate of at least one request"
    if not made.servers or not all(_is_origin(server) for server in made.servers):
        yield "`servers` are not origins such as https://api.example.org"
    if not callable(made.search):
        yield "it has no method `search`"


def _is_origin(server: str) -> bool:
    parts = urlsplit(server)
    return parts.scheme == "https" and bool(parts.hostname) and server == f"https://{parts.netloc}"
