"""`sync`: a small segment with the new and changed records, and the rows of the others that are dead.

The digests of all items decide if there is anything to do, and which items are read. A `Plan` is the same as a value,
which can be shown (`--dry-run`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.assemble.parts import Parts
from retrieve_cli.assemble.sources import entries_of, notes_on, with_inbox
from retrieve_cli.assemble.trusted import expect_own_sources
from retrieve_cli.config.settings import Settings, SourceSetting
from retrieve_cli.contracts import Record, Refused, Source
from retrieve_cli.errors import IndexCorrupt, IndexMissing, RetrieveError
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.build import apply, current, noted, push_for
from retrieve_cli.ingest.changes import Changes, ChunkChanges, Plan, chunk_changes, recipe_changes
from retrieve_cli.ingest.encoded_texts import stored_segments
from retrieve_cli.ingest.intake import Intake
from retrieve_cli.ingest.items import SourceMarks, is_untouched, mapping_of, pieces_of
from retrieve_cli.ingest.known_items import Comparison, KeptRecords, KnownItems, Survey, place_of
from retrieve_cli.ingest.merge import merge
from retrieve_cli.ingest.publishing import kinds_in
from retrieve_cli.ingest.report import LossLimits, Notices, Progress, Report, Status, fetch_all
from retrieve_cli.ingest.segment_writer import spans
from retrieve_cli.ingest.source_checks import check_inbox
from retrieve_cli.ingest.tidying import tidy
from retrieve_cli.storage.generation import Generation, live_rows, open_generation
from retrieve_cli.storage.key_rows import DigestList
from retrieve_cli.storage.manifest import Manifest, sha1, sha1_file
from retrieve_cli.storage.recipe import Recipe
from retrieve_cli.storage.records.rows import content_of
from retrieve_cli.storage.segment import GRAPH
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from retrieve_cli.ingest.pushing import Push

_MOST_NEW = 0.5
"""Share of new items above which everything is read again: a sync with so many is a build."""
_FEW = 1000
"""New items up to which they are read alone in any case."""


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
        checked: bool = False,
    ) -> None:
        """`parts` returns a new set at each call. With `checked`, every byte of the current index is read first, and a
        damaged one is written again."""
        self._checked = checked
        self._sources = sources
        self._new_parts = parts
        self._store = store
        self._limits = limits
        self._progress = progress
        self._parts = parts()
        self.failures: list[str] = []
        """Sentences on parts of the sources that could not be read."""

    def plan(self) -> Plan:
        """Fetch and compare, without changing the index. Raises: SourceFailed, UsageError: a source cannot be read."""
        surveys = self._surveyed(compact=False)
        now = self._current
        if surveys == [] and now is not None:
            return self._nothing_to_do(now)
        reading = _Reading(now, surveys)
        for number, source in enumerate(self._sources):
            reading.take(source, number)
        changes = reading.changes()
        recipe = recipe_changes(now.manifest.recipe.to_json(), self._recipe(now).to_json()) if now else {}
        rejected = 0 if now is None else sum(source.refused for source in now.manifest.sources)
        differs = bool(changes.added or changes.changed or changes.removed or recipe)
        needed = differs or now is None or reading.moved or reading.rejected != rejected
        notices = [*reading.notices.on_keys, *self._other_mappings()]
        return Plan(self._store.live(), changes, recipe, reading.records, reading.rejected, needed, notices)

    def run(self, *, compact: bool = False) -> Report:
        """Bring the index up to date; with `compact`, as one segment. The lock must be held.

        Raises:
            SourceFailed: a source cannot be read, or lost more than `max_shrink` of its records.
            Unavailable, RetrieveError: from the encoder and the store.
        """
        begun, now = time.monotonic(), self._current
        if now is not None and self._parts.remote is not None:  # an engine holds one segment
            compact = compact or len(now.segments) > 1 or now.live is not None
        surveys = self._surveyed(compact=compact)
        if surveys == [] and now is not None:
            report = self._unchanged(now)
        else:
            report = apply(
                self._sources,
                self._parts,
                self._store,
                limits=self._limits,
                progress=self._progress,
                before=now,
                surveys=surveys,
                last=self._last,
                compact=compact,
                announced=self._announced,
            )
            notices = list(dict.fromkeys([*report.notices, *self._other_mappings()]))
            report = replace(report, notices=notices)
        seconds = round(time.monotonic() - begun, 3)
        return replace(report, seconds=seconds, skipped=self._parts.skipped, failures=self.failures)

    def verify(self) -> dict[str, str]:
        """Build everything again without the cache, and the current generation as one segment, both beside it; return
        the differences by file name.

        The lock must be held.

        Raises:
            RetrieveError: a source changed meanwhile.
        """
        store = self._store
        now, damage = current(store), store.verify()[1]
        if now is None or damage:
            return damage
        known, rows, places = KnownItems(now), [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for number, source in enumerate(self._sources):
            survey = Survey.of(source, known, most=now.size + _FEW)
            rows += [] if survey is None else [survey.rows]
            places += [] if survey is None else [place_of(number, 0) + survey.places]
        order = np.concatenate(rows)[np.argsort(np.concatenate(places), kind="stable")]
        with store.scratch() as fresh, store.scratch() as merged, store.scratch() as aside:
            self._build_again(fresh, aside)
            merge(now, order, self._new_parts().writers(), merged)
            made, kept = ({path.name: sha1_file(path) for path in folder.iterdir()} for folder in (fresh, merged))
        if len(order) != now.size:
            raise RetrieveError("a source has changed since the sync", hint="run it again: retrieve sync --verify")
        return {name: "differs" for name in sorted({*made, *kept}) if made.get(name) != kept.get(name)}

    def _build_again(self, folder: Path, cache: Path) -> None:
        """Write the files of a fresh build; all is computed again but facets, which a model may make otherwise."""
        parts, lenders = self._new_parts(), stored_segments(self._store)
        intake = Intake(folder, parts, cache, self._progress, before=None, lenders=lenders, again=True)
        with closing(intake):
            for source in self._sources:
                intake.take(source, enumerate(source.scan()))
            intake.make_facets()
            intake.finish()
            intake.write()
            parts.write_graph(folder / GRAPH)

    # ---------------------------------------------------------------------------------------- comparing

    def _surveyed(self, *, compact: bool) -> list[Survey] | None:
        """Fetch and compare the items of all sources; empty if there is nothing to do, None if all must be read."""
        self.failures = fetch_all(self._sources, self._progress.say)
        check_inbox(self._store, self._last)
        now = self._current
        if now is None or not self._same_recipe(now):
            return None
        rejected = sum(source.refused for source in now.manifest.sources)
        listed = sum(1 for _ in self._store.rejected())
        if not compact and listed == rejected and self._looks_untouched(now.manifest):
            return []
        known, surveys = KnownItems(now), list[Survey]()
        most = max(_FEW, int(_MOST_NEW * now.size))
        for source in self._sources:
            survey = Survey.of(source, known, most=most)
            if survey is None:
                return None
            surveys.append(survey)
            most -= len(survey.new)
        return surveys

    def _looks_untouched(self, manifest: Manifest) -> bool:
        """Return True if every source has the noted marks."""
        try:
            return all(map(is_untouched, self._sources, manifest.built["sources"]))
        except (KeyError, TypeError):
            return False

    def _same_recipe(self, now: Generation) -> bool:
        """Return True if the recipe, and the names and kinds of the sources, equal the generation's."""
        named = [(str(source.origin["kind"]), source.name) for source in self._sources]
        # The digest of a document covers its parser: only the documents of another parser are read again.
        recipe = replace(self._recipe(now), documents=now.manifest.recipe.documents)
        same = sha1(now.manifest.recipe.to_json()) == sha1(recipe.to_json())
        return same and named == [(source.kind, source.name) for source in now.manifest.sources]

    def _recipe(self, now: Generation) -> Recipe:
        """Return the recipe with which the records of a generation would be built."""
        return self._parts.recipe_of(kinds_in(now))

    @cached_property
    def _current(self) -> Generation | None:
        """The current generation, None if it is missing or damaged."""
        try:
            damage = self._store.verify()[1] if self._checked else {}
            if damage:
                raise IndexCorrupt(next(iter(damage.values())))
            with open_generation(self._store) as generation:
                return generation
        except IndexMissing:
            return None
        except IndexCorrupt as error:
            self._progress.say(f"the current index is damaged and will be rewritten: {error.message}")
            return None

    @cached_property
    def _last(self) -> Manifest | None:
        """The manifest of the current generation, even if its files are damaged; else of the newest readable."""
        kept = self._store.kept()
        return next((each.manifest for each in kept if each.live), kept[-1].manifest if kept else None)

    def _other_mappings(self) -> list[str]:
        """Return a sentence on each source with another inferred mapping than in the last generation."""
        last = self._last
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

    # --------------------------------------------------------------------------------------- reporting

    def _announced(self, changes: Changes, rejected: int) -> list[str]:
        """Return sentences on the changes before they are applied."""
        now = self._current
        recipe = recipe_changes(now.manifest.recipe.to_json(), self._recipe(now).to_json()) if now else {}
        return Plan(self._store.live(), changes, recipe, {}, rejected, needed=True).sentences()

    def _nothing_to_do(self, now: Generation) -> Plan:
        counts = {source.name: source.records for source in now.manifest.sources}
        rejected = sum(source.refused for source in now.manifest.sources)
        return Plan(now.manifest.id, Changes(kept=now.size), {}, counts, rejected, needed=False)

    def _unchanged(self, now: Generation) -> Report:
        """Return the report on an index that is up to date, after what a sync that was killed left undone."""
        self._note(now.manifest)
        tidy(self._store, self._limits.keep, self._progress)
        if push := push_for(self._parts, self._progress):
            push.again(now)
            push.tidy(self._store)
        return _report(now, Changes(kept=now.size), ChunkChanges(kept=now.chunk_size), status="unchanged")

    def _note(self, manifest: Manifest) -> None:
        """Update the places and marks of the sources in the manifest, although their content is the same."""
        keys = ("fields", "inferred", "key", "rules", "reading")
        mappings = [{key: entry[key] for key in keys if key in entry} for entry in manifest.built["sources"]]
        marks = [SourceMarks(source).origin() for source in self._sources]
        sources = [{**mark, **mapping} for mark, mapping in zip(marks, mappings, strict=True)]
        built = {**manifest.built, "sources": sources, **noted(self._parts, manifest)}
        if built != manifest.built:
            try:
                self._store.note(replace(manifest, built=built))
            except OSError as error:
                self._progress.say(f"the places of the sources could not be updated: {error}")


