"""The address of the page, which is its whole state: query, conditions and choices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote, urlencode

from retrieve_cli.api.asked import SWITCHES, Asked, of_text, read_asked
from retrieve_cli.api.choices import SEARCH
from retrieve_cli.api.table import PAGE
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError
from retrieve_cli.retrieval.queries.filters import Condition, parse
from retrieve_cli.storage.records.record_values import known_as

SIZE = 10
"""Results of a page."""
_MOST_PAGES = 50
_MOST_FILTERS = 100


class Address(NamedTuple):
    """A search as the parameters of an address."""

    query: str = ""
    filters: tuple[str, ...] = ()
    """Conditions in the form in which they were written or ticked, one by one."""
    choices: tuple[tuple[str, str], ...] = ()
    """Names and texts of choices that differ from the configuration: `mode`, `rerank`, `generation` and others."""
    page: int = 1
    grouped: bool = False
    """True if results are under headings of their sources."""

    @classmethod
    def of(cls, parameters: Iterable[tuple[str, str]]) -> Address:
        """Return the search that the parameters describe; unknown ones are ignored, and numbers out of range become the
        nearest in range."""
        last: dict[str, str] = {}
        filters: dict[str, None] = {}
        for key, value in parameters:
            if key == "f" and value.strip() and len(filters) < _MOST_FILTERS:
                filters[value.strip()] = None
            last[key] = value
        digits = last.get("page", "1")
        page = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 6 else 1
        given = ((row, last.get(name, "").strip()) for name, row in SEARCH.in_door(PAGE).items())
        choices = tuple((row.name, text) for row, text in given if text and (not row.is_switch or text in SWITCHES))
        grouped = last.get("by") == "source"
        return cls(last.get("q", "").strip(), tuple(filters), choices, min(max(page, 1), _MOST_PAGES), grouped)

    def value(self, name: str) -> str:
        """Return the text of a choice; empty if it is as configured."""
        return dict(self.choices).get(name, "")

    def with_choice(self, name: str, text: str) -> Address:
        """Return the address with another choice."""
        return self._replace(choices=tuple({**dict(self.choices), name: text}.items()))

    def others(self, *shown: str) -> list[tuple[str, str]]:
        """Return the choices without those that a form shows."""
        return [(name, text) for name, text in self.choices if name not in shown]

    def parameters(self) -> list[tuple[str, str]]:
        """Return the parameters of the address, those at default left out."""
        pairs = [("q", self.query), *(("f", each) for each in self.filters), *self.choices]
        pairs += [("by", "source" if self.grouped else ""), ("page", str(self.page) if self.page > 1 else "")]
        return [(key, value) for key, value in pairs if value]

    def url(self) -> str:
        """Return the address below the root of the server."""
        pairs = self.parameters()
        return f"/?{urlencode(pairs)}" if pairs else "/"

    def without(self, *filters: str) -> Address:
        """Return the address without some filters, from the first page."""
        return self._replace(filters=tuple(each for each in self.filters if each not in filters), page=1)

    def read(self) -> Iterator[tuple[Condition, str]]:
        """Yield the conditions and how they are written, those that cannot be read left out."""
        for text in self.filters:
            with suppress(UsageError):
                yield parse(text), text

    def asked(self, *, facets: Sequence[str], tenant: str | None, limit: int = SIZE) -> Asked:
        """Return the request of this page.

        Raises:
            UsageError: the query is empty, or a filter or a choice cannot be read.
        """
        item: dict[str, Json] = {"query": self.query, "limit": limit, "filters": merged(self.filters)}
        item |= {"offset": (self.page - 1) * limit, "facets": list(facets)}
        for name, text in self.choices:
            row = SEARCH.rows[name]
            item[name] = [text] if row.several else of_text(row, name, text)
        return read_asked(item, where="the address", tenant=tenant)


def merged(filters: Iterable[str]) -> list[str]:
    """Return filters of which several values of one field are one condition, which any of them satisfies.

    Raises:
        UsageError: one of them cannot be read.
    """
    joined: dict[str, Condition] = {}
    others: list[str] = []
    for text in filters:
        condition = parse(text)
        field = known_as(condition.field)
        if condition.operator != "=" or condition.negated:
            others.append(text)
        elif (before := joined.get(field)) is None:
            joined[field] = condition
        else:
            values = tuple(dict.fromkeys((*before.values, *condition.values)))
            joined[field] = Condition(before.field, "=", values, globs=before.globs | condition.globs)
    return [*map(str, joined.values()), *others]


def record_url(record_id: str) -> str:
    """Return the address of a record's page. Browsers take a path of dots for a folder: such an id is a parameter."""
    if not record_id.strip("."):
        return f"/r/?{urlencode({'id': record_id})}"
    return f"/r/{quote(record_id, safe='', errors='replace')}"
