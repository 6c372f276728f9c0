"""`retrieve sync`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import join
from shutil import copytree
from string import hexdigits
from typing import TYPE_CHECKING, Annotated

import typer

from retrieve_cli.cli import build
from retrieve_cli.cli.agreement import ask_for_servers
from retrieve_cli.cli.failures import failure_of
from retrieve_cli.cli.options import Shared, Talk, argument, option, shared
from retrieve_cli.cli.sync_line import SyncLine, one_line, raise_once
from retrieve_cli.errors import Exit, IndexCorrupt, RetrieveError, UsageError, quoted, shortened
from retrieve_cli.frozen import replace
from retrieve_cli.storage.lock import now

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Json
    from retrieve_cli.ingest.report import Progress, Report
    from retrieve_cli.ingest.sync import Sync


@shared("text", "json")
def sync(
    dry_run: Annotated[bool, option("--dry-run", "Show what would change, without changing it.")] = False,
    compact: Annotated[bool, option("--compact", "Merge all segments into one, as a build would write them.")] = False,
    verify: Annotated[
        bool, option("--verify", "Then rebuild from scratch and compare; exit 5 on a difference.")
    ] = False,
    rollback: Annotated[
        bool, option("--rollback", "Make generation ID current again; by default the one before.")
    ] = False,
    generation: Annotated[str | None, argument("[ID]", "The generation of --rollback.")] = None,
    catalog: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="A catalog the index must have.")] = None,
    docs_dir: Annotated[list[Path] | None, typer.Option(metavar="DIR", help="A folder the index must have.")] = None,
    wait: build.Wait = None,
    no_wait: build.NoWait = False,
    max_fail: build.MaxFail = None,
    max_shrink: Annotated[
        float | None,
        option("--max-shrink", "Abort if a source shrank by more than this share.  [default: 0.5]", "SHARE"),
    ] = None,
    progress: Annotated[
        bool, option("--progress", "Report progress on stderr, as a line of JSON for each step.")
    ] = False,
    workers: build.Workers = None,
    executor: build.Executor = None,
    *,
    shared: Shared,
) -> None:
    """Update the current index from its sources: read what changed, embed only that, publish all of it or nothing."""
    trouble = None
    with one_line(shared) as line:
        if generation and not rollback:
            raise UsageError(f"sync takes no {quoted(generation)}", hint=f"retrieve sync {_meant(generation)}")
        if dry_run and (verify or rollback or compact):
            hint = "leave out --dry-run"
            raise UsageError("--dry-run cannot be combined with --verify, --rollback or --compact", hint=hint)
        if rollback and compact:
            raise UsageError("--rollback cannot be combined with --compact", hint="compact the index afterwards")
        settings = build.waiting(shared, shared.settings("build", max_fail=max_fail), wait=wait, no_wait=no_wait)
        settings = shared.over(settings, "sync", max_shrink=max_shrink)
        settings = shared.over(settings, "executors", workers=workers, executor=executor)
        _expect_sources(shared, settings, catalog or (), docs_dir or ())
        if dry_run:
            _show_plan(shared, settings, line)
        elif rollback:
            _roll_back(shared, settings, generation, line)
        else:
            trouble = _run(shared, settings, line, reports=progress, compact=compact, verify=verify)
    if trouble:
        raise_once(shared, trouble)


def _meant(word: str) -> str:
    """Return the flag for a word that is an id of a generation, or a source."""
    path = Path(word)
    flag = "--rollback" if all(each in hexdigits for each in word) else "--docs-dir" if path.is_dir() else "--catalog"
    return f"{flag} {shortened(word)}"


def _expect_sources(shared: Shared, settings: Settings, catalogs: Sequence[Path], folders: Sequence[Path]) -> None:
    """Check that the index has the sources of the command line. All of its sources are synced, not only the named ones.
    Raises: UsageError: it does not have one; the hint is the command that adds it. IndexMissing, IndexCorrupt: nothing
    names its sources."""
    from retrieve_cli.ingest.sync import entries

    given = [*(("--catalog", path) for path in catalogs), *(("--docs-dir", path) for path in folders)]
    known = entries(settings, shared.store, lambda _: None) if given else ()
    flags = {"catalog": "--catalog", "docs": "--docs-dir"}
    own = [(flags.get(entry.kind, ""), entry.path or Path()) for entry in known if entry.kind != "inbox"]
    places = [(flag, os.path.realpath(path)) for flag, path in own]
    for flag, path in given:
        if (flag, os.path.realpath(path)) not in places:
            command = join(str(word) for source in (*own, (flag, path)) for word in source)
            hint = f"name all sources: retrieve build {command}{build.flags_for(shared)}"
            if settings.sources.list or ("", Path()) in own:
                hint = "add it to `sources:` in config.yaml, then run: retrieve sync"
            names = ", ".join(str(entry.path or entry.name) for entry in known)
            raise UsageError(f"the index has no source {flag} {path}; its sources: {names}", hint=hint)


def _run(
    shared: Shared, settings: Settings, line: SyncLine, *, reports: bool, compact: bool, verify: bool
) -> RetrieveError | None:
    """Sync, with `verify` compare, and print both; return the failure of the comparison, for the sync succeeded."""
    from retrieve_cli.api.building import sync_of
    from retrieve_cli.ingest import schedule

    more: dict[str, Json] = {}
    trouble = None
    with _writing(shared, settings, reports=reports) as progress:
        sync = sync_of(settings, shared.store, progress, checked=verify)
        report = sync.run(compact=compact)
        if verify and report.status != "failed":
            trouble = _difference(sync, report)
            more = {"verified": trouble is None}
            more |= {"error": failure_of(trouble).to_json()} if trouble else {}
    if settings.sync.every_hours:
        schedule.mark(shared.store)
    line.report(report, more=more)
    if trouble is not None:
        build.report_findings(report, shared)
        return trouble
    if more:
        shared.talk.say(f"generation {report.generation} equals a fresh build once it is compacted, byte for byte")
    _finish(report, shared)
    return None


def _difference(sync: Sync, report: Report) -> RetrieveError | None:
    """Return an error if the generation is not what a build would write, or cannot be compared."""
    try:
        differing = sync.verify()
    except RetrieveError as error:
        return error
    if not differing:
        return None
    files = ", ".join(f"{name} {how}" for name, how in differing.items())
    hint = "rebuild it: retrieve build; and please report this, it should not happen"
    return IndexCorrupt(f"generation {report.generation} does not merge into a fresh build: {files}", hint=hint)


def _finish(report: Report, shared: Shared) -> None:
    """List the rejected records and exit with code 8, unless an earlier sync reported them."""
    if report.status != "failed" and not report.rejected_new:
        report = replace(report, quarantined=0, rejected=())
    build.report_findings(report, shared)
    if report.quarantined or report.failures:
        raise typer.Exit(Exit.PARTIAL)


@contextmanager
def _writing(shared: Shared, settings: Settings, *, reports: bool = False) -> Iterator[Progress]:
    """Hold the artifacts folder, and report progress; `reports` are lines of JSON."""
    from retrieve_cli.cli.progress import progress_for

    _check_before_writing(shared, settings)
    _ask_for_servers(shared, settings)
    with (
        progress_for(_quiet_by_default(shared.talk), sys.stderr, reports=reports) as progress,
        shared.store.writer(wait=settings.sync.wait, say=progress.say),
    ):
        yield progress


def _check_before_writing(shared: Shared, settings: Settings) -> None:
    """Before the artifacts folder is made for the first time, check that there is something to put into it.

    Raises:
        IndexMissing, SourceFailed, UsageError: there is not.
    """
    if not shared.store.path.exists():
        from retrieve_cli.api.building import present_entries

        present_entries(settings, shared.store, lambda _: None)


def _ask_for_servers(shared: Shared, settings: Settings) -> None:
    """Ask the user to agree to the servers of tools that the sources name; the sync itself reports errors."""
    from retrieve_cli.ingest.sync import entries

    with suppress(RetrieveError):
        ask_for_servers(entries(settings, shared.store, lambda _: None), quiet=shared.talk.quiet or shared.talk.json)


def _show_plan(shared: Shared, settings: Settings, line: SyncLine) -> None:
    from tempfile import TemporaryDirectory

    from retrieve_cli.api.building import sync_of
    from retrieve_cli.cli.progress import progress_for

    _ask_for_servers(shared, settings)
    with TemporaryDirectory() as temporary, progress_for(_quiet_by_default(shared.talk), sys.stderr) as progress:
        aside = Path(temporary)
        if shared.store.fetched.is_dir():  # a server that does not answer keeps its last tools
            copytree(shared.store.fetched, aside, dirs_exist_ok=True)
        sync = sync_of(settings, shared.store, progress, fetched=aside)
        plan = sync.plan()
    for line_of_notice in "\n".join([*sync.failures, *plan.notices]).splitlines():
        shared.talk.say(line_of_notice)
    same = [f"nothing to do: generation {plan.generation} is up to date"]
    line.write({"time": now(), **plan.to_json()}, plan.plan() if plan.status == "planned" else same)


def _roll_back(shared: Shared, settings: Settings, generation: str | None, line: SyncLine) -> None:
    from retrieve_cli.ingest.sync import roll_back

    if not shared.store.path.exists():
        shared.store.open()  # says that there is no index, and makes no folder
    push = None
    if settings.engines.in_use:
        from retrieve_cli.ingest.pushing import Push

        push = Push(settings, shared.store, shared.talk.say)
    with shared.store.writer(wait=settings.sync.wait, say=shared.talk.say):
        report = roll_back(shared.store, generation, push)
    line.report(report, verb="rolled back to")
    shared.talk.say("the next sync follows the sources again")


def sync_first(shared: Shared, settings: Settings, *, show_reason: bool) -> None:
    """Sync before an answer, if a sync is due. If it fails, the current index answers with a note that has the reason.

    The reason may quote any record: it is shown only to users who may see all records.
    """
    from retrieve_cli.api.building import sync_of
    from retrieve_cli.cli.progress import progress_for
    from retrieve_cli.ingest import schedule

    every_s = (settings.sync.every_hours or 0.0) * schedule.HOUR_S
    if not settings.syncs_each_time and (not every_s or schedule.seconds_left(shared.store, every_s)):
        return
    schedule.mark(shared.store)  # even if it fails: not every query should wait for a source that does not answer
    try:
        _check_before_writing(shared, settings)
        with progress_for(shared.talk._replace(quiet=True), sys.stderr) as progress, shared.store.writer():
            report = sync_of(settings, shared.store, progress).run()
        if report.rejected_new and show_reason:
            from retrieve_cli.contracts.terms.figures import count

            listed = f"{count(report.rejected_new, 'new item')}, listed in {shared.store.quarantine}"
            shared.talk.say(f"note: the sync before this query rejected {listed}")
    except (RetrieveError, OSError) as error:
        reason = error if show_reason else "see retrieve sync"
        shared.talk.say(f"note: the sources were not synced first: {reason}")


def _quiet_by_default(talk: Talk) -> Talk:
    """Return a quiet talk if stderr is not a terminal, unless verbose: cron would mail each line."""
    return talk if sys.stderr.isatty() or talk.verbose else talk._replace(quiet=True)
