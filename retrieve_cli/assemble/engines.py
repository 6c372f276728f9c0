"""Engines: the configured ones, which retrievers' indexes live in them, and these indexes, open for queries."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

from retrieve_cli.assemble import extensions, registry
from retrieve_cli.config.index_settings import LOCAL, SERVERS
from retrieve_cli.contracts import TermWeights, Worded
from retrieve_cli.contracts.terms.words import hashed
from retrieve_cli.errors import IndexCorrupt, Unavailable, quoted

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Index
    from retrieve_cli.contracts.engines import Engine
    from retrieve_cli.storage.generation import Generation

_ENGINES = {name: (f"retrieve_cli.engines.{name}", f"{name.capitalize()}Engine") for name in SERVERS}
"""Modules and classes of the built-in engines."""
_kept: dict[tuple[Any, ...], Engine] = {}
_making = RLock()


def engine(name: str, settings: Settings) -> Engine:
    """Return an engine by its name in the configuration: one for each configuration, whose connections are shared.

    Raises:
        Unavailable: a variable that holds one of its secrets is not set.
        UsageError: there is no engine of that name, and no plug-in adds it.
    """
    settings.expect_trusted("engines", name)
    if name in _ENGINES:
        section = getattr(settings, name)
    else:
        settings.expect_trusted("plugins")
        section = json.dumps(dict(settings.plugins.get(name, {})), sort_keys=True, default=str)
    secrets = _secrets(name, section)
    key = (name, section, tuple(secrets.items()))
    with _making:
        if key not in _kept:
            _kept[key] = _made(name, settings, secrets)
        return _kept[key]


def _made(name: str, settings: Settings, secrets: Mapping[str, str]) -> Engine:
    if name in _ENGINES:
        module, kind = _ENGINES[name]
        made: Engine = getattr(import_module(module), kind)(getattr(settings, name), **secrets)
        return made
    made = extensions.make("engine", name, settings)
    if made.name != name:
        message = f"the plug-in {quoted(name)} adds an engine with another name, {quoted(made.name)}"
        raise Unavailable(message, hint="give its entry point the name of the engine")
    return made


def _secrets(name: str, section: Any) -> dict[str, str]:
    """Return the values of the variables that the keys of an engine name."""
    secrets = {}
    for key in ("password_env", "api_key_env", "user_env"):
        variable = getattr(section, key, None)
        if variable is None:
            continue
        if not os.environ.get(variable):
            raise Unavailable(f"{name}.{key}: {variable} is not set", hint=f"export {variable}=...")
        secrets[key.removesuffix("_env")] = os.environ[variable]
    return secrets


def marker(chosen: Engine, collection: str) -> str | None:
    """Return the generation that a collection holds, empty if it is incomplete; None if it does not exist."""
    try:
        return chosen.search(collection, [], None, 1).marker
    except IndexCorrupt:
        return None


def places(settings: Settings, names: Iterable[str]) -> dict[str, str]:
    """Return by retriever the name of the engine in which its index lives; those in local files are omitted."""
    roles = {name: registry.retriever(name).role for name in names}
    chosen = {name: getattr(settings.engines, role) for name, role in roles.items() if role}
    return {name: place for name, place in chosen.items() if place != LOCAL}


def remote_indexes(
    local: Mapping[str, Index[Any]], generation: Generation, settings: Settings
) -> tuple[dict[str, Callable[[], Index[Any]]], Callable[[], list[str]]]:
    """Return functions that open the indexes of a generation that live in engines, by retriever, and one that returns
    a sentence on each engine whose rows were of another generation at the last search.

    Opening one raises IndexCorrupt if it was not sent. The engines are asked by searches, and for contents, unless
    these come from local files.
    """
    from retrieve_cli.engines.index import EngineIndex, EngineRows, HeldCollection

    placed = places(settings, generation.manifest.recipe.retrievers)
    held = {name: HeldCollection(name, partial(engine, name, settings), generation) for name in placed.values()}
    if held and settings.engines.texts != LOCAL:
        generation.read_from(EngineRows(list(held.values())))

    def opened(name: str) -> Any:
        held[placed[name]].expect(name)
        retriever = registry.retriever(name)
        form = partial(words, name) if retriever.role == "lexical" else lambda query: query
        own = partial(local.__getitem__, name)
        return EngineIndex(name, held[placed[name]], form, every_row=retriever.similarity, local=own)

    def words(name: str, query: str) -> Any:
        """Return a query as the engine of a retriever of words takes it."""
        beside = [word for word, _ in query.beside] if isinstance(query, Worded) else []
        if engine(placed[name], settings).words == "text":
            return " ".join([query, *beside])
        return _hashed(local[name].weights_of(query))  # type: ignore[attr-defined]

    def notices() -> list[str]:
        own = generation.id
        differing = [one for one in held.values() if one.marker not in ("", own)]
        return [f"{one.name} holds the rows of generation {one.marker}; this index is {own}" for one in differing]

    return {name: partial(opened, name) for name in placed}, notices


def _hashed(weights: Mapping[str, float]) -> TermWeights:
    import numpy as np

    numbered = sorted((hashed(term), weight) for term, weight in weights.items())
    terms = np.array([term for term, _ in numbered], np.int32)
    return TermWeights(terms, np.array([weight for _, weight in numbered], np.float32))
