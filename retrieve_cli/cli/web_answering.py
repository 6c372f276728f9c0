"""From the flags of `retrieve web` to an answer on stdout, a saved run, and documents of the index."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from retrieve_cli.cli.options import Shared
from retrieve_cli.errors import RetrieveError, printable
from retrieve_cli.search.web_answer import WebAnswer, WebOptions
from retrieve_cli.terms import figures

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings


def options_of(
    text: Sequence[str],
    *,
    providers: Sequence[str] = (),
    categories: Sequence[str] = (),
    max_age: str | None = None,
    **choices: Any,
) -> WebOptions:
    """Return the options that flags say. Raises: UsageError: --max-age is not a span of time."""
    from retrieve_cli.config.durations import seconds

    return WebOptions(
        " ".join(text),
        providers=_listed(providers),
        categories=_listed(categories),
        max_age_s=None if max_age is None else seconds(max_age, "--max-age"),
        **choices,
    )


def _listed(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the names in repeated flags, each of which may list several with commas."""
    return tuple(dict.fromkeys(name for text in texts for name in text.replace(",", " ").split()))


def answer(shared: Shared, options: WebOptions, *, save_run: bool) -> WebAnswer:
    """Return the answer to a search; say once to whom questions go.

    Raises:
        UsageError: web search is off, a provider is not configured, or an option is out of range.
    """
    from retrieve_cli.assemble.websearch import FOLDER
    from retrieve_cli.search.web import WebSearch

    settings = shared.settings()
    search = WebSearch(settings, shared.artifacts)
    if not options.offline and not (shared.artifacts / FOLDER).exists():
        names = ", ".join(search.receivers(options))
        shared.talk.say(f"note: the question is sent to {names}; web.providers says who may receive questions")
    searched = search.search(options)
    for notice in (*searched.answer.notices, *searched.trouble):
        shared.talk.say(f"note: {notice}")
    for stage, reason in searched.answer.strategies_skipped.items():
        shared.talk.say(f"note: {stage} skipped: {reason}")
    if save_run:
        from retrieve_cli.output import web_journal

        run_id = web_journal.save(shared.store.runs, searched.answer, searched.tape, settings)
        shared.talk.say(f"note: saved as run {run_id}: retrieve replay {run_id}")
    return searched.answer


def show(shared: Shared, answer: WebAnswer, *, explain: bool) -> None:
    """Print an answer in the format that was asked for; without JSON, say on stderr who failed."""
    from retrieve_cli.output import web_answer
    from retrieve_cli.output.formats import dump

    if shared.format == "json":
        print(dump(web_answer.web_json(answer)))
        return
    if shared.format == "jsonl":
        for rank, hit in enumerate(answer.hits, 1):
            print(dump(web_answer.result_json(rank, hit)))
    elif shared.format == "prompt":
        from retrieve_cli.output.web_prompt import as_web_prompt

        sys.stdout.write(as_web_prompt(answer))
        return
    elif shared.format == "md":
        from retrieve_cli.output.web_markdown import as_web_markdown

        sys.stdout.write(as_web_markdown(answer))
    else:
        page = shared.page
        sys.stdout.write(page.render(web_answer.web_lines(answer, page.width, explain=explain)))
    sys.stdout.flush()
    if not (explain and shared.format == "text"):
        say_failures(shared, answer)


def say_failures(shared: Shared, answer: WebAnswer) -> None:
    """Say on stderr who failed, and what to do; and which configured providers have no key."""
    from retrieve_cli.output.web_answer import status_text

    for status in answer.statuses:
        if status.failed and not shared.talk.quiet:
            print(printable(f"warning: {status.provider}: {status_text(status)}"), file=sys.stderr)
        elif status.status == "not_configured":
            shared.talk.detail(f"note: {status.provider} is skipped: {status_text(status)}")


def add(shared: Shared, answer: WebAnswer) -> None:
    """Store the results as documents of the index, and say which could not be.

    Raises:
        RetrieveError: nothing could be stored.
    """
    from retrieve_cli.api.documents import Documents
    from retrieve_cli.api.web import add_hits

    settings: Settings = shared.settings()
    if not answer.hits:
        shared.talk.say("note: there is nothing to add")
        return
    receipt = add_hits(Documents(shared.store, settings), answer, tenant=None)
    stored = [status for status in receipt.documents if status.status != "rejected"]
    for status in receipt.documents:
        if status.status == "rejected":
            shared.talk.say(f"note: {status.id or 'a result'}: {status.reason}")
    if not stored:
        raise RetrieveError("no result could be added", hint="see the notes above")
    hint = "retrieve sync makes them searchable"
    shared.talk.say(f"note: {figures.count(len(stored), 'result')} added to the documents of the index; {hint}")
