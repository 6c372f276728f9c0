"""`retrieve web`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from retrieve_cli.api.web_choices import WEB
from retrieve_cli.cli.options import Shared, argument, option, shared
from retrieve_cli.errors import Exit

if TYPE_CHECKING:
    from typer._click import Context


_SEARCH = "search"


class _Questions(TyperGroup):
    """`retrieve web QUESTION` is `retrieve web search QUESTION`: a word that is not a command begins a question."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Return the arguments, with the command in front if it is omitted."""
        if not args or args[0] not in self.commands:
            args = [_SEARCH, *(args or ["--help"])]
        return super().parse_args(ctx, args)


app = typer.Typer(help="Search the web and literature.", rich_markup_mode=None, cls=_Questions)


@app.callback()
def web() -> None:
    """Search the web and literature, or record exchanges with providers."""


@app.command()
@shared("text", "json")
def record(
    text: Annotated[list[str], argument("TEXT...", "The question.")],
    provider: Annotated[list[str], option("--provider", "Record these providers; repeatable.", "A,B")],
    to: Annotated[Path, option("--to", "Folder of the files.", "DIR")],
    k: Annotated[int, option("-k -n --limit", "Number of results.", "N")] = 5,
    since: Annotated[str, option("--since", "Earliest date.", "DATE")] = "",
    category: Annotated[list[str] | None, option("--category", "Categories of arXiv; repeatable.", "A,B")] = None,
    *,
    shared: Shared,
) -> None:
    """Ask providers and write the exchanges to DIR/PROVIDER.json, without credentials."""
    from retrieve_cli.cli import web_answering
    from retrieve_cli.search.web import record_exchanges

    options = web_answering.options_of(
        text, providers=provider, categories=category or (), max_age="off", k=k, since=since
    )
    written = [str(path) for path in record_exchanges(shared.settings(), shared.artifacts, options, to)]
    shared.show({"files": written}, written)


@app.command()
@shared("text", "json", "jsonl", "md", "prompt", table=WEB)
def search(
    text: Annotated[list[str], argument("TEXT...", "The question.")], *, chosen: dict[str, Any], shared: Shared
) -> None:
    """Search the web and literature: retrieve web "crispr off-target". Exit with 8 if a provider failed.

    The question is sent to the configured providers (web.providers), so this is off until web.enabled is true. Keys
    are read from the environment: TAVILY_API_KEY, SERPER_API_KEY, SERPAPI_API_KEY, NCBI_API_KEY, NCBI_EMAIL,
    S2_API_KEY. `retrieve web record` writes exchanges with providers to files, for tests.
    """
    from retrieve_cli.cli import web_answering

    add, explain = chosen.pop("add", False), chosen.pop("explain", False)
    answer = web_answering.answer(shared, web_answering.options_of(text, **chosen))
    web_answering.show(shared, answer, explain=explain)
    if add:
        web_answering.add(shared, answer)
    if answer.partial:
        sys.stdout.flush()
        raise typer.Exit(Exit.PARTIAL)
