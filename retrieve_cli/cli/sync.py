"""`retrieve sync`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from retrieve_cli.cli.build import finish
from retrieve_cli.cli.options import Shared, Talk, shared
from retrieve_cli.errors import Exit, RetrieveError, UsageError

if TYPE_CHECKING:
    from retrieve_cli.build import Progress
    from retrieve_cli.config import Settings
    from retrieve_cli.sync import Sync


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
        raise UsageError(f"sync takes no {generation!r}", hint=f"retrieve sync --rollback {generation}")
    if dry_run and (verify or rollback):
        raise UsageError("--dry-run changes nothing and goes with neither --verify nor --rollback", hint="leave it out")
    settings = shared.settings("build", max_fail=max_fail)
    settings = shared.over(settings, "sync", wait=0.0 if no_wait else wait, max_shrink=max_shrink)
    with _summary_of_failure(shared):
        if dry_run:
            _show_plan(shared, settings)
        elif rollback:
            _roll_back(shared, settings, generation)
        else:
            _run(shared, settings, verify=verify)


def _run(shared: Shared, settings: Settings, *, verify: bool) -> None:
    from retrieve_cli.cli.progress import progress_for

    with (
        progress_for(_quiet_by_default(shared.talk), sys.stderr) as progress,
        shared.store.writer(wait=settings.sync.wait, say=progress.say),
    ):
        sync = prepare(shared, settings, progress)
        report = sync.run()
        differing = sync.verify() if verify and report.status != "failed" else {}
    if differing:
        what = ", ".join(f"{name} {how}" for name, how in differing.items())
        hint = "write it anew: retrieve build; and report this, it should not happen"
        raise _NotEqual(f"generation {report.generation} is not what a fresh build gives: {what}", hint=hint)
    if verify and report.status != "failed":
        shared.talk.say(f"generation {report.generation} equals a fresh build, byte for byte")
    finish(report, shared)


class _NotEqual(RetrieveError):
    code = Exit.INDEX_CORRUPT
    kind = "index_corrupt"


def _show_plan(shared: Shared, settings: Settings) -> None:
    from retrieve_cli.cli.progress import progress_for
    from retrieve_cli.render import dump

    with TemporaryDirectory() as aside, progress_for(_quiet_by_default(shared.talk), sys.stderr) as progress:
        plan = prepare(shared, settings, progress, fetched=Path(aside)).plan()
    if shared.format == "json":
        print(dump(plan.to_json()))
        return
    for sentence in plan.sentences() if plan.needed else [f"nothing to do: generation {plan.generation} is up to date"]:
        print(sentence)


def _roll_back(shared: Shared, settings: Settings, generation: str | None) -> None:
    from retrieve_cli.render import dump
    from retrieve_cli.sync import roll_back

    with shared.store.writer(wait=settings.sync.wait, say=shared.talk.say):
        report = roll_back(shared.store, generation)
    print(dump(report.to_json()) if shared.format == "json" else report.sentence())
    shared.talk.say("the next sync follows the sources again")


def prepare(shared: Shared, settings: Settings, progress: Progress, *, fetched: Path | None = None) -> Sync:
    """A sync of the sources that the configuration or the live generation names."""
    from retrieve_cli.assemble.parts import parts_for
    from retrieve_cli.assemble.sources import sources_of
    from retrieve_cli.build import Limits
    from retrieve_cli.sync import Sync, entries

    store = shared.store
    sources = sources_of(entries(settings, store, progress.say), settings, fetched=fetched or store.fetched)
    limits = Limits(max_fail=settings.build.max_fail, max_shrink=settings.sync.max_shrink, keep=settings.store.keep)
    return Sync(sources, partial(parts_for, sources, settings), store, limits=limits, progress=progress)


def sync_first(shared: Shared, settings: Settings) -> None:
    """Syncs on the way to an answer (`sources.auto_sync`); where that fails, the live index answers and says why."""
    from retrieve_cli.cli.progress import progress_for

    try:
        with progress_for(replace(shared.talk, quiet=True), sys.stderr) as progress, shared.store.writer():
            prepare(shared, settings, progress).run()
    except RetrieveError as error:
        shared.talk.say(f"note: the sources were not synced first: {error.message}")


def _quiet_by_default(talk: Talk) -> Talk:
    """Off a terminal a sync says nothing on its way, unless asked to: cron would mail it."""
    return talk if sys.stderr.isatty() or talk.verbose else replace(talk, quiet=True)


@contextmanager
def _summary_of_failure(shared: Shared) -> Iterator[None]:
    """Who reads the summary gets one on a failure too."""
    try:
        yield
    except (RetrieveError, OSError) as error:
        if shared.format == "json":
            from retrieve_cli.changes import Changes
            from retrieve_cli.render import dump

            nothing = {**Changes().counts, "quarantined": 0, "seconds": 0.0}
            print(dump({"status": "failed", "generation": shared.store.live(), **nothing, "error": str(error)}))
        raise
