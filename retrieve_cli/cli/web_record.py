"""`retrieve web record`: exchanges with providers as files, by which their fakes and parsers are tested."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.errors import printable


@shared("text", "json")
def record(
    text: Annotated[list[str], typer.Argument(metavar="TEXT...", help="The question.")],
    provider: Annotated[
        list[str], typer.Option("--provider", metavar="A,B", help="Record these providers; repeatable.")
    ],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder of the files.")],
    k: Annotated[int, typer.Option("-k", metavar="N", help="Number of results.")] = 5,
    since: Annotated[str, typer.Option("--since", metavar="DATE", help="Earliest date.")] = "",
    category: Annotated[
        list[str] | None, typer.Option("--category", metavar="A,B", help="Categories of arXiv; repeatable.")
    ] = None,
    *,
    shared: Shared,
) -> None:
    """Ask providers and write the exchanges to DIR/PROVIDER.json, without credentials."""
    from retrieve_cli.cli import web_answering
    from retrieve_cli.output.formats import dump
    from retrieve_cli.search.web_record import record_exchanges

    options = web_answering.options_of(
        text, providers=provider, categories=category or (), max_age="off", k=k, since=since
    )
    written = record_exchanges(shared.settings(), shared.artifacts, options, to)
    if shared.format == "json":
        print(dump({"schema_version": 1, "files": [str(path) for path in written]}))
    else:
        print(*(printable(str(path)) for path in written), sep="\n")
