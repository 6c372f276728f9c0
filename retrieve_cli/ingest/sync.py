"""`sync`: plan, then apply. What has changed since the live generation was built, and a generation that has it.

A look over the digests of all items says whether there is anything to do at all; if so, the changed items are read and
compared, and what comes of it is a `Plan`: a value that can be shown (`--dry-run`) or refused. Applying it is
build.py's work, with the rows of the live generation at hand for all that stayed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import cached_property

from retrieve_cli.assemble.parts import Parts
from retrieve_cli.assemble.sources import entries_of, notes_on
from retrieve_cli.config.settings import Settings, SourceSetting
from retrieve_cli.contracts import Json, Source
from retrieve_cli.errors import IndexCorrupt, IndexMissing, RetrieveError, UsageError
from retrieve_cli.ingest.build import apply, contents_before
from retrieve_cli.ingest.changes import Changes, ChunkChanges, recipe_changes
from retrieve_cli.ingest.intake import Intake
from retrieve_cli.ingest.inventory import Contents, changes_between
from retrieve_cli.ingest.look import Look, digest_of, digests_of
from retrieve_cli.ingest.plan import Plan
from retrieve_cli.ingest.report import Limits, Progress, Report
from retrieve_cli.ingest.reuse import Reuse, reusable
from retrieve_cli.ingest.scanned import folders_of, origin_of
from retrieve_cli.ingest.tidying import note_lines, tidy
from retrieve_cli.ingest.unread import Unread
from retrieve_cli.records.columns import columns_of
from retrieve_cli.storage.generation import Generation, open_generation
from retrieve_cli.storage.manifest import Manifest, sha1
from retrieve_cli.storage.recipe import Recipe
from retrieve_cli.storage.store import Store


def entries(settings: Settings, store: Store, say: Callable[[str], None]) -> Sequence[SourceSetting]:
    """The sources of the configuration, or those that the live generation was built from.

    Where the live one cannot be read, the newest that can be is asked.

    Raises:
        IndexMissing, IndexCorrupt, UsageError: nothing names a source.
    """
    if settings.sources.list:
        return settings.sources.list
    try:
        manifest = store.open()[1]
    except (IndexCorrupt, IndexMissing) as error:
        kept = store.kept()
        if not kept:
            raise
        manifest = kept[-1].manifest
        say(f"{error.message}: reading the sources that generation {manifest.id} names")
    found = entries_of(manifest)
    for note in notes_on(found):
        say(note)
    return found


class Sync:
    """One run over the given sources, with the parts that today's configuration gives."""

    def __init__(
        self,
        sources: Sequence[Source],
        parts: Callable[[], Parts],
        store: Store,
        *,
        limits: Limits,
        progress: Progress,
        unread: Unread | None,
    ) -> None:
        """`parts` gives a set of parts that nothing was put into yet, each time it is called; `unread` knows what need
        not be read again, None if everything is to be."""
        self._sources = sources
        self._new_parts = parts
        self._store = store
        self._limits = limits
        self._progress = progress
        self._unread = unread
        self._parts = parts()
        self._stamps: list[list[int] | None] = []
        self._folders: list[Mapping[str, Json]] = []
        self._seen = False
        """Whether the live generation was not read again."""
        self._scanned: list[Source] = []
        """The sources as the plan saw them, those whose items can be kept without another look at them."""

    def plan(self) -> Plan:
        """Fetches and compares; changes nothing of the index.

        Raises:
            SourceFailed, UsageError: a source cannot be read.
        """
        for source in self._sources:
            source.fetch()
        live = self._live
        refused = sum(source.refused for source in live.manifest.sources) if live else 0
        same = live is not None and self._same_recipe(live) and self._store.quarantined() == refused
        self._stamps = [source.stamp() for source in self._sources]  # before reading: what comes later shows
        self._folders = [folders_of(source) for source in self._sources]
        untouched = live is not None and same and self._looks_untouched(live.manifest)
        if live and untouched and self._digests_are(digests_of(live.manifest)):
            return self._nothing_to_do(live, refused)
        kept = reusable(live.manifest.recipe, self._parts.recipe) if live else frozenset()
        look = Look(self._before, live, self._parts.recipe, keep=kept)
        for source in self._sources:
            look.at(source)
        if live and same and look.digests == digests_of(live.manifest):
            return self._nothing_to_do(live, refused)
        self._scanned = look.scanned
        recipe = recipe_changes(live.manifest.recipe.to_json(), self._recipe(live).to_json()) if live else {}
        return Plan(self._store.live(), look.changes(), recipe, look.records, look.refused, needed=True)

    def run(self) -> Report:
        """Plans and applies. The lock must be held.

        Raises:
            SourceFailed: a source cannot be read, or lost more than `max_shrink` of its records.
            Unavailable, RetrieveError: from the encoder and the store.
        """
        begun = time.monotonic()
        plan = self.plan()
        if not plan.needed and self._live:
            self._note(self._live.manifest)
            self._keep_sums(self._live.manifest)
            if len(self._store.kept()) > self._limits.keep:  # what a sync that was killed left undone
                tidy(self._store, self._limits.keep, self._progress)
            else:
                note_lines(self._store, self._progress)
            report = self._unchanged(self._live, plan)
        else:
            for sentence in plan.sentences():
                self._progress.say(sentence)
            last = self._last()
            if last:
                self._limits.check_loss(last, plan.records)
            reuse = Reuse(self._live, self._parts.recipe) if self._live else None
            report = apply(
                self._scanned or self._sources,
                self._parts,
                self._store,
                limits=self._limits,
                progress=self._progress,
                before=self._before,
                last=last,
                reuse=reuse,
            )
        return replace(report, seconds=round(time.monotonic() - begun, 3), skipped=self._parts.skipped)

    def verify(self) -> dict[str, str]:
        """Builds all of it anew, without the cache, beside the live generation; what differs, by file name.

        The lock must be held.

        Raises:
            RetrieveError: a source changed meanwhile.
        """
        parts, store = self._new_parts(), self._store
        with store.scratch() as scratch, store.scratch() as aside:
            with closing(Intake(scratch, parts, aside, self._progress, before=Contents.nothing())) as intake:
                intake.take_all(self._sources)
                rows = intake.write()
            fresh = store.seal(scratch, recipe=intake.recipe, sources=intake.entries, rows=rows)
        live, found = store.verify()
        read = [origin["digest"] for origin in intake.origins]
        if read != digests_of(live):
            raise RetrieveError("a source has changed since the sync", hint="run it again: retrieve sync --verify")
        if fresh.id == live.id:
            return found
        names = sorted({*fresh.files, *live.files})
        differing = {name: "differs" for name in names if fresh.files.get(name) != live.files.get(name)}
        return {**differing, **found} or {"manifest.json": "differs"}

    @cached_property
    def _live(self) -> Generation | None:
        """The live generation, None where there is none that is sound to the last byte."""
        try:
            seen = self._unread is not None and self._unread.generation()
            found = {} if seen else self._store.verify()[1]
            self._seen = seen
            if not found:
                with open_generation(self._store) as generation:
                    generation.let_go()  # nobody but this writer could remove it
                    return generation
            fault = next(iter(found.values()))
        except IndexMissing:
            return None
        except IndexCorrupt as error:
            fault = error.message
        self._progress.say(f"the live index is damaged and will be written anew: {fault}")
        return None

    @cached_property
    def _before(self) -> Contents:
        """Ids and contents of every live record, though files beside the tables may be damaged."""
        return Contents.of(self._live) if self._live else contents_before(self._store)

    def _last(self) -> Manifest | None:
        """The manifest of the live generation, though its files may be damaged; else the newest that can be read."""
        kept = self._store.kept()
        return next((each.manifest for each in kept if each.live), kept[-1].manifest if kept else None)

    def _nothing_to_do(self, live: Generation, refused: int) -> Plan:
        counts = {source.name: source.records for source in live.manifest.sources}
        return Plan(live.manifest.id, Changes(kept=len(live.records)), {}, counts, refused, needed=False)

    def _recipe(self, live: Generation) -> Recipe:
        """The recipe that the records of a generation would be built with; less what depends on them if its columns
        cannot be read."""
        try:
            return self._parts.recipe_of(columns_of(live))
        except (IndexCorrupt, UsageError):
            return self._parts.recipe

    def _same_recipe(self, live: Generation) -> bool:
        """Whether recipe and sources are called as those that the generation was built from."""
        named = [(str(source.origin["kind"]), source.name) for source in self._sources]
        same = sha1(live.manifest.recipe.to_json()) == sha1(self._recipe(live).to_json())
        return same and named == [(source.kind, source.name) for source in live.manifest.sources]

    def _looks_untouched(self, manifest: Manifest) -> bool:
        """Whether every source has the marks that were noted: its digest then tells, and no item is looked up."""
        try:
            noted = [source["stamp"] for source in manifest.built["sources"]]
        except (KeyError, TypeError):
            return False
        return None not in noted and noted == self._stamps

    def _note(self, manifest: Manifest) -> None:
        """Keeps where the sources are now and how they look, though nothing in them has changed."""
        seen = zip(self._sources, digests_of(manifest), self._stamps, self._folders, strict=True)
        noted = [origin_of(*each) for each in seen]
        if noted != manifest.built["sources"]:
            try:
                self._store.note(replace(manifest, built={**manifest.built, "sources": noted}))
            except OSError as error:
                self._progress.say(f"where the sources are now could not be noted: {error}")

    def _keep_sums(self, manifest: Manifest) -> None:
        """Adds what tells a query that a file was damaged, to a generation of an earlier version; notes then what need
        not be read again."""
        try:
            if not self._seen:
                self._store.keep_sums(manifest)
        except OSError as error:
            self._progress.say(f"the sums of its files could not be written: {error}")
            return
        with suppress(OSError):  # the next sync reads it again then
            if self._unread:
                self._unread.save(manifest, list(zip(self._sources, digests_of(manifest), strict=True)))

    def _digests_are(self, noted: Sequence[str]) -> bool:
        """Whether every source has the digest that was noted."""
        for source, digest, stamp in zip(self._sources, noted, self._stamps, strict=True):
            seen = self._unread is not None and self._unread.source(source, digest, stamp)
            if not seen and digest_of(source) != digest:
                return False
        return True

    @staticmethod
    def _unchanged(live: Generation, plan: Plan) -> Report:
        return Report(
            status="unchanged",
            generation=live.manifest.id,
            records=len(live.records),
            chunks=len(live.chunks),
            changes=plan.changes,
            chunk_changes=ChunkChanges(kept=len(live.chunks)),
            kinds=frozenset(source.kind for source in live.manifest.sources),
            quarantined=plan.refused,
        )


def roll_back(store: Store, generation: str | None) -> Report:
    """Makes an older generation live again, the one before by default. The lock must be held.

    Raises:
        UsageError: there is none.
        IndexCorrupt: it is damaged.
    """
    begun, before, was = time.monotonic(), contents_before(store), store.live()
    live = store.roll_back(generation)
    with open_generation(store) as opened:
        changes, chunk_changes = changes_between(before, Contents.of(opened))
        return Report(
            status="unchanged" if live == was else "published",
            generation=live,
            records=len(opened.records),
            chunks=len(opened.chunks),
            changes=changes,
            chunk_changes=chunk_changes,
            kinds=frozenset(source.kind for source in opened.manifest.sources),
            quarantined=sum(source.refused for source in opened.manifest.sources),
            seconds=round(time.monotonic() - begun, 3),
        )
