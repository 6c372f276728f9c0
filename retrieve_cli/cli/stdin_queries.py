"""`retrieve query -`: the queries of stdin, answered together or, with --stream, each as it arrives.

A line that is not a query, or that names a missing generation, gets an error; the other lines are answered, and the
exit code reports that some were not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import typer

from retrieve_cli.api.asked import Asked, answer_each, answer_groups, expect_sound
from retrieve_cli.api.index import Index
from retrieve_cli.cli import answering, requests
from retrieve_cli.cli.answering import Run
from retrieve_cli.cli.failures import failure_of
from retrieve_cli.cli.requests import BadLine
from retrieve_cli.errors import STEP_FAILURES, Exit, RetrieveError, UsageError, quoted
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.searcher import Searcher

Outcome = Answer | BadLine
_STREAMED = ("text", "table", "json", "jsonl", "md")
"""Formats in which answers can be written one after the other."""


def answer_batch(run: Run) -> None:
    """Answer all queries of stdin as one batch."""
    lines = list(requests.from_stdin(run.asked))
    sound = [line for line in lines if isinstance(line, Asked)]
    if run.save_run and any(map(_own, sound)):
        message = "--save-run stores one set of choices for all queries, and a line has its own choices"
        raise UsageError(message, hint="give them as flags, or query without --save-run")
    all_records = all(line.request.tenant is None for line in sound)
    with answering.opened(run, show_reason=all_records) as index:
        if run.choices["facets"] or any(_own(line) for line in sound):
            expect_sound(Searcher(index.opened), run.asked, facets=run.choices["facets"])
        answers = iter(answer_groups(sound, partial(_answer_group, index=index, run=run)))
        answering.tell_generation(run, index, all_records=all_records)
        outcomes = [line if isinstance(line, BadLine) else _outcome(line, next(answers)) for line in lines]
        _show(outcomes, run, index)
    tally = BatchTally()
    tally.add(outcomes)
    tally.end(run)


def answer_stream(run: Run) -> None:
    """Answer each query of stdin as it arrives, by the generation that is current then, until stdin ends."""
    shared = run.shared
    if (shared.format not in _STREAMED and not run.shape.ids) or run.save_run:
        what = "--save-run" if run.save_run else f"--format {shared.format}"
        raise UsageError(f"{what} does not go with --stream", hint=f"formats of a stream: {', '.join(_STREAMED)}")
    lines, tally = requests.from_stdin(run.asked), BatchTally()
    try:
        with answering.opened(run, show_reason=False) as index:
            expect_sound(Searcher(index.opened), run.asked, facets=run.choices["facets"])
            for line in lines:
                outcome = line if isinstance(line, BadLine) else _answered(line, index, run)
                _show([outcome], run, index)
                sys.stdout.flush()
                tally.add([outcome])
    except KeyboardInterrupt:  # the usual end of a stream that a person types
        raise typer.Exit(Exit.INTERRUPTED) from None
    tally.end(run)


class BatchTally:
    """Facts about all queries of a command that decide its exit code."""

    def __init__(self) -> None:
        self._bad = self._stale = self._found = False

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes of some queries."""
        for outcome in outcomes:
            if isinstance(outcome, BadLine):
                self._bad = True
            else:
                self._found = self._found or bool(outcome.results)
                self._stale = self._stale or answering.is_stale(outcome)

    def end(self, run: Run) -> None:
        """Raises: typer.Exit if a query has no answer, or the flags ask for another exit code."""
        if self._bad:
            raise typer.Exit(Exit.PARTIAL)
        run.end(stale=self._stale, found=self._found)


def _own(line: Asked) -> bool:
    """True if a line overrides the flags."""
    return bool(line.choices) or line.generation is not None


def _answer_group(lines: Sequence[Asked], *, index: Index, run: Run) -> list[Answer | RetrieveError]:
    """The answers to lines of equal choices. Raises: RetrieveError: the error concerns all lines."""
    first, requests = lines[0], [line.request for line in lines]
    try:
        index = index.at(first.generation)
        options = run.options(index, first.choices)
        searcher = Searcher(index.opened, options)
        answering = partial(index.answer, options=options)
        return answer_each(searcher, requests, common=run.asked, answer=answering)
    except (UsageError, *STEP_FAILURES) as error:
        if not _own(first):
            raise
        return [error] * len(lines)


def _answered(line: Asked, index: Index, run: Run) -> Outcome:
    try:
        index.refresh()
        index = index.at(line.generation)
        return index.answer([line.request], run.options(index, line.choices))[0]
    except RetrieveError as error:
        return BadLine(line.request.id, error)


def _outcome(line: Asked, outcome: Answer | RetrieveError) -> Outcome:
    return BadLine(line.request.id, outcome) if isinstance(outcome, RetrieveError) else outcome


def _show(outcomes: Sequence[Outcome], run: Run, index: Index) -> None:
    """Print the outcomes of queries, in order.

    JSON has an error in place of the answer. Other formats have no place for it: it goes to stderr.
    """
    answers = [outcome for outcome in outcomes if not isinstance(outcome, BadLine)]
    bad = [outcome for outcome in outcomes if isinstance(outcome, BadLine)]
    if run.shared.talk.json and not run.shape.ids:
        written = partial(_print_lines, outcomes) if bad else None
        answering.show(run, index, answers, write=written)
        return
    for line in bad:
        error = line.error
        run.shared.talk.error(error.code, error.kind, f"query {quoted(line.id)}: {error.message}", error.hint)
    if answers or not bad:
        answering.show(run, index, answers)


def _print_lines(outcomes: Sequence[Outcome], answers: Sequence[Answer], *_: object) -> None:
    """Print a line of JSON for each outcome; `answers` are the saved versions of the successful outcomes."""
    from retrieve_cli.output import formats

    shown = iter(answers)
    for outcome in outcomes:
        if isinstance(outcome, BadLine):
            print(formats.dump({"query_id": outcome.id, "error": failure_of(outcome.error).to_json()}))
        else:
            sys.stdout.write(formats.as_json_lines([next(shown)]))
