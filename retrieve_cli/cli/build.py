"""`retrieve build`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from retrieve_cli.api.named_sources import excluding, named_sources, servers_of
from retrieve_cli.cli.agreement import ask_for_servers
from retrieve_cli.cli.options import Shared, argument, option, shared
from retrieve_cli.cli.sync_line import SyncLine
from retrieve_cli.errors import Exit, RetrieveError, UsageError

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings, SourceSetting
    from retrieve_cli.ingest.report import Report

_EXAMPLES = 20
"""Records that are looked at for an example."""
_PLAIN = re.compile(r"[^\W_][\w .,:()/+-]{2,58}[\w)]")
"""A name that needs no escapes between quotation marks."""

Wait = Annotated[float | None, option("--wait", "Wait this long for another writer.  [default: 30]", "SECONDS")]
NoWait = Annotated[bool, option("--no-wait", "Exit with 7 at once if another writer is at work.")]
MaxFail = Annotated[
    float | None,
    option(
        "--max-fail",
        "Abort if more than N records are rejected (a share if at most 1).  [default: 0.05, from 20 records on]",
        "N",
    ),
]

Workers = Annotated[
    int | None, option("--workers", "Embed in N processes; 0: in this one.  [default: 0]", "N", min=0, max=256)
]
Executor = Annotated[str | None, option("--executor", "Embed on a Ray cluster: ray:auto or ray:ADDRESS.", "WHERE")]


@shared("text", "json")
def build(
    sources: Annotated[
        list[str] | None, argument("[SOURCE]...", "Catalogs (JSON Lines, CSV, Excel, …) and folders of documents.")
    ] = None,
    catalog: Annotated[
        list[Path] | None, option("--catalog", "A catalog: JSON Lines, JSON-LD or a table; repeatable.", "FILE")
    ] = None,
    docs_dir: Annotated[list[Path] | None, option("--docs-dir", "A folder of documents; repeatable.", "DIR")] = None,
    mcp: Annotated[
        list[str] | None,
        option("--mcp", "A server of tools: its command, as one word, or its address; repeatable.", "SERVER"),
    ] = None,
    exclude: Annotated[
        list[str] | None, option("--exclude", "Skip files and folders, as in .gitignore; repeatable.", "PATTERN")
    ] = None,
    name: Annotated[str | None, option("--name", "Name of the index, for agents that have several.", "TEXT")] = None,
    describe: Annotated[
        str | None, option("--describe", "Description of the index; default: made from its contents.", "TEXT")
    ] = None,
    wait: Wait = None,
    no_wait: NoWait = False,
    max_fail: MaxFail = None,
    workers: Workers = None,
    executor: Executor = None,
    *,
    shared: Shared,
) -> None:
    """Build an index of catalogs and folders of documents, and make it the current one.

    Sources named here replace `sources:` in config.yaml, which is the default.
    """
    from retrieve_cli.api.building import run_build
    from retrieve_cli.cli.progress import progress_for

    settings = waiting(shared, shared.settings("build", max_fail=max_fail), wait=wait, no_wait=no_wait)
    settings = shared.over(settings, "executors", workers=workers, executor=executor)
    settings = shared.over(settings, "about", name=name, description=describe)
    named = [*named_sources(sources or (), catalog or (), docs_dir or ()), *servers_of(mcp or ())]
    entries = excluding(_entries(shared, settings, named), exclude or ())
    ask_for_servers(entries, quiet=shared.talk.quiet or shared.talk.json)
    before = shared.store.live()
    with progress_for(shared.talk, sys.stderr) as progress:
        report = run_build(entries, settings, shared.store, progress)
    SyncLine(shared).report(report)
    report_findings(report, shared)
    changes = report.changes
    if changes.removed and not (changes.kept or changes.changed) and before and shared.store.has(before):
        back = f"retrieve sync --rollback {before}{flags_for(shared)}"
        shared.talk.say(f"replaces all records of generation {before}; go back: {back}")
    if report.status != "failed" and not (shared.talk.quiet or shared.talk.json):
        shared.talk.say(f'next: retrieve query "{_example(shared)}"{flags_for(shared)}')
    if report.quarantined or report.failures:
        raise typer.Exit(Exit.PARTIAL)


def waiting(shared: Shared, settings: Settings, *, wait: float | None, no_wait: bool) -> Settings:
    """Return the settings with the wait for another writer that the flags give.

    Raises:
        UsageError: the flags contradict each other.
    """
    if no_wait and wait:
        raise UsageError("--wait and --no-wait contradict each other", hint="give one of them")
    return shared.over(settings, "sync", wait=0.0 if no_wait else wait)


def report_findings(report: Report, shared: Shared) -> None:
    """Print the facets made, skipped files and rejected records; store that the user trusts the index."""
    from retrieve_cli.assemble.trusted import agree

    if report.status != "failed":
        agree(shared.artifacts, shared.talk.say)
    for sentence in report.facets.sentences() if report.facets else ():
        shared.talk.say(sentence)
    for sentence in report.skipped if report.status != "unchanged" else ():
        shared.talk.say(f"note: {sentence}")
    for sentence in report.failures:
        shared.talk.say(f"note: {sentence}")
    for item in report.rejected[:5]:
        shared.talk.say(f"rejected {item.source}:{item.line}: {item.reason}")
    if report.quarantined:
        read = report.records + report.quarantined
        shared.talk.say(f"rejected {report.quarantined:,} of {read:,}, listed in {shared.store.quarantine}")


def _entries(shared: Shared, settings: Settings, named: Sequence[SourceSetting]) -> Sequence[SourceSetting]:
    """The sources of the command line, by default of the configuration. Raises: UsageError if there is no source."""
    from retrieve_cli.api.named_sources import no_source
    from retrieve_cli.assemble.sources import with_inbox

    listed = settings.sources.list
    if not named:
        settings.expect_trusted("sources")
        entries = with_inbox(listed, shared.store.path)
        if not entries:
            raise no_source()
        return entries
    if listed and [_place(entry) for entry in listed] != [_place(entry) for entry in named]:
        shared.talk.say("note: `sources:` of the configuration is not used; the next retrieve sync follows it again")
    return with_inbox(named, shared.store.path)


def _place(entry: SourceSetting) -> tuple[str, Path | None, str | None]:
    return entry.kind, entry.path.absolute() if entry.path else None, entry.command or entry.url


def flags_for(shared: Shared) -> str:
    """The flags with which a suggested command finds this index."""
    return "".join(f" {quote(word)}" for word in shared.place_flags)


def _example(shared: Shared) -> str:
    """A query that finds something: a name from the index that needs no quoting."""
    from retrieve_cli.storage.generation import open_generation

    try:
        with open_generation(shared.store) as generation:
            rows = generation.in_order()[:_EXAMPLES]
            names = [name for row in rows if _PLAIN.fullmatch(name := str(generation.records[row].get("name", "")))]
    except RetrieveError:  # another writer was quicker
        names = []
    return next((name for name in names if " " in name), next(iter(names), "what you are looking for"))
