"""Engines: the configured ones, which retrievers' indexes live in them, and these indexes, open for queries."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

from retrieve_cli.assemble import extensions, registry
from retrieve_cli.config.index_settings import LOCAL, SERVERS
from retrieve_cli.contracts.engines import Capabilities
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, quoted
from retrieve_cli.storage import engine_record

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Index, Rows, Vectors
    from retrieve_cli.contracts.engines import Collection, Engine, EngineGeneration, Within
    from retrieve_cli.storage.engine_record import Entry
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


def lost(chosen: Engine, entry: Entry, generation: str) -> str:
    """Return which rows of a sent generation an engine has lost, counted now; empty if it has all.

    Raises:
        Unavailable: it cannot be reached.
    """
    try:
        complete = {staged.generation: staged.complete for staged in chosen.generations()}.get(generation)
        if not complete:
            said = "it no longer holds generation {}" if complete is None else "generation {} is not complete"
            return said.format(generation)
        opened = chosen.open(generation)
        for part in entry.parts:
            if (rows := opened.count(part.name)) != part.rows:
                return f"it has {rows} rows of {part.name}, and {part.rows} were sent to it"
    except IndexCorrupt as error:
        return error.message
    return ""


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
        self._opened: dict[str, EngineGeneration] = {}
        self._lock = RLock()

    def index(self, retriever_name: str) -> Index[Any]:
        """Return the index of a retriever; its searches raise IndexCorrupt if the engine does not hold this generation,
        or other contents under its id, and Unavailable if it cannot be reached.

        Raises:
            IndexCorrupt: the generation was not sent to the engine.
        """
        from retrieve_cli.engines.index import EngineIndex, TermEngineIndex

        retriever = registry.retriever(retriever_name)
        name = self.places[retriever_name]
        if (entry := engine_record.read(self._generation.folder).get(name)) is None:
            raise IndexCorrupt(f"generation {self._generation.id} was not sent to {name}", hint=_PUSH)
        if (part := entry.part(retriever.name)) is None:
            raise IndexCorrupt(f"{name} does not hold the {retriever.name} index of {self._generation.id}", hint=_PUSH)
        local = self._local[retriever_name]
        kind = TermEngineIndex if part.dim is None else EngineIndex
        collection = _Collection(lambda: self._open(name).collection(part.name))
        able = self._capabilities(name)
        form = partial(retriever.engine_form, local)
        return kind(local, collection, capabilities=able, form=form, lowest=self._generation.lowest)

    def _capabilities(self, name: str) -> Capabilities:
        """Return the abilities of an engine; the minimum if it cannot be reached now, which its searches will
        report."""
        try:
            return engine(name, self._settings).capabilities
        except Unavailable:
            return Capabilities(most_rows=0)

    def _open(self, name: str) -> EngineGeneration:
        """Open the generation in an engine."""
        with self._lock:
            if name not in self._opened:
                self._opened[name] = engine(name, self._settings).open(self._generation.id)
            return self._opened[name]


class _Collection:
    """A collection that is opened at its first use, so that an engine that cannot be reached fails as a step of a
    query, which the other retrievers then answer."""

    def __init__(self, open_it: Callable[[], Collection]) -> None:
        self._open = cache(open_it)

    def nearest(self, query: Any, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        """Return rows with the highest scores, and these."""
        return self._open().nearest(query, limit, within=within)
