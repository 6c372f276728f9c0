"""The address of the page, which is its whole state: what is searched for, and under which conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from retrieve_cli.api.asked import Asked, read_asked
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError
from retrieve_cli.queries.filters import Condition, parse
from retrieve_cli.records.column_values import known_as

SIZE = 10
"""Results of a page."""
_MOST_PAGES = 50
_MOST_FILTERS = 100
_CHOICES: Mapping[str, bool | None] = {"": None, "yes": True, "no": False}


class Address(NamedTuple):
    """A search as the parameters of an address."""

    query: str = ""
    filters: tuple[str, ...] = ()
    """Conditions as they were written or ticked, one by one."""
    mode: str = ""
    """Empty: as configured; `hybrid`, or the only retriever that answers."""
    rerank: str = ""
    """Empty: as configured; `yes` or `no`."""
    generation: str = ""
    """Empty: the current one."""
    page: int = 1

    @classmethod
    def of(cls, parameters: Iterable[tuple[str, str]], *, prefix: str = "") -> Address:
        """Return the search that the parameters say; unknown ones are ignored, and numbers out of range are the nearest
        in range. With `prefix`, the keys of a configuration begin with it: `a.mode`."""
        last: dict[str, str] = {}
        filters: dict[str, None] = {}
        for key, value in parameters:
            if key == "f" and value.strip() and len(filters) < _MOST_FILTERS:
                filters[value.strip()] = None
            last[key] = value
        rerank = last.get(f"{prefix}rerank", "")
        digits = last.get("page", "1")
        page = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 6 else 1
        return cls(
            query=last.get("q", "").strip(),
            filters=tuple(filters),
            mode=last.get(f"{prefix}mode", "").strip(),
            rerank=rerank if rerank in _CHOICES else "",
            generation=last.get(f"{prefix}generation", "").strip(),
            page=min(max(page, 1), _MOST_PAGES),
        )

    def parameters(self, prefix: str = "") -> list[tuple[str, str]]:
        """Return the parameters of the address, those at default left out."""
        pairs = [("q", self.query), *(("f", each) for each in self.filters), *self.configuration(prefix)]
        pairs += [("page", str(self.page))] if self.page > 1 else []
        return [(key, value) for key, value in pairs if value]

    def configuration(self, prefix: str) -> list[tuple[str, str]]:
        """Return the parameters that say by which configuration is searched."""
        keys = ("mode", "rerank", "generation")
        return [(prefix + key, getattr(self, key)) for key in keys if getattr(self, key)]

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
        given: dict[str, Any] = {
            "mode": self.mode or None,
            "rerank": _CHOICES[self.rerank],
            "generation": self.generation or None,
            "offset": (self.page - 1) * limit or None,
            "facets": list(facets) or None,
        }
        item |= {key: value for key, value in given.items() if value is not None}
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