class _Reading:
    """Reads the new items of the sources, and compares their records with a generation; nothing is written."""

    def __init__(self, now: Generation | None, surveys: Sequence[Survey] | None) -> None:
        """Without `surveys`, all items are read."""
        self._now = now
        self._surveys = surveys
        self._compared = Comparison(now, KeptRecords(len(now.records) if now else 0, surveys or ()))
        self._contents = DigestList()
        self.rejected = 0
        self.notices = Notices(lambda _: None)
        self.records: dict[str, int] = {}
        """Number of records of each source."""

    @property
    def moved(self) -> bool:
        """True if the lines of a record moved."""
        now, kept = self._now, self._compared.kept
        return now is not None and bool((now.lines[kept.mask] != kept.lines[kept.mask]).any())

    def take(self, source: Source, number: int) -> None:
        """Read the items of a source."""
        first, items = len(self._contents), enumerate(source.scan())
        survey = self._surveys[number] if self._surveys is not None else None
        for item_number, item in items if survey is None else survey.new:
            for piece in pieces_of(item):
                if isinstance(piece, Record):
                    self._record(piece, place_of(number, item_number))
                self.rejected += isinstance(piece, Refused)
        self.notices.report_mapping(source.name, mapping_of(source))
        self.notices.finish(source.name, complete=survey is None)
        self.records[source.name] = len(self._contents) - first + (0 if survey is None else len(survey.rows))

    def changes(self) -> Changes:
        """Return the records that were added, changed and removed."""
        return self._compared.changes(self._contents.array)

    def _record(self, record: Record, place: int) -> None:
        compared = self._compared
        former = compared.former_of(record.id)
        if compared.is_taken(record.id, former, place=place):
            self.rejected += 1
            return
        if former >= 0 and compared.kept.mask[former]:  # its item comes later: there the id is taken
            compared.kept.drop(former)
            self.rejected += 1
        self.notices.count(record)
        compared.add(record.id, former, place=place)
        self._contents.append(content_of(record).digest)


