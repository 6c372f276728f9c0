"""Web and literature search for programs: one JSON object as one search."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from retrieve_cli.api.requests import checked, sound
from retrieve_cli.api.table import Choice
from retrieve_cli.api.web_choices import MOST_NAMES, NAMES, WEB
from retrieve_cli.config.bounds import seconds
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.search.web_answer import WebAnswer, WebOptions
from retrieve_cli.websearch import dates

_EXAMPLE = 'for example: {"query": "CRISPR off-target effects"}'


class AnswersWeb(Protocol):
    """A web search that is configured."""

    def answer(self, options: WebOptions, *, owner: str = "") -> WebAnswer:
        """Return the answer to a search. Stored answers are kept apart by owner, such as a tenant.

        Raises:
            RetrieveError: the options do not fit the configuration.
        """


def read_web(
    item: Mapping[str, Json], *, where: str = "the request", keys: Collection[str] | None = None
) -> WebOptions:
    """Return the search that a JSON object with some of these keys is, by default with any of them.

    Raises:
        UsageError: a key is unknown, or its value is not one that it takes.
    """
    given = WEB.spelt(item, where, among=keys)
    values = {row.name: _checked(row, value, f"`{key}` of {where}") for row, key, value in given}
    text = sound(values.pop("query", "")).strip()
    if not text:
        raise UsageError(f"{where} has no query", hint=_EXAMPLE)
    if "max_age" in values:
        values["max_age_s"] = values.pop("max_age")
    return WebOptions(text=text, **values)


def _checked(row: Choice, value: Json, place: str) -> Any:
    """The value of a key as `WebOptions` has it. Raises: UsageError."""
    value = checked(value, row.schema, place, hint=row.description)
    if row.schema is NAMES:
        return _names(value, place, hint=row.description)
    if row.name == "max_age":
        return seconds(value, place)
    if row.name == "since":
        date = str(value)
        if dates.of_text(date) != date:
            raise UsageError(f"{place} is not a date: {quoted(date)}", hint=row.description)
        return date
    return value


def _names(value: str | Sequence[str], place: str, *, hint: str) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    named = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not named:
        raise UsageError(f"{place} is empty", hint="remove the key")
    if len(named) > MOST_NAMES:
        raise UsageError(f"{place} has {len(named):,} names, more than {MOST_NAMES}", hint=hint)
    return named
