"""`retrieve web`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieve_cli.api.web_choices import WEB
from retrieve_cli.cli.options import Shared, argument, shared
from retrieve_cli.errors import Exit, printable

if TYPE_CHECKING:
    from retrieve_cli.search.web_answer import WebAnswer, WebOptions


@shared("text", "json", "prompt", table=WEB)
def web(
    text: Annotated[list[str], argument("TEXT...", "The question.")],
    *,
    chosen: dict[str, Any],
    shared: Shared,
) -> None:
    """Search the web and literature: retrieve web "crispr off-target". Exit with 8 if a provider failed.

    The question is sent to the configured providers (web.providers), so this is off until web.enabled is true. Keys
    are read from the environment: TAVILY_API_KEY, SERPER_API_KEY, SERPAPI_API_KEY, NCBI_API_KEY, NCBI_EMAIL,
    S2_API_KEY.
    """
    explain = chosen.pop("explain", False)
    answer = _answer(shared, _options_of(text, **chosen))
    _show(shared, answer, explain=explain)
    if answer.partial:
        sys.stdout.flush()
        raise typer.Exit(Exit.PARTIAL)


def _options_of(
    text: Sequence[str],
    *,
    providers: Sequence[str] = (),
    categories: Sequence[str] = (),
    max_age: str | None = None,
    **choices: Any,
) -> WebOptions:
    """Return the options that flags choose. Raises: UsageError: --max-age is not a span of time."""
    from retrieve_cli.config.bounds import seconds
    from retrieve_cli.search.web_answer import WebOptions

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


def _answer(shared: Shared, options: WebOptions) -> WebAnswer:
    """Return the answer to a search; the first search prints where questions are sent."""
    from retrieve_cli.search.web import WebSearch
    from retrieve_cli.websearch.cache import FILE

    search = WebSearch(shared.settings(), shared.artifacts)
    if not (shared.artifacts / FILE).exists():
        names = ", ".join(search.receivers(options))
        shared.talk.say(f"note: the question is sent to {names}; web.providers lists who may receive questions")
    answer = search.answer(options)
    for notice in answer.notices:
        shared.talk.say(f"note: {notice}")
    return answer


def _show(shared: Shared, answer: WebAnswer, *, explain: bool) -> None:
    """Print an answer in the chosen format; name failed providers on stderr if the format does not."""
    from retrieve_cli.output import formats, web_results

    if shared.format == "json":
        shown = formats.lines([web_results.web_json(answer)])
    elif shared.format == "prompt":
        shown = web_results.as_web_prompt(answer)
    else:
        lines = web_results.web_lines(answer, shared.page.width, explain=explain)
        shown = shared.page.render(lines)
    sys.stdout.write(shown)
    sys.stdout.flush()
    if shared.format != "text" or explain:
        return
    for status in answer.statuses:
        line = f"{status.provider}: {web_results.status_text(status)}"
        if status.failed and not shared.talk.quiet:
            print(printable(f"warning: {line}"), file=sys.stderr)
        elif status.status == "not_configured":
            shared.talk.detail(f"note: skipped {line}")