def roll_back(store: Store, generation: str | None, push: Push | None = None) -> Report:
    """Make an older generation current again, by default the previous one; `push` sends it to the engines first. The
    lock must be held.

    Raises:
        UsageError: it does not exist.
        IndexCorrupt: it is damaged.
        Unavailable: an engine cannot be reached; nothing changes.
    """
    begun, before, was = time.monotonic(), current(store), store.live()
    if push:
        with open_generation(store, generation or store.before(was)) as older:
            push.again(older)
    name = store.roll_back(generation)
    with open_generation(store) as opened:
        old = before.contents_by_id() if before else {}
        changes = Changes.between(old, opened.contents_by_id())
        status: Status = "unchanged" if name == was else "published"
        report = _report(opened, changes, _chunk_changes(before, opened), status=status)
        return replace(report, seconds=round(time.monotonic() - begun, 3))


def _chunk_changes(before: Generation | None, opened: Generation) -> ChunkChanges:
    """Return how many chunks of one generation another one has."""
    rows = np.array(live_rows(opened.live, len(opened.records)), np.int64)
    chunks = spans(opened.starts, rows)
    starts = np.append(0, np.cumsum(np.diff(opened.starts)[rows]))
    former = [-1 if before is None else before.exact_row(opened.record_id(row)) for row in rows.tolist()]
    known = [-1 if row is None else row for row in former]
    return chunk_changes(before, np.empty(0, np.int64), known, starts, opened.texts[chunks])


def _report(now: Generation, changes: Changes, chunk_changes: ChunkChanges, *, status: Status) -> Report:
    """Return the report on a current generation that was not written now."""
    return Report(
        status=status,
        generation=now.manifest.id,
        records=now.size,
        chunks=now.chunk_size,
        changes=changes,
        chunk_changes=chunk_changes,
        kinds=frozenset(source.kind for source in now.manifest.sources),
        quarantined=sum(source.refused for source in now.manifest.sources),
    )
