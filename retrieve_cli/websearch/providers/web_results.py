"""Results of web search engines: pages of items, dates as engines write them, the filter by date of Google."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlsplit

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Page, ProviderFailed, Rejected, Response, WebQuery
from retrieve_cli.contracts.works import Item
from retrieve_cli.errors import printable, quoted, shortened
from retrieve_cli.websearch import dates, items, replies

_LONGEST_DATE = 60
_MOST_ROWS = 1000
"""Results of an answer that are looked at: more than any engine returns."""
_DAY_FIRST = re.compile(r"\b([0-9]{1,2})\.? ([A-Za-z]{3,9})\.?,? ([0-9]{4})\b")
_MONTH_FIRST = re.compile(r"\b([A-Za-z]{3,9})\.? (?:([0-9]{1,2}),? )?([0-9]{4})\b")
_AGO = re.compile(r"\b([0-9]{1,3}) (minute|hour|day)s? ago\b")


class Row(NamedTuple):
    """A result as a search engine describes it."""

    title: str
    url: str
    snippet: str = ""
    date: str = ""
    """Date as the engine writes it."""


def rows_of(results: Iterable[Json], title: str, url: str, snippet: str, date: str) -> list[Row]:
    """Return results of a search engine, by the names of their keys."""
    return [Row(*(replies.text(result, key) for key in (title, url, snippet, date))) for result in results]


def rejected(complaint: str, response: Response) -> ProviderFailed:
    """Return the failure of a search that an engine complains about."""
    return ProviderFailed(Rejected(printable(shortened(complaint, 200)), response.status))


def page(
    rows: Sequence[Row],
    response: Response,
    *,
    query: WebQuery,
    engine: str,
    sent: str | None = None,
    total: int | None = None,
    notices: Sequence[str] = (),
) -> Page:
    """Return the page of the rows, at most as many as are wanted. `engine` names the provider in notices; `sent` is the
    question if it is not the text of the query.

    Raises:
        ProviderFailed: there are rows, and none can be read; `Malformed`.
    """
    rows = rows[:_MOST_ROWS]
    readable = [item for row in rows if (item := _item(row, response.at))]
    if rows and not readable:
        replies.malformed("a list of results with a title and an address each", response)
    said = list(notices)
    if lost := len(rows) - len(readable):
        said.append(f"{engine}: skipped {lost} {'result' if lost == 1 else 'results'} without a title or an address")
    if query.categories:
        names = quoted(", ".join(query.categories))
        said.append(f"{engine} has no categories of arXiv: {names} is not applied")
    text = query.text if sent is None else sent
    return Page(tuple(readable[: query.k]), text, response, total=total, notices=tuple(said))


def _item(row: Row, at: str) -> Item | None:
    is_pdf = _path(row.url).lower().endswith(".pdf")
    return items.made(
        type="web",
        title=row.title,
        ids_=(),
        url=row.url,
        pdf_url=row.url if is_pdf else "",
        snippet=row.snippet,
        date=date_of(row.date, at),
    )


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        return ""


def date_of(text: str, at: str) -> str:
    """Return the date that an engine writes as `2024-03-12`, `Mar 12, 2024`, `12 March 2024`, `March 2024`, as in mail
    (RFC 5322), or as `3 days ago` before the time `at` of the response. Empty: none of these; weeks and months ago,
    which do not tell a day."""
    text = " ".join(text[:_LONGEST_DATE].split())
    if iso := dates.of_text(text):
        return iso
    if found := _DAY_FIRST.search(text):
        day, month, year = found.groups()
        return dates.of_parts(year, month, day)
    if found := _MONTH_FIRST.search(text):
        return dates.of_parts(found[3], found[1], found[2] or "")
    if found := _AGO.search(text):
        ago = timedelta(**{f"{found[2]}s": int(found[1])})
        return (datetime.fromisoformat(at) - ago).date().isoformat()
    return ""


def first_day(since: str) -> str:
    """Return the first day of a year, a month or a day, as `2024-01-01`; empty for an empty text."""
    return (since + "-01-01")[:10] if len(since) in (4, 10) else since + "-01" if since else ""


def google_filter(since: str) -> str:
    """Return the value of Google's parameter `tbs` for pages that are dated `since` or later.

    It names no last day: a question is then the same request on every day.
    """
    year, month, day = first_day(since).split("-")
    return f"cdr:1,cd_min:{int(month)}/{int(day)}/{year}"
