"""Web and literature search for programs: one JSON object as one search, and results as documents of the index."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from retrieve_cli.api.documents import Documents, Receipt, Status
from retrieve_cli.api.requests import checked, sound
from retrieve_cli.api.table import Choice
from retrieve_cli.api.web_choices import MOST_NAMES, NAMES, WEB
from retrieve_cli.config.bounds import seconds
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import WebRow
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.search.web_answer import WebAnswer, WebOptions
from retrieve_cli.websearch import dates

_EXAMPLE = 'for example: {"query": "CRISPR off-target effects"}'


class AskedWeb(NamedTuple):
    """A request for a web search."""

    options: WebOptions
    add: bool = False
    """True: add the results to the index."""


class AnswersWeb(Protocol):
    """A web search that is configured."""

    def answer(self, options: WebOptions, *, owner: str = "") -> WebAnswer:
        """Return the answer to a search. Stored answers are kept apart by owner, such as a tenant.

        Raises:
            RetrieveError: the options do not fit the configuration.
        """


def read_web(item: Mapping[str, Json], *, where: str = "the request", keys: Collection[str] | None = None) -> AskedWeb:
    """Return the search that a JSON object with some of these keys is, by default with any of them.

    Raises:
        UsageError: a key is unknown, or its value is not one that it takes.
    """
    given = WEB.spelt(item, where, among=keys)
    values = {row.name: _checked(row, value, f"`{key}` of {where}") for row, key, value in given}
    text = sound(values.pop("query", "")).strip()
    if not text:
        raise UsageError(f"{where} has no query", hint=_EXAMPLE)
    add = values.pop("add", False)
    if "max_age" in values:
        values["max_age_s"] = values.pop("max_age")
    return AskedWeb(WebOptions(text=text, **values), add)


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


ORIGIN = "web"
"""Value of the field `origin` of documents that a web search has added. The field `source` of a record is taken: it
names the entry of the configuration, here the inbox."""


def add_rows(documents: Documents, answer: WebAnswer, *, tenant: str | None) -> Receipt:
    """Add the results of a search to the index as documents; a later one of the same id replaces an earlier one.

    The receipt has one status for each result, in their order. Results without abstract and snippet are not added,
    with the reason.

    Raises:
        RetrieveError: nothing could be stored.
    """
    added = [document_of(row) for row in answer.rows if row.item.text]
    receipt = documents.add(added, tenant=tenant) if added else Receipt(0, ())
    statuses = iter(receipt.documents)
    reason = "not added: it has neither an abstract nor a snippet"
    outcomes = [next(statuses) if row.item.text else Status(row.id, 0, "rejected", reason) for row in answer.rows]
    return Receipt(receipt.sequence, outcomes)


def document_of(row: WebRow) -> dict[str, Json]:
    """Return a result as a document.

    It is the same for every query that finds the result: neither the query nor ranks are part of it, so that they do
    not become known to others who may search the index.
    """
    item = row.item
    names = ("type", "date", "venue", "license", "pdf_url", "open_access", "retracted")
    metadata: dict[str, Json] = {
        "origin": ORIGIN,
        "authors": list(item.authors),
        **{id_.kind: id_.value for id_ in reversed(item.ids) if id_.kind != "url"},
        **{name: getattr(item, name) for name in names},
        "found_by": sorted({source.provider for source in row.found_by}),
        "retrieved_at": max((source.at for source in row.found_by), default=""),
    }
    kept = {key: value for key, value in metadata.items() if value is not None and value not in ("", [])}
    document = {"id": row.id, "title": item.title, "text": item.text, "url": item.url, "metadata": kept}
    return {key: value for key, value in document.items() if value}
