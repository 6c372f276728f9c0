"""From the flags of `retrieve query` to answers on stdout: one query here, several in stdin_queries.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import typer

from retrieve_cli.api.index import Index
from retrieve_cli.cli import printing
from retrieve_cli.cli.options import OutputFlags, Shared
from retrieve_cli.config.plugins import HYBRID, LLM
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Request
from retrieve_cli.errors import Exit, UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.options import SearchOptions

NOTHING: Mapping[str, Any] = {}
Writing = Callable[[Sequence[Answer], Shared, OutputFlags], None]
"""Writes answers to stdout."""


class Run(NamedTuple):
    """The flags of one call of `retrieve query`."""

    shared: Shared
    settings: Settings
    asked: Request
    """Values of its flags that hold for every query."""
    shape: OutputFlags
    choices: Mapping[str, Any]
    """`k`, and the choices that have no key in the configuration."""
    given: Mapping[str, str]
    """Keys that the configuration sets, and where."""
    docs_dir: Path | None
    picture: Path | None
    save_run: bool
    strict_fresh: bool
    exit_status: bool

    @property
    def unindexed(self) -> bool:
        """True if folders are searched without an index, or a language model reads records that have no index."""
        if self.docs_dir is not None or self.settings.docs.mode == "standard_chunking":
            return True
        reads_records = self.settings.search.mode == LLM or self._falls_back
        return reads_records and bool(self.settings.sources.list) and self.shared.store.current() is None

    @property
    def _falls_back(self) -> bool:
        """True if a configured language model may answer in place of an index that is missing."""
        settings = self.settings
        configured = settings.llm.base_url is not None or settings.rerank.backend == LLM
        syncs = settings.syncs_each_time or settings.sync.every_hours
        return configured and settings.search.mode == HYBRID and not (syncs or self.choices.get("retrievers"))

    def options(self, index: Index, choices: Mapping[str, Any] = NOTHING) -> SearchOptions:
        """Return the options of the flags, with the choices of a line in their place.

        Raises:
            UsageError: a choice is unknown or takes another value.
            Unavailable: a folder is read as an index, and a retriever is named or required that it cannot have.
        """
        return index.options(**{**self.choices, **choices})

    def check(self) -> None:
        """Raises: UsageError if flags contradict each other."""
        if self.picture is not None:
            if self.shape.batch:
                raise UsageError("--picture draws a page for one query", hint="retrieve query --picture OUT.png TEXT")
            from retrieve_cli.cli.picturing import expect_png

            expect_png(self.picture)
        if self.save_run and self.unindexed:
            message = "--save-run keeps a run beside its index, and there is no index"
            raise UsageError(message, hint="retrieve build")

    def end(self, *, stale: bool, found: bool) -> None:
        """Raises: typer.Exit if the flags ask for another exit code."""
        if self.strict_fresh and stale:
            raise typer.Exit(Exit.STALE)
        if self.exit_status and not found:
            raise typer.Exit(Exit.NO_RESULT)


@contextmanager
def opened(run: Run, *, show_reason: bool) -> Iterator[Index]:
    """Open the index, after a sync if the configuration wants one, or read the folder.

    `show_reason`: every query may see all records, so the reason of a failed sync may be printed.
    """
    shared, settings = run.shared, run.settings
    if run.unindexed:
        from retrieve_cli.cli.folder_queries import unindexed

        note = ""
        if run.docs_dir is None and settings.docs.mode != "standard_chunking" and settings.search.mode != LLM:
            note = (
                f"there is no index in {shared.artifacts}: the language model alone chooses; retrieve build makes one"
            )
            settings = replace(settings, search=replace(settings.search, mode=LLM))
        with unindexed(shared, settings, run.docs_dir, note) as folder:
            run.options(folder)
            yield folder
        return
    if settings.syncs_each_time or settings.sync.every_hours:
        from retrieve_cli.cli.sync import sync_first

        sync_first(shared, settings, show_reason=show_reason)
    index = Index(shared.store, settings)
    printing.note_unapplied(shared, settings, index.opened.generation, given=run.given)
    run.options(index)
    yield index


def answer_one(run: Run, request: Request) -> None:
    """Answer the query of a command line."""
    with opened(run, show_reason=request.tenant is None) as index:
        answers = index.answer([request], run.options(index))
        tell_generation(run, index, all_records=request.tenant is None)
        show(run, index, answers)
    run.end(stale=is_stale(answers[0]), found=bool(answers[0].results))


def is_stale(answer: Answer) -> bool:
    """Return True if the source of a result has changed since the build."""
    return any(result.freshness != "fresh" for result in (*answer.results, *answer.related))


def tell_generation(run: Run, index: Index, *, all_records: bool) -> None:
    """With -v, name the generation; its size to those who may see all records."""
    generation = index.opened.generation
    size = f", {generation.chunk_size} chunks" if all_records else ""
    run.shared.talk.detail(f"generation {generation.manifest.id}{size}")


def show(run: Run, index: Index, answers: Sequence[Answer], *, write: Writing | None = None) -> None:
    """Print answers, by default in the format of the command; save the run and draw the picture if flags ask for it."""
    if run.save_run:
        from retrieve_cli.cli import answer_records

        answers = answer_records.saved(answers, run.shared, opened=index.opened, options=run.options(index))
    printing.print_notices(answers, run.shared, files=() if run.shape.batch else run.asked.files)
    written = [answer.without_times() for answer in answers] if run.shape.timing is False else answers
    (write or printing.print_answers)(written, run.shared, run.shape)
    if run.picture is not None:
        from retrieve_cli.cli.picturing import draw

        draw(run.picture, answers[0], index.opened, run.shared)
    empty = [answer for answer in answers if not answer.results]
    printed = run.shared.talk.verbose and not run.shared.talk.quiet
    kept = run.settings.log.queries and not run.unindexed
    if not (empty or printed or kept):
        return
    from retrieve_cli.cli import answer_records

    if empty and not run.shared.talk.quiet:
        answer_records.explain_empty(index.opened, empty, run.shared, ids=run.shape.ids)
    if printed:
        answer_records.log_answers(answers, min_candidates=run.settings.log.min_candidates)
    if kept:
        with suppress(BrokenPipeError):  # which ends the command when all is done
            sys.stdout.flush()
        answer_records.log_queries(answers, run.shared, run.settings)
