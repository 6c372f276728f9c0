"""Engines: the configured ones, which retrievers' indexes live in them, and these indexes, open for queries."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from retrieve_cli.assemble import extensions, registry
from retrieve_cli.config.index_settings import LOCAL, SERVERS
from retrieve_cli.config.query_settings import TOKEN_BACKENDS
from retrieve_cli.contracts.engines import Capabilities
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, quoted
from retrieve_cli.storage import engine_record, pickles
from retrieve_cli.storage.engine_record import SIGNED, STATISTICS
from retrieve_cli.storage.generation import TOKENS
from retrieve_cli.storage.remote_file import ATTACHED
from retrieve_cli.untrusted.files import CONFIG, read_text

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Index, Json
    from retrieve_cli.contracts.engines import Engine, EngineGeneration, Part
    from retrieve_cli.storage.engine_record import Entry
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.manifest import Manifest
    from retrieve_cli.storage.remote_file import Blocks

_ENGINES = {name: (f"retrieve_cli.engines.{name}.engine", f"{name.capitalize()}Engine") for name in SERVERS}
"""Modules and classes of the built-in engines."""
_SECRETS = {"password_env": "password", "api_key_env": "api_key", "token_env": "token", "user_env": "user"}
_PUSH = "send the index: retrieve engines push"
_UNREAD = (
    "set rerank.backend: none; or engines.tokens: payload where the index is built, and send it: retrieve engines push"
)


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
    """Return which rows or files of a sent generation an engine has lost, counted now; empty if it has all.

    Raises:
        Unavailable: it cannot be reached.
    """
    try:
        complete = {staged.generation: staged.complete for staged in chosen.generations()}.get(generation)
        if not complete:
            said = "it no longer holds generation {}" if complete is None else "generation {} is not complete"
            return said.format(generation)
        with closing(chosen.open(generation)) as opened:
            if (opened.census.sample, dict(opened.census.rows)) != (entry.census.sample, dict(entry.census.rows)):
                return f"it holds other rows under {generation} than were sent to it"
            for part in entry.parts:
                if (rows := opened.count(part.name)) != part.rows:
                    return f"it has {rows} rows of {part.name}, and {part.rows} were sent to it"
            for file in entry.files:
                opened.blocks(file, [0])
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


def keeper(settings: Settings) -> str | None:
    """Return the engine that keeps files of a generation; None if they are only local.

    Raises:
        UsageError: files should live in an engine, and no index does.
    """
    chosen = settings.engines
    if chosen.store == LOCAL and chosen.tokens == LOCAL:
        return None
    if not (names := chosen.in_use):
        key = "engines.store" if chosen.store != LOCAL else "engines.tokens"
        raise UsageError(f"{key} needs an engine, and every index is local", hint="name one, such as engines.lexical")
    return names[0]


def kept_files(manifest: Manifest, settings: Settings) -> list[str]:
    """Return the files of a generation that the keeper keeps: all but the artifacts whose rows are in an engine as they
    are, and token vectors only if the configured reranker reads them, or they are configured to travel."""
    files, chosen = set(manifest.files), settings.engines
    stored = chosen.store != LOCAL
    placed = places(settings, manifest.recipe.retrievers)
    held = {file for name in placed for file in registry.retriever(name).replaced}
    tokens = chosen.tokens != LOCAL or (stored and settings.rerank.backend in TOKEN_BACKENDS)
    return sorted((files - held - {TOKENS} if stored else set()) | (files & {TOKENS} if tokens else set()))


def expect_readable(manifest: Manifest, entries: Mapping[str, Entry], settings: Settings) -> None:
    """Raises: UsageError: queries with these settings need files that were not sent."""
    retrievers = [registry.retriever(name) for name in manifest.recipe.retrievers]
    placed = places(settings, manifest.recipe.retrievers)
    kept = {file for entry in entries.values() for file in entry.files}
    missing = [file for file in kept_files(manifest, settings) if file not in kept]
    for retriever in retrievers:
        place = placed.get(retriever.name, LOCAL)
        holders = [name for name, entry in entries.items() if entry.part(retriever.name) is not None]
        if place not in holders if place != LOCAL else retriever.file in missing:
            key = f"engines.{retriever.role}"
            message = f"the {retriever.name} index of {manifest.id} was not sent to be read with {key}: {place}"
            raise UsageError(message, hint=f"set {key}: {holders[0] if holders else LOCAL}")
    if TOKENS in missing:
        reader = f"rerank.backend: {settings.rerank.backend}"
        raise UsageError(f"{manifest.id} was sent without {TOKENS}, which {reader} reads", hint=_UNREAD)
    if missing:
        hint = "set engines.store: engine where the index is built, and send it: retrieve engines push"
        raise UsageError(f"{manifest.id} was sent without {', '.join(missing)}", hint=hint)


class RemoteIndexes:
    """Indexes of a generation that live in engines. Threads may share one; an engine is asked at the first use."""

    def __init__(self, generation: Generation, settings: Settings) -> None:
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
        from retrieve_cli.engines.index import TermEngineIndex, VectorEngineIndex

        retriever = registry.retriever(retriever_name)
        name = self.places[retriever_name]
        if (entry := engine_record.read(self._generation.folder).get(name)) is None:
            raise IndexCorrupt(f"generation {self._generation.id} was not sent to {name}", hint=_PUSH)
        if (part := entry.part(retriever.name)) is None:
            raise IndexCorrupt(f"{name} does not hold the {retriever.name} index of {self._generation.id}", hint=_PUSH)
        able = self._capabilities(name)
        stored = stored_statistics(self._generation, part)
        found = statistics(stored, part)
        if part.dim is None:
            terms: Any = _Collection(lambda: self._open(name, entry).terms(part.name))
            signed = bool(stored.get(SIGNED, True))
            index: Any = TermEngineIndex(terms, part=part, capabilities=able, statistics=found, signed=signed)
        else:
            vectors: Any = _Collection(lambda: self._open(name, entry).vectors(part.name))
            index = VectorEngineIndex(vectors, part=part, capabilities=able, statistics=found)
        return retriever.remote(index, self._generation, self._settings)

    def _capabilities(self, name: str) -> Capabilities:
        """Return the abilities of an engine; the minimum if it cannot be reached now, which its searches will
        report."""
        try:
            return engine(name, self._settings).capabilities
        except Unavailable:
            return Capabilities(most_rows=0)

    def _open(self, name: str, entry: Entry) -> EngineGeneration:
        """Open the generation in an engine, after comparing the stored rows with the rows that were sent."""
        with self._lock:
            if name not in self._opened:
                generation = self._generation
                opened = engine(name, self._settings).open(generation.id)
                if (opened.census.sample, dict(opened.census.rows)) != (entry.census.sample, entry.census.rows):
                    message = f"{name} holds other rows under {generation.id} than were sent to it"
                    raise IndexCorrupt(message, hint=_PUSH)
                self._opened[name] = opened
            return self._opened[name]


class _Collection:
    """A collection that is opened at its first use, so that an engine that cannot be reached fails as a step of a
    query, which the other retrievers then answer."""

    def __init__(self, open_it: Callable[[], Any]) -> None:
        self._open = open_it
        self._opened: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._opened is None:
            self._opened = self._open()
        return getattr(self._opened, name)


def blocks_of(folder: Path, manifest: Manifest, settings: Settings) -> Blocks:
    """Return a function for blocks of the files of a generation, from the engine that keeps them.

    Raises:
        Unavailable: the engine cannot be reached.
        IndexCorrupt: it does not have the generation.
        UsageError: the engine is not configured.
    """
    name = attached_to(folder)
    if name not in settings.engines.in_use:
        raise UsageError(f"the files of {manifest.id} are in {name}, which is not configured", hint=f"engines: {name}")
    opened = engine(name, settings).open(manifest.id)
    entry = engine_record.read(folder).get(name)
    kept = frozenset(() if entry is None else entry.files)

    def blocks(file: str, numbers: Sequence[int]) -> list[bytes]:
        if file not in kept:
            raise Unavailable(f"{file} is not in {name}", hint=_UNREAD if file == TOKENS else _PUSH)
        return opened.blocks(file, numbers)

    return blocks


def attached_to(folder: Path) -> str:
    """Return the engine that has the files of an attached generation. Raises: IndexCorrupt."""
    try:
        return str(json.loads(read_text(folder / ATTACHED, limit=CONFIG))["engine"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = "attach it again: retrieve engines attach"
        raise IndexCorrupt(f"{folder / ATTACHED} cannot be read ({quoted(error)})", hint=hint) from error


def stored_statistics(generation: Generation, part: Part) -> Mapping[str, Json]:
    """Return the stored statistics of a part.

    Raises:
        IndexCorrupt: they are missing or damaged.
    """
    stored = pickles.load(generation.folder / STATISTICS)
    if not isinstance(stored, dict) or not isinstance(found := stored.get(part.name), dict):
        raise IndexCorrupt(f"{STATISTICS} lacks the statistics of {part.name}", hint=_PUSH)
    return found


def statistics(stored: Mapping[str, Json], part: Part) -> Any:
    """Return the statistics of the scores of a part. Raises: IndexCorrupt: they are damaged."""
    from retrieve_cli.storage.term_statistics import TermStatistics
    from retrieve_cli.storage.vector_statistics import VectorStatistics

    return (TermStatistics if part.dim is None else VectorStatistics).of_arrays(stored)
