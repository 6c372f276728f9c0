"""`retrieve sync`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieve_cli.cli.build import finish, show
from retrieve_cli.cli.options import Shared, Talk, shared
from retrieve_cli.errors import Exit, RetrieveError, UsageError, printable, quoted

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.ingest.report import Progress
    from retrieve_cli.ingest.sync import Sync


@shared("text", "json")
def sync(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Then build it all anew, and compare; exit 5 on a difference.")
    ] = False,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Make generation ID live again; the one before by default.")
    ] = False,
    generation: Annotated[str | None, typer.Argument(metavar="[ID]", help="The generation of --rollback.")] = None,
    wait: Annotated[
        float | None,
        typer.Option("--wait", metavar="SECONDS", help="Wait so long for another writer.  [default: 30]"),
    ] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Exit with 7 at once if there is one.")] = False,
    max_fail: Annotated[
        float | None,
        typer.Option(
            "--max-fail", metavar="N", help="Publish nothing above this refused share, or number.  [default: 0.05]"
        ),
    ] = None,
    max_shrink: Annotated[
        float | None,
        typer.Option(
            "--max-shrink", metavar="SHARE", help="Nor if a source lost more than this share.  [default: 0.5]"
        ),
    ] = None,
    *,
    shared: Shared,
) -> None:
    """Bring the live index up to its sources: read what changed, embed only that, publish it at once or not at all."""
    if no_wait and wait:
        raise UsageError("--wait and --no-wait contradict each other", hint="give one of them")
    if generation and not rollback:
        raise UsageError(f"sync takes no {quoted(generation)}", hint=f"retrieve sync --rollback {generation}")
    if dry_run and (verify or rollback):
        raise UsageError("--dry-run changes nothing and goes with neither --verify nor --rollback", hint="leave it out")
    trouble = None
    with _summary_of_failure(shared):
        settings = shared.settings("build", max_fail=max_fail)
        settings = shared.over(settings, "sync", wait=0.0 if no_wait else wait, max_shrink=max_shrink)
        if dry_run:
            _show_plan(shared, settings)
        elif rollback:
            _roll_back(shared, settings, generation)
        elif verify:
            trouble = _run_and_verify(shared, settings)
        else:
            _run(shared, settings)
    if trouble:
        raise trouble


def _run(shared: Shared, settings: Settings) -> None:
    from retrieve_cli.ingest import schedule

    with _writing(shared, settings) as progress:
        report = prepare(shared, settings, progress).run()
    if settings.sync.every_hours:
        schedule.mark(shared.store)
    finish(report, shared)


def _run_and_verify(shared: Shared, settings: Settings) -> RetrieveError | None:
    """Syncs, compares, prints both; what the comparison found is returned, for the sync itself has succeeded."""
    trouble: RetrieveError | None = None
    with _writing(shared, settings) as progress:
        sync = prepare(shared, settings, progress, read_all=True)
        report = sync.run()
        if report.status == "failed":
            finish(report, shared)
        try:
            if differing := sync.verify():
                trouble = _NotEqual.of(report.generation, differing)
        except RetrieveError as error:
            trouble = error
    show(report, shared, verified=trouble is None)
    if trouble is None:
        shared.talk.say(f"generation {report.generation} equals a fresh build, byte for byte")
        if report.quarantined:
            raise typer.Exit(Exit.PARTIAL)
    return trouble


@contextmanager
def _writing(shared: Shared, settings: Settings) -> Iterator[Progress]:
    """Holds the artifacts folder, with somebody to tell how far it is."""
    from retrieve_cli.cli.progress import progress_for

    with (
        progress_for(_quiet_by_default(shared.talk), sys.stderr) as progress,
        shared.store.writer(wait=settings.sync.wait, say=progress.say),
    ):
        yield progress


class _NotEqual(RetrieveError):
    code = Exit.INDEX_CORRUPT
    kind = "index_corrupt"

    @classmethod
    def of(cls, generation: str | None, differing: Mapping[str, str]) -> _NotEqual:
        """The difference in a sentence."""
        what = ", ".join(f"{name} {how}" for name, how in differing.items())
        hint = "write it anew: retrieve build; and report this, it should not happen"
        return cls(f"generation {generation} is not what a fresh build gives: {what}", hint=hint)


def _show_plan(shared: Shared, settings: Settings) -> None:
    from tempfile import TemporaryDirectory

    from retrieve_cli.cli.progress import progress_for
    from retrieve_cli.output.formats import dump

    with TemporaryDirectory() as aside, progress_for(_quiet_by_default(shared.talk), sys.stderr) as progress:
        plan = prepare(shared, settings, progress, fetched=Path(aside)).plan()
    if shared.format == "json":
        print(dump(plan.to_json()))
        return
    for sentence in plan.sentences() if plan.needed else [f"nothing to do: generation {plan.generation} is up to date"]:
        print(printable(sentence))


def _roll_back(shared: Shared, settings: Settings, generation: str | None) -> None:
    from retrieve_cli.ingest.sync import roll_back
    from retrieve_cli.output.formats import dump

    with shared.store.writer(wait=settings.sync.wait, say=shared.talk.say):
        report = roll_back(shared.store, generation)
    print(dump(report.to_json()) if shared.format == "json" else printable(report.sentence()))
    shared.talk.say("the next sync follows the sources again")


def prepare(
    shared: Shared, settings: Settings, progress: Progress, *, fetched: Path | None = None, read_all: bool = False
) -> Sync:
    """A sync of the sources that the configuration or the live generation names."""
    from retrieve_cli.assemble.parts import parts_for
    from retrieve_cli.assemble.sources import sources_of
    from retrieve_cli.ingest.report import Limits
    from retrieve_cli.ingest.sync import Sync, entries
    from retrieve_cli.ingest.unread import Unread

    store = shared.store
    sources = sources_of(entries(settings, store, progress.say), settings, fetched=fetched or store.fetched)
    limits = Limits(max_fail=settings.build.max_fail, max_shrink=settings.sync.max_shrink, keep=settings.store.keep)
    unread = None if read_all else Unread(store)
    return Sync(sources, partial(parts_for, sources, settings), store, limits=limits, progress=progress, unread=unread)


def sync_first(shared: Shared, settings: Settings, *, show_reason: bool) -> None:
    """Sync on the way to an answer, if it is time to; if that fails, the current index answers and says why.

    The reason may quote any record: it is shown only to those who may see all of them.
    """
    from retrieve_cli.cli.progress import progress_for
    from retrieve_cli.ingest import schedule

    if not settings.syncs_each_time and not schedule.due(shared.store, settings.sync.every_hours):
        return
    schedule.mark(shared.store)  # also if it fails: a source that does not answer is not asked again by every query
    try:
        with progress_for(replace(shared.talk, quiet=True), sys.stderr) as progress, shared.store.writer():
            prepare(shared, settings, progress).run()
    except (RetrieveError, OSError) as error:
        shared.talk.say(
            "note: the sources were not synced first: " + (str(error) if show_reason else "see retrieve sync")
        )


def _quiet_by_default(talk: Talk) -> Talk:
    """Off a terminal a sync says nothing on its way, unless asked to: cron would mail it."""
    return talk if sys.stderr.isatty() or talk.verbose else replace(talk, quiet=True)


def _live(shared: Shared) -> str | None:
    try:
        return shared.store.live()
    except RetrieveError:  # a folder that cannot be one of artifacts
        return None


@contextmanager
def _summary_of_failure(shared: Shared) -> Iterator[None]:
    """Who reads the summary gets one on a failure too."""
    try:
        yield
    except BaseException as error:
        if shared.format == "json" and not isinstance(error, typer.Exit):
            from retrieve_cli.ingest.changes import Changes
            from retrieve_cli.output.formats import dump

            state = {"status": "failed", "generation": _live(shared)}
            nothing = {**Changes().counts, "quarantined": 0, "seconds": 0.0}
            print(dump({**state, **nothing, "error": str(error) or "interrupted"}))
        raise
