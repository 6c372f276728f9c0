"""`retrieve query --web`: results of the web and literature beneath those of the index, never among them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from retrieve_cli.cli import printing, web_answering
from retrieve_cli.cli.options import Shape, Shared
from retrieve_cli.errors import Exit, UsageError
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.web_answer import WebAnswer, WebOptions

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings

_FORMATS = ("text", "table", "json", "md", "prompt")


class WebSection:
    """The part of one answer that comes from the web."""

    def __init__(self, shared: Shared, settings: Settings, *, batch: bool) -> None:
        """Raises: UsageError if web search is off, or the flags do not go with it."""
        from retrieve_cli.search.web_choice import check

        if batch:
            raise UsageError("--web answers one query", hint="retrieve query --web TEXT")
        if shared.format not in _FORMATS:
            message = f"--format {shared.format} has no place for --web"
            raise UsageError(message, hint=f"formats with a web section: {', '.join(_FORMATS)}")
        check(WebOptions("web"), settings)
        self._answer: WebAnswer | None = None

    def write(self, answers: Sequence[Answer], shared: Shared, shape: Shape) -> None:
        """Print the local answer, then the section; in JSON, the section is the key `web`."""
        from retrieve_cli.output.formats import answer_json, dump
        from retrieve_cli.output.web_works import web_json

        (answer,) = answers
        if shared.format != "json":
            printing.print_answers(answers, shared, shape)
            sys.stdout.flush()  # it is not withheld until providers answer
        found = self._answer = web_answering.answer(
            shared, WebOptions(answer.question.clean or answer.query.text), save_run=False
        )
        if shared.format == "json":
            print(dump({**answer_json(answer), "web": web_json(found)}))
            return
        print("\n## From the web\n" if shared.format in ("md", "prompt") else "\nFrom the web:\n")
        web_answering.show(shared, found, explain=shape.explain)

    def end(self) -> None:
        """Raises: typer.Exit if a provider failed."""
        if self._answer is not None and self._answer.partial:
            raise typer.Exit(Exit.PARTIAL)
