"""`sync`: plan, then apply. The plan has the changes since the current generation was built.

The digests of all items decide if there is anything to do. If so, changed items are read and compared, and the result
is a `Plan`: a value that can be shown (`--dry-run`) or discarded. build.py applies it and copies the rows of unchanged
items from the current generation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING

from retrieve_cli.assemble.parts import Parts
from retrieve_cli.assemble.sources import entries_of, notes_on, with_inbox
from retrieve_cli.assemble.trusted import expect_own_sources
from retrieve_cli.config.settings import Settings, SourceSetting
from retrieve_cli.contracts import Json, Source
from retrieve_cli.errors import IndexCorrupt, IndexMissing, RetrieveError, UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.build import apply, contents_before, noted, push_for
from retrieve_cli.ingest.cached_source import folders_of, mapping_of, origin_of
from retrieve_cli.ingest.changes import Changes, ChunkChanges, Plan, recipe_changes
from retrieve_cli.ingest.compare import SourceComparison, digest_of, digests_of
from retrieve_cli.ingest.encoded_texts import stored_segments
from retrieve_cli.ingest.intake import Intake
from retrieve_cli.ingest.inventory import Contents, changes_between
from retrieve_cli.ingest.report import LossLimits, Progress, Report, Status, fetch_all
from retrieve_cli.ingest.source_checks import UnchangedFiles, check_inbox
from retrieve_cli.ingest.tidying import tidy, tidy_unchanged
from retrieve_cli.storage.generation import Generation, open_generation
from retrieve_cli.storage.manifest import Manifest, sha1
from retrieve_cli.storage.recipe import Recipe
from retrieve_cli.storage.records.columns import columns_of
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from retrieve_cli.ingest.pushing import Push


def entries(settings: Settings, store: Store, say: Callable[[str], None]) -> Sequence[SourceSetting]:
    """Return the sources of the configuration, or those that the current generation was built from, and the inbox.

    If the current one cannot be read, the newest readable one names them.

    Raises:
        IndexMissing, IndexCorrupt, UsageError: nothing names a source.
    """
    settings.expect_trusted("sources")
    if settings.sources.list:
        return with_inbox(settings.sources.list, store.path)
    try:
        manifest = store.open().manifest
    except (IndexCorrupt, IndexMissing) as error:
        if not (kept := store.kept()):
            if only := with_inbox([], store.path):
                return only
            raise
        manifest = kept[-1].manifest
        say(f"{error.message}: reading the sources that generation {manifest.id} names")
    named = entries_of(manifest)
    expect_own_sources(store.path, manifest)
    for note in notes_on(named):
        say(note)
    return with_inbox(named, store.path)


class Sync:
    """One run over the given sources, with the parts that today's configuration gives."""

    def __init__(
        self,
        sources: Sequence[Source],
        parts: Callable[[], Parts],
        store: Store,
        *,
        limits: LossLimits,
        progress: Progress,
        unread: UnchangedFiles | None,
    ) -> None:
        """`parts` returns a new set at each call; `unread` knows the files that need no reading, None to read all."""
        self._sources = sources
        self._new_parts = parts
        self._store = store
        self._limits = limits
        self._progress = progress
        self._unread = unread
        self._parts = parts()
        self._stamps: list[list[int] | None] = []
        self._folders: list[Mapping[str, Json]] = []
        self.failures: list[str] = []
        """Sentences on parts of the sources that the plan could not read."""
        self._seen = False
        """True if the current generation was not read again."""
        self._scanned: list[Source] = []
        """The sources as the plan read them; items of some can be copied without reading the source again."""

    def plan(self) -> Plan:
        """Fetch and compare, without changing the index. Raises: SourceFailed, UsageError: a source cannot be read."""
        self.failures = fetch_all(self._sources, self._progress.say)
        check_inbox(self._store, self._last())
        current = self._current
        rejected = sum(source.refused for source in current.manifest.sources) if current else 0
        same = current is not None and self._same_recipe(current) and self._store.quarantined() == rejected
        self._stamps = [source.stamp() for source in self._sources]  # before reading: what comes later shows
        self._folders = [folders_of(source) for source in self._sources]
        untouched = current is not None and same and self._looks_untouched(current.manifest)
        if current and untouched and self._digests_are(digests_of(current.manifest)):
            return self._nothing_to_do(current, rejected)
        look = SourceComparison(self._before, current, self._parts.recipe, keep=("catalog", "docs"))
        for source in self._sources:
            look.at(source)
        if current and same and look.digests == digests_of(current.manifest):
            return self._nothing_to_do(current, rejected)
        self._scanned = look.scanned
        recipe = recipe_changes(current.manifest.recipe.to_json(), self._recipe(current).to_json()) if current else {}
        found, notices = look.changes(), [*look.notices.on_keys, *self._other_mappings()]
        return Plan(self._store.live(), found, recipe, look.records, look.rejected, needed=True, notices=notices)

    def run(self) -> Report:
        """Plan and apply. The lock must be held.

        Raises:
            SourceFailed: a source cannot be read, or lost more than `max_shrink` of its records.
            Unavailable, RetrieveError: from the encoder and the store.
        """
        begun = time.monotonic()
        plan = self.plan()
        if not plan.needed and self._current:
            self._note(self._current.manifest)
            if len(self._store.kept()) > self._limits.keep:  # what a sync that was killed left undone
                tidy(self._store, self._limits.keep, self._progress)
            else:
                tidy_unchanged(self._store, self._progress)
            if push := push_for(self._parts, self._progress):
                push.again(self._current)
                push.tidy(self._store)
            unchanged = ChunkChanges(kept=len(self._current.chunks))
            report = _report(self._current, plan.changes, unchanged, status="unchanged")
        else:
            for sentence in plan.sentences():
                self._progress.say(sentence)
            if last := self._last():
                self._limits.check_loss(last, plan.records)
            report = apply(
                self._scanned or self._sources,
                self._parts,
                self._store,
                limits=self._limits,
                progress=self._progress,
                before=self._before,
                last=last,
            )
            report = replace(report, notices=list(dict.fromkeys([*report.notices, *plan.notices])))
        seconds = round(time.monotonic() - begun, 3)
        return replace(report, seconds=seconds, skipped=self._parts.skipped, failures=self.failures)

    def _other_mappings(self) -> list[str]:
        """Return a sentence on each source with another inferred mapping than in the last generation."""
        last = self._last()
        noted = last.built.get("sources", ()) if last else ()
        before = {str(entry["origin"].get("name")): entry.get("fields") for entry in noted}
        keys = {str(entry["origin"].get("name")): entry["reading"][0] for entry in noted if entry.get("reading")}
        return [
            f"{source.name}: its keys are read as other fields than in the last generation"
            for source in self._sources
            if (now := mapping_of(source)).get("inferred") and before.get(source.name) not in (None, now["fields"])
        ] + [
            f"{source.name}: {reading[0]} (before: {keys[source.name]}), so records have new ids"
            for source in self._sources
            if (reading := mapping_of(source).get("reading")) and keys.get(source.name, reading[0]) != reading[0]
        ]

    def verify(self) -> dict[str, str]:
        """Rebuild everything without the cache, beside the current generation; return the differences by file name.

        The lock must be held.

        Raises:
            RetrieveError: a source changed meanwhile.
        """
        parts, store = self._new_parts(), self._store
        with store.scratch() as scratch, store.scratch() as aside:
            # All is computed again but facets: a model may answer otherwise.
            nothing, lenders = Contents.nothing(), stored_segments(store)
            kept = Intake(scratch, parts, aside, self._progress, before=nothing, lenders=lenders, again=True)
            with closing(kept) as intake:
                intake.take_all(self._sources)
                rows = intake.write()
            fresh = store.seal(scratch, recipe=intake.recipe, sources=intake.entries, rows=rows)
        current, found = store.verify()
        if [origin["digest"] for origin in intake.origins] != digests_of(current):
            raise RetrieveError("a source has changed since the sync", hint="run it again: retrieve sync --verify")
        if fresh.id == current.id:
            return found
        names = sorted({*fresh.files, *current.files})
        differing = {name: "differs" for name in names if fresh.files.get(name) != current.files.get(name)}
        return {**differing, **found} or {"manifest.json": "differs"}

    @cached_property
    def _current(self) -> Generation | None:
        """The current generation, None if it is missing or a byte of it is damaged."""
        try:
            seen = self._unread is not None and self._unread.generation()
            found = {} if seen else self._store.verify()[1]
            self._seen = seen
            if not found:
                with open_generation(self._store) as generation:
                    generation.release_holds()  # nobody but this writer could remove it
                    return generation
            fault = next(iter(found.values()))
        except IndexMissing:
            return None
        except IndexCorrupt as error:
            fault = error.message
        self._progress.say(f"the current index is damaged and will be rewritten: {fault}")
        return None

    @cached_property
    def _before(self) -> Contents:
        """Ids and contents of every current record, even if files beside the tables are damaged."""
        return Contents.of(self._current) if self._current else contents_before(self._store)

    def _last(self) -> Manifest | None:
        """Return the manifest of the current generation, even if its files are damaged; else of the newest readable."""
        kept = self._store.kept()
        return next((each.manifest for each in kept if each.live), kept[-1].manifest if kept else None)

    def _nothing_to_do(self, current: Generation, rejected: int) -> Plan:
        counts = {source.name: source.records for source in current.manifest.sources}
        return Plan(current.manifest.id, Changes(kept=len(current.records)), {}, counts, rejected, needed=False)

    def _recipe(self, current: Generation) -> Recipe:
        """Return the recipe with which the records of a generation would be built; without the parts that depend on
        its columns if these cannot be read."""
        try:
            return self._parts.recipe_of(columns_of(current))
        except (IndexCorrupt, UsageError):
            return self._parts.recipe

    def _same_recipe(self, current: Generation) -> bool:
        """Return True if the recipe, and the names and kinds of the sources, equal the generation's."""
        named = [(str(source.origin["kind"]), source.name) for source in self._sources]
        same = sha1(current.manifest.recipe.to_json()) == sha1(self._recipe(current).to_json())
        return same and named == [(source.kind, source.name) for source in current.manifest.sources]

    def _looks_untouched(self, manifest: Manifest) -> bool:
        """Return True if every source has the marks that were noted, so that its digest suffices."""
        try:
            noted = [source["stamp"] for source in manifest.built["sources"]]
        except (KeyError, TypeError):
            return False
        return None not in noted and noted == self._stamps

    def _note(self, manifest: Manifest) -> None:
        """Update the places and marks of the sources in the manifest, although their content is the same."""
        keys = ("fields", "inferred", "key", "reading")
        mappings = [{key: noted[key] for key in keys if key in noted} for noted in manifest.built["sources"]]
        seen = zip(self._sources, digests_of(manifest), self._stamps, self._folders, mappings, strict=True)
        sources = [origin_of(*each) for each in seen]
        built = {**manifest.built, "sources": sources, **noted(self._parts, manifest)}
        if built != manifest.built:
            try:
                self._store.note(replace(manifest, built=built))
            except OSError as error:
                self._progress.say(f"the places of the sources could not be updated: {error}")

    def _digests_are(self, noted: Sequence[str]) -> bool:
        for source, digest, stamp in zip(self._sources, noted, self._stamps, strict=True):
            seen = self._unread is not None and self._unread.source(source, digest, stamp)
            if not seen and digest_of(source) != digest:
                return False
        return True


