"""From the flags of `retrieve web` to an answer on stdout and documents of the index."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from retrieve_cli.cli.options import Shared
from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import RetrieveError, printable
from retrieve_cli.output import formats, web_works
from retrieve_cli.search.web_answer import WebAnswer, WebOptions

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
    """Return the options that flags choose. Raises: UsageError: --max-age is not a span of time."""
    from retrieve_cli.config.bounds import seconds

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


def answer(shared: Shared, options: WebOptions) -> WebAnswer:
    """Return the answer to a search; the first search prints where questions are sent.

    Raises:
        UsageError: web search is off, a provider is not configured, or an option is out of range.
    """
    from retrieve_cli.assemble.websearch import FOLDER
    from retrieve_cli.search.web import WebSearch

    settings = shared.settings()
    search = WebSearch(settings, shared.artifacts)
    if not options.offline and not (shared.artifacts / FOLDER).exists():
        names = ", ".join(search.receivers(options))
        shared.talk.say(f"note: the question is sent to {names}; web.providers lists who may receive questions")
    searched = search.search(options)
    for notice in (*searched.answer.notices, *searched.trouble):
        shared.talk.say(f"note: {notice}")
    for stage, reason in searched.answer.strategies_skipped.items():
        shared.talk.say(f"note: {stage} skipped: {reason}")
    return searched.answer


def show(shared: Shared, answer: WebAnswer, *, explain: bool) -> None:
    """Print an answer in the chosen format; name failed providers on stderr if the format does not."""
    match shared.format:
        case "json":
            shown = formats.lines([web_works.web_json(answer)])
        case "jsonl":
            shown = formats.lines(web_works.result_json(rank, hit) for rank, hit in enumerate(answer.hits, 1))
        case "prompt":
            shown = web_works.as_web_prompt(answer)
        case "md":
            shown = web_works.as_web_markdown(answer)
        case _:
            shown = shared.page.render(web_works.web_lines(answer, shared.page.width, explain=explain))
    sys.stdout.write(shown)
    sys.stdout.flush()
    if shared.format not in ("json", "prompt") and not (explain and shared.format == "text"):
        print_failures(shared, answer)


def print_failures(shared: Shared, answer: WebAnswer) -> None:
    """Name on stderr the failed providers with a fix, and the configured providers that have no key."""
    for status in answer.statuses:
        if status.failed and not shared.talk.quiet:
            print(printable(f"warning: {status.provider}: {web_works.status_text(status)}"), file=sys.stderr)
        elif status.status == "not_configured":
            shared.talk.detail(f"note: {status.provider} is skipped: {web_works.status_text(status)}")


def add(shared: Shared, answer: WebAnswer) -> None:
    """Store the results as documents of the index, and list the rejected ones.

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
