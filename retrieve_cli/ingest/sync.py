"""`sync`: a small segment with the new and changed records, and the rows of the others that are dead.

The digests of all items decide if there is anything to do, and which items are read. A dry
run reads the same items, and publishes nothing.
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
from retrieve_cli.contracts import Json, Source
from retrieve_cli.errors import IndexCorrupt, IndexMissing, RetrieveError
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.build import apply, current, noted, push_for, read_items, report_of
from retrieve_cli.ingest.changes import Changes, recipe_changes
from retrieve_cli.ingest.encoded_texts import stored_segments
from retrieve_cli.ingest.intake import Intake
from retrieve_cli.ingest.items import is_untouched, mapping_of, marks_of
from retrieve_cli.ingest.known_items import Comparison, Survey
from retrieve_cli.ingest.merge import merge
from retrieve_cli.ingest.publishing import Publication, kinds_in
from retrieve_cli.ingest.report import LossLimits, Progress, Report, Status, fetch_all
from retrieve_cli.ingest.source_checks import check_inbox
from retrieve_cli.ingest.tidying import tidy
from retrieve_cli.storage.generation import Generation, open_generation
from retrieve_cli.storage.manifest import Manifest, sha1_file
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
        self._marks: list[dict[str, Json]] = []
        self.failures: list[str] = []
        """Sentences on parts of the sources that could not be read."""

    def plan(self) -> Report:
        """Read what a sync would read, without changing anything. Raises: SourceFailed, UsageError."""
        from tempfile import TemporaryDirectory

        surveys, before = self._surveyed(compact=False), self._current
        if surveys == [] and before is not None:
            return _report(before, Changes(kept=before.size), status="unchanged")
        parts = _without_models(self._new_parts())
        with TemporaryDirectory() as folder:
            intake = Intake(Path(folder), parts, self._store.cache, _Silent(), Comparison(before, surveys))
            with closing(intake):
                read_items(intake, self._sources, surveys)
            publication = Publication(intake, self._sources, self._store, parts, before=before)
            kinds = frozenset(source.kind for source in self._sources)
            report = replace(report_of(publication, parts, self._store, kinds=kinds), recipe=self._recipe_changes)
        same = publication.has_same_records and not report.recipe
        notices = [*report.notices, *self._other_mappings()]
        return replace(report, status="unchanged" if same else "planned", notices=notices)

    def run(self, *, compact: bool = False) -> Report:
        """Bring the index up to date; with `compact`, as one segment. The lock must be held.

        Raises:
            SourceFailed: a source cannot be read, or lost more than `max_shrink` of its records.
            Unavailable, RetrieveError: from the encoder and the store.
        """
        begun, before = time.monotonic(), self._current
        surveys = self._surveyed(compact=compact)
        if surveys == [] and before is not None:
            report = self._unchanged(before)
        else:
            report = apply(
                self._sources,
                self._parts,
                self._store,
                limits=self._limits,
                progress=self._progress,
                before=before,
                surveys=surveys,
                last=self._last,
                compact=compact,
                announced=lambda report: replace(report, recipe=self._recipe_changes).plan(),
            )
            report = replace(report, notices=[*report.notices, *self._other_mappings()])
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
        surveys = [Survey.of(source, now, most=now.size + _FEW) for source in self._sources]
        order = np.concatenate([survey.rows for survey in surveys if survey is not None])
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
        intake = Intake(folder, parts, cache, self._progress, Comparison(), lenders=lenders, again=True)
        with closing(intake):
            read_items(intake, self._sources, None)
            intake.finish()
            intake.write()
            parts.write_graph(folder / GRAPH)

    # ---------------------------------------------------------------------------------------- comparing

    def _surveyed(self, *, compact: bool) -> list[Survey] | None:
        """Fetch and compare the items of all sources; empty if there is nothing to do, None if all must be read."""
        self.failures = fetch_all(self._sources, self._progress.say)
        check_inbox(self._store, self._last)
        before = self._current
        if before is None:
            return None
        named = [(str(source.origin["kind"]), source.name) for source in self._sources]
        # The digest of a document covers its parser: only the documents of another parser are read again.
        recipe = {key.partition(".")[0] for key in self._recipe_changes} - {"documents"}
        if recipe or named != [(source.kind, source.name) for source in before.manifest.sources]:
            return None
        noted = before.manifest.built.get("sources") or [{}] * len(self._sources)
        self._marks = list(map(marks_of, self._sources, noted))
        listed = sum(1 for _ in self._store.rejected())
        if not compact and listed == _rejected(before) and all(map(is_untouched, self._marks, noted)):
            return []
        # Items of which a part was rejected are read again, to report it.
        again = set(map(str, before.manifest.built.get("reread") or ()))
        surveys, most = list[Survey](), max(_FEW, int(_MOST_NEW * before.size))
        for source, marks in zip(self._sources, self._marks, strict=True):
            survey = Survey.of(source, before, most=most, marks=marks, again=again)
            if survey is None:
                return None
            surveys.append(survey)
            most -= len(survey.new)
        return surveys

    @cached_property
    def _recipe_changes(self) -> dict[str, tuple[Json, Json]]:
        """The keys of the recipe of the current generation that would differ now."""
        before = self._current
        if before is None:
            return {}
        recipe = self._parts.recipe_of(kinds_in(before))
        return recipe_changes(before.manifest.recipe.to_json(), recipe.to_json())

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
        return next((one.manifest for one in kept if one.live), kept[-1].manifest if kept else None)

    def _other_mappings(self) -> list[str]:
        """Return a sentence on each source with another inferred mapping than in the last generation."""
        entries = self._last.built.get("sources", ()) if self._last else ()
        noted = {str(entry.get("origin", {}).get("name")): entry for entry in entries}
        sentences = []
        for source in self._sources:
            before, now = noted.get(source.name, {}), mapping_of(source)
            if now.get("inferred") and before.get("fields") not in (None, now["fields"]):
                sentences.append(f"{source.name}: its keys are read as other fields than in the last generation")
            (key, *_), (former, *_) = now.get("reading") or [""], before.get("reading") or [""]
            if key and former and key != former:
                sentences.append(f"{source.name}: {key} (before: {former}), so records have new ids")
        return sentences

    # --------------------------------------------------------------------------------------- reporting

    def _unchanged(self, now: Generation) -> Report:
        """Return the report on an index that is up to date, after what a sync that was killed left undone."""
        self._note(now.manifest)
        tidy(self._store, self._limits.keep, self._progress)
        if push := push_for(self._parts, self._store, self._progress):
            push.send(now)
        return _report(now, Changes(kept=now.size), status="unchanged")

    def _note(self, manifest: Manifest) -> None:
        """Update the places and marks of the sources in the manifest, although their content is the same."""
        entries = zip(manifest.built["sources"], self._marks, strict=True)
        sources = [{**entry, **marks} for entry, marks in entries]
        built = {**manifest.built, "sources": sources, **noted(self._parts, manifest)}
        if built != manifest.built:
            try:
                self._store.note(replace(manifest, built=built))
            except OSError as error:
                self._progress.say(f"the places of the sources could not be updated: {error}")


def _without_models(parts: Parts) -> Parts:
    """Return parts that read and cut records, but encode nothing and write no indexes."""
    recipe = replace(parts.recipe, encoder=None, tokens=None, retrievers={})
    return replace(parts, recipe=recipe, encoder=None, sparse=None, facets=None, writers=dict, workers=lambda _: None)


class _Silent:
    """Progress of a dry run, whose plan is all that it shows."""

    def say(self, sentence: str) -> None:
        """Do nothing."""


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
            push.send(older)
    name = store.roll_back(generation)
    with open_generation(store) as opened:
        changes = Changes.between(before.contents_by_id() if before else {}, opened.contents_by_id())
        report = _report(opened, changes, status="unchanged" if name == was else "published")
        return replace(report, seconds=round(time.monotonic() - begun, 3))


def _report(now: Generation, changes: Changes, *, status: Status) -> Report:
    """Return the report on a current generation that was not written now."""
    return Report(
        status=status,
        generation=now.id,
        records=now.size,
        chunks=now.chunk_size,
        changes=changes,
        kinds=frozenset(source.kind for source in now.manifest.sources),
        quarantined=_rejected(now),
    )


def _rejected(now: Generation) -> int:
    """Return the number of rejected items of a generation."""
    return sum(source.refused for source in now.manifest.sources)
