"""`retrieve build`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.errors import Exit, UsageError


@shared("text", "json")
def build(
    catalog: Annotated[Path | None, typer.Option("--catalog", metavar="FILE", help="A catalog in JSON Lines.")] = None,
    docs_dir: Annotated[
        Path | None, typer.Option("--docs-dir", metavar="DIR", help="A folder of markdown and text files.")
    ] = None,
    max_fail: Annotated[
        float | None,
        typer.Option("--max-fail", metavar="SHARE", help="Publish nothing above this refused share.  [default: 0.05]"),
    ] = None,
    *,
    shared: Shared,
) -> None:
    """Build the index of a catalog or a folder of documents, and make it the live one."""
    from retrieve_cli import assemble
    from retrieve_cli.build import build as run
    from retrieve_cli.cli.progress import progress_for
    from retrieve_cli.render import dump

    settings = shared.settings("build", max_fail=max_fail)
    if catalog is not None and docs_dir is None:
        source = assemble.catalog_source(catalog, settings)
    elif docs_dir is not None and catalog is None:
        source = assemble.folder_source(docs_dir, settings)
    else:
        raise UsageError(
            "name one source: --catalog FILE or --docs-dir DIR", hint="retrieve build --catalog tools.jsonl"
        )
    parts = assemble.build_parts(source, settings)
    with progress_for(shared.talk, sys.stderr) as progress:
        progress.say(f"encoder: {parts.encoder.card.name}, {parts.encoder.device}")
        report = run(source, parts, shared.store, max_fail=settings.build.max_fail, progress=progress)
    print(dump(report.to_json()) if shared.format == "json" else report.sentence())
    for item in report.refused[:5]:
        shared.talk.say(f"refused {item.source}:{item.line}: {item.reason}")
    if report.refused:
        read = report.records + len(report.refused)
        shared.talk.say(f"refused {len(report.refused)} of {read} records, listed in {shared.store.quarantine}")
        raise typer.Exit(Exit.PARTIAL)
