"""Indexes on their way into engines: all rows of a generation are sent and counted before any alias names it.

    rows are sent  ->  noted in the folder  ->  named by the alias  ->  `current` is replaced  ->  tidy(store)

A crash before the alias names it leaves a generation in an engine that no reader asks for: the next push drops it. A
crash after it leaves an alias that names the new generation while `current` names the older one, whose rows are still
there: readers ask for the generation that `current` names, and never through the alias.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble import engines, registry
from retrieve_cli.assemble.indexes import local_indexes
from retrieve_cli.errors import IndexCorrupt, RetrieveError, UsageError
from retrieve_cli.ingest.sending import EngineShare, holds, send
from retrieve_cli.storage import durable, engine_record
from retrieve_cli.storage.engine_record import Entry
from retrieve_cli.storage.generation import open_unpublished
from retrieve_cli.storage.store import SENT
from retrieve_cli.untrusted.files import MANIFEST, read_text

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.manifest import Manifest
    from retrieve_cli.storage.store import Store

_NOTED = 1000
"""Generations that are remembered as sent."""

_KEPT = 2
"""Newest generations that stay in the engines, beside the current one."""


class Push:
    """One generation on its way into the configured engines. The lock of the store must be held."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._generation: Generation | None = None
        self._before: str | None = None
        """The generation that was current before."""
        self._entries: dict[str, Entry] = {}
        self._sent: set[str] = set()
        """Engines that were sent the generation now, whose aliases are set in any case."""

    def check(self) -> None:
        """Ask every engine for its current generation, so that one that cannot be reached is known before any work.

        Raises:
            Unavailable: an engine cannot be reached, or a secret is missing.
            UsageError: the configuration contradicts itself.
        """
        for name in self._settings.engines.in_use:
            engines.engine(name, self._settings).live()

    def before_publication(self, scratch: Path, manifest: Manifest, store: Store) -> None:
        """Send a sealed generation that is not published yet, and let the engines' aliases name it.

        Raises:
            Unavailable, IndexCorrupt, UsageError: as `again` does.
        """
        self._before = store.live()
        folder = store.generations / manifest.id
        known = engine_record.read(folder) if folder.is_dir() else {}
        if known:
            engine_record.write(scratch, known)
        same = [folder] if folder.is_dir() else []  # the same generation was built before: its folder stays
        self._send(open_unpublished(scratch, manifest), [scratch, *same], whole=False)

    def again(self, generation: Generation, *, whole: bool = False) -> None:
        """Send a published generation as far as the engines do not hold it, or all of it; their aliases name it then.

        Raises:
            Unavailable: an engine cannot be reached, or rejects the rows.
            IndexCorrupt: it lost rows.
            UsageError: an index is of a kind that engines cannot hold, or the generation has several segments.
        """
        self._send(generation, [generation.folder], whole=whole)

    def _send(self, generation: Generation, folders: Sequence[Path], *, whole: bool) -> None:
        """Send a generation, note in its folders what the engines hold, and let their aliases name it."""
        self._stage(generation, whole=whole)
        for folder in folders if self._entries else ():
            engine_record.write(folder, {**_known(folder), **self._entries})
        for name in self._entries:
            engine = engines.engine(name, self._settings)
            if name in self._sent or engine.live() != generation.id:
                engine.publish(generation.id)

    def _stage(self, generation: Generation, *, whole: bool) -> None:
        """Send a generation to every engine that shall hold a part of it and does not."""
        if len(generation.segments) > 1 or generation.live is not None:
            raise UsageError("an engine takes an index of one segment", hint="retrieve sync --compact")
        self._generation = generation
        known = _known(generation.folder)
        shares = self._shares(generation)
        for share in shares:
            name = share.engine.name
            entry = known.get(name)
            if entry is not None and not whole and holds(share, entry, generation.id):
                self._entries[name] = entry
                continue
            note, sent = f"{name} {generation.id}", generation.folder.parents[1] / SENT
            if note not in (notes := _lines(sent)):
                durable.replace(sent, "".join(f"{each}\n" for each in [*notes, note][-_NOTED:]))
            self._entries[name] = send(share, generation, say=self._say)
            self._sent.add(name)

    def tidy(self, store: Store) -> None:
        """Remove all generations that this store sent to the engines, except the newest ones; a failure is
        only reported. Generations that another store sent stay."""
        if self._generation is None:
            return
        # One that a crash left in the store has a higher number than the one that readers still have open.
        last = list(dict.fromkeys(each for each in (self._before, self._generation.id) if each is not None))
        kept = [each.manifest.id for each in store.kept() if each.manifest.id not in last]
        newest = {self._generation.id, *[*kept, *last][-_KEPT:]}
        sent = set(_lines(store.path / SENT))  # a line per engine and generation: engines may be shared
        for name in self._entries:
            try:
                engine = engines.engine(name, self._settings)
                for staged in engine.generations():
                    if f"{name} {staged.generation}" in sent and staged.generation not in newest and not staged.live:
                        engine.drop(staged.generation)
                        self._say(f"{name}: removed generation {staged.generation}")
            except RetrieveError as error:
                self._say(f"{name}: older generations could not be removed: {error.message}")

    def _shares(self, generation: Generation) -> list[EngineShare]:
        placed = engines.places(self._settings, generation.manifest.recipe.retrievers)
        indexes = local_indexes(generation, self._settings)
        shares = []
        for name in self._settings.engines.in_use:
            mine = [registry.retriever(each) for each, place in placed.items() if place == name]
            parts = [retriever.exported(indexes[retriever.name]) for retriever in mine]
            if parts:
                shares.append(EngineShare(engines.engine(name, self._settings), parts))
        for share in shares:
            for exported in share.parts:
                if exported.part.dim is None and not share.engine.capabilities.terms:
                    hint = f"choose another engine: engines.{registry.retriever(exported.part.name).role}"
                    message = f"{share.engine.name} cannot hold term weights ({exported.part.name})"
                    raise UsageError(message, hint=hint)
        return shares


def _known(folder: Path) -> dict[str, Entry]:
    """Return the record of a folder; a damaged one is written again."""
    with suppress(IndexCorrupt):
        return engine_record.read(folder)
    return {}


def _lines(path: Path) -> list[str]:
    return read_text(path, limit=MANIFEST).splitlines() if path.exists() else []
