"""`retrieve build`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.errors import Exit, UsageError, printable

if TYPE_CHECKING:
    from retrieve_cli.ingest.report import Report


@shared("text", "json")
def build(
    catalog: Annotated[
        Path | None, typer.Option("--catalog", metavar="FILE", help="A catalog in JSON Lines or JSON-LD.")
    ] = None,
    docs_dir: Annotated[
        Path | None, typer.Option("--docs-dir", metavar="DIR", help="A folder of markdown and text files.")
    ] = None,
    max_fail: Annotated[
        float | None,
        typer.Option(
            "--max-fail", metavar="N", help="Publish nothing above this refused share, or number.  [default: 0.05]"
        ),
    ] = None,
    *,
    shared: Shared,
) -> None:
    """Build the index of a catalog or a folder of documents, and make it the live one."""
    from retrieve_cli.assemble.parts import parts_for
    from retrieve_cli.assemble.sources import sources_of
    from retrieve_cli.cli.progress import progress_for
    from retrieve_cli.config.settings import SourceSetting
    from retrieve_cli.ingest.build import build as run
    from retrieve_cli.ingest.report import Limits

    settings = shared.settings("build", max_fail=max_fail)
    if catalog is not None and docs_dir is not None:
        raise UsageError(
            "--catalog and --docs-dir name one source each", hint="list both under `sources:` in config.yaml"
        )
    given: Sequence[SourceSetting] = settings.sources.list
    if path := catalog or docs_dir:
        given = [SourceSetting("catalog" if catalog else "docs", path=path)]
    if not given:
        hint = "retrieve build --catalog tools.jsonl"
        raise UsageError("name a source: --catalog FILE or --docs-dir DIR, or `sources:` in config.yaml", hint=hint)
    sources = sources_of(given, settings, fetched=shared.store.fetched)
    parts = parts_for(sources, settings)
    limits = Limits(max_fail=settings.build.max_fail, keep=settings.store.keep)
    with progress_for(shared.talk, sys.stderr) as progress:
        if parts.encoder is not None:
            progress.say(f"encoder: {parts.encoder.card.name}, {parts.encoder.device}")
        report = run(sources, parts, shared.store, limits=limits, progress=progress)
    finish(report, shared)


def finish(report: Report, shared: Shared) -> None:
    """Prints what was done, and names what was refused; ends with the code for that."""
    show(report, shared)
    if report.quarantined:
        raise typer.Exit(Exit.PARTIAL)


def show(report: Report, shared: Shared, **more: bool) -> None:
    """Prints what was done, with `more` keys in JSON, and names what was refused."""
    from retrieve_cli.output.formats import dump

    print(dump({**report.to_json(), **more}) if shared.format == "json" else printable(report.sentence()))
    for sentence in report.skipped if report.status != "unchanged" else ():
        shared.talk.say(f"note: {sentence}")
    for item in report.refused[:5]:
        shared.talk.say(f"refused {item.source}:{item.line}: {item.reason}")
    if report.quarantined:
        read = report.records + report.quarantined
        shared.talk.say(f"refused {report.quarantined} of {read} records, listed in {shared.store.quarantine}")
