"""Queries over a folder without an index: its documents are read for one command, and nothing is stored."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

from retrieve_cli.api.index import Index
from retrieve_cli.api.requests import Choices
from retrieve_cli.assemble.registry import asked_with_vectors, retriever
from retrieve_cli.assemble.sources import sources_of
from retrieve_cli.cli.options import Shared
from retrieve_cli.cli.progress import progress_for
from retrieve_cli.config.plugins import LLM
from retrieve_cli.config.settings import Settings, SourceSetting
from retrieve_cli.contracts import Request, Source
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.report import Report
from retrieve_cli.ingest.temporary import build_temporary_index
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.storage.store import Store
from retrieve_cli.untrusted.files import MB

_MOST_MB = 10.0
"""Size of the files that are searched without an index."""


class Unindexed(Index):
    """Documents that were read for one command, as a temporary index."""

    def __init__(self, store: Store, settings: Settings, skipped: Mapping[str, str], notices: Sequence[str]) -> None:
        """`skipped` has the retrievers that the index lacks with the reason, `notices` are added to each answer."""
        super().__init__(store, settings)
        self._skipped = skipped
        self._notices = tuple(notices)

    def options(self, **choices: Unpack[Choices]) -> SearchOptions:
        """Raises: Unavailable: a retriever that is named, or required, cannot answer without an index."""
        options, settings = super().options(**choices), self.opened.settings
        on_gpu = asked_with_vectors() if settings.encoder.device == "cuda" else []
        required = [
            name for name in self._skipped if options.hybrid and (name in on_gpu or retriever(name).required(settings))
        ]
        for name in options.retrievers or (*required, options.mode):
            if (why := self._skipped.get(name)) is not None:
                hint = "ask without it, or build an index: retrieve build --docs-dir DIR"
                raise Unavailable(f"{name} cannot answer without an index: {why}", hint=hint)
        return options

    def answer(self, requests: Sequence[Request], options: SearchOptions) -> list[Answer]:
        """Return the answers, with notices on what an index would add."""
        skipped = self._skipped if options.hybrid and not options.retrievers else {}
        said = (*self._notices, *(f"{name} is skipped: {why}" for name, why in skipped.items()))
        return [
            replace(
                answer,
                question=replace(answer.question, notices=(*answer.question.notices, *self._notices)),
                strategies_skipped={**skipped, **answer.strategies_skipped},
                notices=(*answer.notices, *said),
            )
            for answer in super().answer(requests, options)
        ]

    def at(self, generation: str | None) -> Index:
        """Raises: UsageError: a generation is named."""
        if generation is not None:
            raise UsageError("a folder without an index has no generations", hint="remove `generation`")
        return self


@contextmanager
def unindexed(shared: Shared, settings: Settings, folder: Path | None, note: str) -> Iterator[Unindexed]:
    """Open a folder, by default the configured folders, as a temporary index; for a language model that chooses alone,
    the catalogs as well. A `note` is added to each answer.

    Raises:
        UsageError: there is no folder, or it has more than `_MOST_MB`.
    """
    sources = _sources(settings, folder)
    left = most = int(_MOST_MB * MB)
    for source in sources:
        size, path = getattr(source, "size", None), source.origin["path"]
        left -= Path(path).stat().st_size if size is None else size(left)
        if left < 0:
            message = f"{source.name} has more than {most / MB:g} MB, too much to search without an index"
            hint = f"build an index of it: retrieve build {'--docs-dir' if size else '--catalog'} {path}"
            raise UsageError(message, hint=hint)
    quiet = shared.talk if shared.talk.verbose else shared.talk._replace(quiet=True)
    with TemporaryDirectory(prefix="retrieve-") as aside:
        store = Store(Path(aside))
        with progress_for(quiet, sys.stderr) as progress:
            report, skipped = build_temporary_index(sources, settings, store, progress=progress)
        yield Unindexed(store, settings, skipped, [*filter(None, [note]), *_notices(report)])


def _sources(settings: Settings, folder: Path | None) -> list[Source]:
    if folder is None:
        settings.expect_trusted("sources")
    kinds = ("docs", "catalog") if settings.search.mode == LLM else ("docs",)
    listed = [entry for entry in settings.sources.list if entry.kind in kinds]
    entries = [SourceSetting("docs", path=folder)] if folder else listed
    if not entries:
        message = "docs.mode: standard_chunking reads the folders that `sources` lists, and it lists none"
        raise UsageError(message, hint="name one: retrieve query --docs-dir DIR TEXT")
    return sources_of(entries, settings, fetched=Path())


def _notices(report: Report) -> Sequence[str]:
    if not report.quarantined:
        return ()
    first = report.rejected[0]
    read = report.records + report.quarantined
    return (f"{report.quarantined} of {read} documents cannot be read: {first.source}: {first.reason}",)
