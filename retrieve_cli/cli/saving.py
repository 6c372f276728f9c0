"""Records of answers: saved runs, the log of queries, and the stage that dropped the last hit of an empty answer."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.errors import RetrieveError, printable, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.output import journal
from retrieve_cli.search.answer import Answer

if TYPE_CHECKING:
    from retrieve_cli.cli.options import Shared
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.output.run_account import Texts
    from retrieve_cli.search.opened import Opened
    from retrieve_cli.search.options import SearchOptions


def texts_of(given: str) -> Texts:
    """Return the value of --save-run. Raises: UsageError for one that is unknown."""
    values: Mapping[str, Texts] = {"brief": "brief", "full": "full"}
    if given not in values:
        from retrieve_cli.config.values import unknown

        raise unknown(f"value {quoted(given)} of --save-run", given, values)
    return values[given]


def saved(
    answers: Sequence[Answer], shared: Shared, *, opened: Opened, options: SearchOptions, texts: Texts
) -> list[Answer]:
    """Save a run; return its answers with its id."""
    recipe = opened.generation.manifest.recipe.to_json()
    run_id = journal.save(shared.store, answers, opened.settings, options, recipe=recipe, texts=texts)
    shared.talk.say(f"note: saved as run {run_id}: retrieve inspect run {run_id}")
    return [replace(answer, run_id=run_id) for answer in answers]


def log_queries(answers: Sequence[Answer], shared: Shared, settings: Settings) -> None:
    """Add to the log of queries; an answer is not withheld because that fails."""
    try:
        journal.log(shared.store.runs, answers, min_candidates=settings.log.min_candidates)
    except RetrieveError as error:
        shared.talk.say(f"note: the query was not logged: {error.message} ({error.hint})")


def explain_empty(opened: Opened, answers: Sequence[Answer], shared: Shared, *, ids: bool) -> None:
    """Name the stage that dropped the last hit of each empty answer: on stderr if stdout is for a program."""
    from retrieve_cli.operations.why import why_empty

    file = sys.stdout if shared.format in ("text", "table") and not ids else sys.stderr
    for answer in answers:
        if not answer.results:
            lines = [f"query {answer.query.id} has no results:", *(f"  {line}" for line in why_empty(opened, answer))]
            print(*map(printable, lines), sep="\n", file=file)