def roll_back(store: Store, generation: str | None, push: Push | None = None) -> Report:
    """Make an older generation current again, by default the previous one; `push` sends it to the engines first. The
    lock must be held.

    Raises:
        UsageError: it does not exist.
        IndexCorrupt: it is damaged.
        Unavailable: an engine cannot be reached; nothing changes.
    """
    begun, before, was = time.monotonic(), contents_before(store), store.live()
    if push:
        with open_generation(store, generation or store.before(was)) as older:
            push.again(older)
    current = store.roll_back(generation)
    with open_generation(store) as opened:
        changes, chunk_changes = changes_between(before, Contents.of(opened))
        report = _report(opened, changes, chunk_changes, status="unchanged" if current == was else "published")
        return replace(report, seconds=round(time.monotonic() - begun, 3))


def _report(current: Generation, changes: Changes, chunk_changes: ChunkChanges, *, status: Status) -> Report:
    """Return the report on a current generation that was not written now."""
    return Report(
        status=status,
        generation=current.manifest.id,
        records=len(current.records),
        chunks=len(current.chunks),
        changes=changes,
        chunk_changes=chunk_changes,
        kinds=frozenset(source.kind for source in current.manifest.sources),
        quarantined=sum(source.refused for source in current.manifest.sources),
    )
