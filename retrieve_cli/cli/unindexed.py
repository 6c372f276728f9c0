"""Queries over a folder without an index: it is read, cut and searched for one command, and nothing is kept."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from retrieve_cli.assemble.registry import asked_with_vectors, retriever
from retrieve_cli.assemble.sources import sources_of
from retrieve_cli.cli.options import Shared
from retrieve_cli.cli.progress import progress_for
from retrieve_cli.config.plugins import LLM
from retrieve_cli.config.settings import Settings, SourceSetting
from retrieve_cli.contracts import Source
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.ingest.aside import Aside, build_aside
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store
from retrieve_cli.untrusted.files import MB


class Unindexed(NamedTuple):
    """A searcher over documents that were read for it, and notices about them."""

    searcher: Searcher
    skipped: Mapping[str, str]
    """By retriever that an index would have, why it is missing."""
    notices: Sequence[str]

    def check(self, options: SearchOptions) -> None:
        """Raises: Unavailable: a retriever is missing that is named, or required."""
        settings = self.searcher.settings
        on_gpu = asked_with_vectors() if settings.encoder.device == "cuda" else []
        required = [
            name for name in self.skipped if options.hybrid and (name in on_gpu or retriever(name).required(settings))
        ]
        for name in options.retrievers or (*required, options.mode):
            if (why := self.skipped.get(name)) is not None:
                hint = "ask without it, or build an index: retrieve build --docs-dir DIR"
                raise Unavailable(f"{name} cannot answer without an index: {why}", hint=hint)

    def with_notes(self, answers: Sequence[Answer], options: SearchOptions) -> list[Answer]:
        """Return the answers with notices on what an index would add."""
        skipped = self.skipped if options.hybrid and not options.retrievers else {}
        return [
            replace(
                answer,
                question=replace(answer.question, notices=(*answer.question.notices, *self.notices)),
                strategies_skipped={**skipped, **answer.strategies_skipped},
                notices=(
                    *answer.notices,
                    *self.notices,
                    *(f"{name} is skipped: {why}" for name, why in skipped.items()),
                ),
            )
            for answer in answers
        ]


@contextmanager
def unindexed(shared: Shared, settings: Settings, folder: Path | None) -> Iterator[Unindexed]:
    """Open a folder, or by default those that the configuration lists, as a temporary index; for a language model that
    chooses alone, the catalogs as well.

    Raises:
        UsageError: there is no folder, or it has more than `docs.unindexed_max_mb`.
    """
    sources = _sources(settings, folder)
    _check_size(sources, settings)
    quiet = shared.talk if shared.talk.verbose else replace(shared.talk, quiet=True)
    with TemporaryDirectory(prefix="retrieve-") as aside:
        store = Store(Path(aside))
        with progress_for(quiet, sys.stderr) as progress:
            built = build_aside(sources, settings, store, cache=shared.store.cache, progress=progress)
        yield Unindexed(Searcher(store, settings), built.skipped, _notices(built))


def _sources(settings: Settings, folder: Path | None) -> list[Source]:
    if folder is None:
        settings.expect_trusted("sources")
    kinds = ("docs", "catalog") if settings.search.mode == LLM else ("docs",)
    entries = (
        [SourceSetting("docs", path=folder)]
        if folder
        else [entry for entry in settings.sources.list if entry.kind in kinds]
    )
    if not entries:
        message = "docs.mode: standard_chunking reads the folders that `sources` lists, and it lists none"
        raise UsageError(message, hint="name one: retrieve query --docs-dir DIR TEXT")
    return sources_of(entries, settings, fetched=Path())


def _check_size(sources: Sequence[Source], settings: Settings) -> None:
    """Raises: UsageError: there is more to read than a query may take."""
    left = most = int(settings.docs.unindexed_max_mb * MB)
    for source in sources:
        size, path = getattr(source, "size", None), source.origin["path"]
        left -= Path(path).stat().st_size if size is None else size(left)
        if left < 0:
            message = f"{source.name} has more than {most / MB:g} MB (docs.unindexed_max_mb)"
            hint = f"build an index of it: retrieve build {'--docs-dir' if size else '--catalog'} {path}"
            raise UsageError(message, hint=hint)


def _notices(built: Aside) -> Sequence[str]:
    report = built.report
    if not report.quarantined:
        return ()
    first = report.rejected[0]
    read = report.records + report.quarantined
    return (f"{report.quarantined} of {read} documents cannot be read: {first.source}: {first.reason}",)
