"""Engines: the configured ones, which retrievers' indexes live in them, and these indexes, open for queries."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

from retrieve_cli.assemble import extensions, registry
from retrieve_cli.config.index_settings import LOCAL, SERVERS
from retrieve_cli.contracts import TermWeights, Worded
from retrieve_cli.contracts.terms.words import hashed
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, quoted
from retrieve_cli.storage import engine_record

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Index
    from retrieve_cli.contracts.engines import Engine
    from retrieve_cli.engines.index import HeldCollection
    from retrieve_cli.storage.generation import Generation

_ENGINES = {name: (f"retrieve_cli.engines.{name}", f"{name.capitalize()}Engine") for name in SERVERS}
"""Modules and classes of the built-in engines."""
_SECRETS = {"password_env": "password", "api_key_env": "api_key", "token_env": "token", "user_env": "user"}
_PUSH = "send the index: retrieve engines push"
_kept: dict[tuple[Any, ...], Engine] = {}
_making = RLock()


def _made(name: str, section: Any, secrets: tuple[tuple[str, str], ...]) -> Engine:
    """Make an engine once for each configuration: its connections are shared."""
    with _making:
        if (name, section, secrets) not in _kept:
            module, kind = _ENGINES[name]
            _kept[name, section, secrets] = getattr(import_module(module), kind)(section, **dict(secrets))
        return _kept[name, section, secrets]


def _added(name: str, settings: Settings) -> Engine:
    """Return the engine of a plug-in, made once for each configuration of it."""
    settings.expect_trusted("plugins")
    configured = json.dumps(dict(settings.plugins.get(name, {})), sort_keys=True, default=str)
    with _making:
        if (name, configured) not in _kept:
            made: Engine = extensions.make("engine", name, settings)
            if made.name != name:
                message = f"the plug-in {quoted(name)} adds an engine with another name, {quoted(made.name)}"
                raise Unavailable(message, hint="give its entry point the name of the engine")
            _kept[name, configured] = made
        return _kept[name, configured]


def expect_some(settings: Settings) -> None:
    """Raises: UsageError: every index is in local files, or the user did not agree to an engine."""
    settings.expect_trusted("engines")
    if not settings.engines.in_use:
        hint = "name one, for example: RETRIEVE_ENGINES__DENSE=pgvector, or in config.yaml (docs/engines.md)"
        raise UsageError("no engine is configured: every index is in local files", hint=hint)


def engine(name: str, settings: Settings) -> Engine:
    """Return an engine by its name in the configuration.

    Raises:
        Unavailable: a variable that holds one of its secrets is not set.
        UsageError: there is no engine of that name, and no plug-in adds it.
    """
    settings.expect_trusted("engines", name)
    if name not in _ENGINES:
        return _added(name, settings)
    section = getattr(settings, name)
    secrets = []
    for key, parameter in _SECRETS.items():
        if (variable := getattr(section, key, None)) is not None:
            if not (value := os.environ.get(variable)):
                raise Unavailable(f"{name}.{key}: {variable} is not set", hint=f"export {variable}=...")
            secrets.append((parameter, value))
    return _made(name, section, tuple(secrets))


def places(settings: Settings, names: Iterable[str]) -> dict[str, str]:
    """Return by retriever the name of the engine in which its index lives; those in local files are omitted."""
    roles = {name: registry.retriever(name).role for name in names}
    chosen = {name: getattr(settings.engines, role) for name, role in roles.items() if role}
    return {name: place for name, place in chosen.items() if place != LOCAL}


class RemoteIndexes:
    """Indexes of a generation that live in engines. Threads may share one; an engine is asked at the first use."""

    def __init__(self, local: Mapping[str, Index[Any]], generation: Generation, settings: Settings) -> None:
        self._local = local
        self._generation = generation
        self._settings = settings
        self.places: Mapping[str, str] = places(settings, generation.manifest.recipe.retrievers)
        """Names of engines by retriever."""
        self._held: dict[str, HeldCollection] = {}
        self._lock = RLock()

    def index(self, retriever_name: str) -> Any:
        """Return the index of a retriever; its searches raise IndexCorrupt if the engine does not hold it, and
        Unavailable if it cannot be reached.

        Raises:
            IndexCorrupt: the generation was not sent to the engine.
        """
        from retrieve_cli.engines.index import EngineIndex

        name = self.places[retriever_name]
        held = self.collection(name, retriever_name)
        retriever = registry.retriever(retriever_name)
        form = partial(self._words, retriever_name) if retriever.role == "lexical" else _same
        local = partial(self._local.__getitem__, retriever_name)
        return EngineIndex(retriever_name, held, form, lists_all=retriever.similarity, local=local)

    def collection(self, name: str, retriever_name: str = "") -> HeldCollection:
        """Return the collection in an engine. Raises: IndexCorrupt: the generation was not sent to it."""
        from retrieve_cli.engines.index import HeldCollection, RowIds

        generation = self._generation
        with self._lock:
            if name not in self._held:
                entry = engine_record.read(generation.folder).get(name)
                if entry is None or (retriever_name and retriever_name not in entry.retrievers):
                    what = f"its {retriever_name} index " if retriever_name else ""
                    raise IndexCorrupt(f"{what}of generation {generation.id} was not sent to {name}", hint=_PUSH)
                ids = RowIds(generation.chunk_id, generation.record_id, generation.chunk_row, generation.starts)
                make = partial(engine, name, self._settings)
                folder = generation.folder
                self._held[name] = HeldCollection(name, make, ids, lambda: engine_record.read(folder)[name].collection)
            return self._held[name]

    def show_rows(self) -> None:
        """Let contents be read from the engines, unless they are to come from local files."""
        if self._settings.engines.texts == LOCAL or not self.places:
            return
        from retrieve_cli.engines.index import EngineRows

        held = []
        for name in dict.fromkeys(self.places.values()):
            with suppress(IndexCorrupt):  # which the searches report
                held.append(self.collection(name))
        if held:
            self._generation.read_from(EngineRows(held))

    def notices(self) -> list[str]:
        """Return a sentence on each engine whose rows were of another generation at the last search."""
        own = self._generation.id
        differing = [held for held in self._held.values() if held.marker not in ("", own)]
        return [f"{one.name} holds the rows of generation {one.marker}; this index is {own}" for one in differing]

    def _words(self, retriever_name: str, query: str) -> Any:
        """Return a query as the engine of a retriever of words takes it."""
        beside = tuple(word for word, _ in query.beside) if isinstance(query, Worded) else ()
        if engine(self.places[retriever_name], self._settings).words == "text":
            return " ".join([query, *beside])
        weights = self._local[retriever_name].weights_of(query)  # type: ignore[attr-defined]
        return _hashed(weights)


def _same(query: Any) -> Any:
    return query


def _hashed(weights: Mapping[str, float]) -> TermWeights:
    import numpy as np

    numbered = sorted((hashed(term), weight) for term, weight in weights.items())
    terms = np.array([term for term, _ in numbered], np.int32)
    return TermWeights(terms, np.array([weight for _, weight in numbered], np.float32))
