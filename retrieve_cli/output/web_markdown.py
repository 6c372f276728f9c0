"""Answers to web and literature searches as Markdown: a numbered list with links, for notes and reports."""

from __future__ import annotations

import re
from collections.abc import Iterator

from retrieve_cli.output.citations import one_line
from retrieve_cli.output.page import address
from retrieve_cli.output.web_answer import status_text
from retrieve_cli.search.web_answer import WebAnswer, WebHit

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&])")
_MOST_AUTHORS = 3


def as_web_markdown(answer: WebAnswer) -> str:
    """Return the answer as Markdown; texts of others are escaped, so that they are text."""
    return "\n".join(_lines(answer)) + "\n"


def _lines(answer: WebAnswer) -> Iterator[str]:
    yield f"# {_escaped(answer.options.text)}"
    yield ""
    for rank, hit in enumerate(answer.hits, 1):
        yield f"{rank}. {_entry(hit)}"
    if not answer.hits:
        yield "No results."
    failed = [status for status in answer.statuses if status.failed]
    if failed:
        yield ""
        yield "This answer is partial:"
        yield ""
        yield from (f"- {_escaped(status.provider)}: {_escaped(status_text(status))}" for status in failed)


def _entry(hit: WebHit) -> str:
    work = hit.work
    title = f"{'RETRACTED: ' if work.retracted else ''}{_escaped(work.title)}"
    linked = f"[{title}](<{address(work.url).replace('<', '%3C').replace('>', '%3E')}>)" if work.url else title
    authors = ", ".join(work.authors[:_MOST_AUTHORS]) + (" et al." if len(work.authors) > _MOST_AUTHORS else "")
    facts = [_escaped(fact) for fact in (authors, work.venue, work.date) if fact]
    return ". ".join([linked, *facts, f"`{one_line(work.id).replace('`', '')}`"])


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(text))
