"""Name and description of an index, by which an agent chooses among several: from the user, or made from the records
that a caller may see."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import printable, shortened
from retrieve_cli.search.tool_records import ToolRecords
from retrieve_cli.storage.records.suggestions import common_values

if TYPE_CHECKING:
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.records.view import RecordView

_LONGEST, _VALUE = 120, 32
"""Most characters of a description that is made, and of each of its values."""
_FEWEST, _LEAST_COVERED, _MOST, _OF_FIELD = 2, 0.3, 8, 3
"""Records that share a value, share of records with its field, most values, and most values of one field."""
_TELLING = (
    "domain category topic topics subject subjects task area theme genre featurelist keyword tag tags "
    "applicationcategory group"
).split()
"""Fields whose values describe the topics of records, the most telling ones first."""
_NAMES = 5000
"""Names that are looked at for words if no field is telling."""
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]{5,24}(?![^\W\d_])")
_GIVEN: Mapping[str, int] = {"name": 60, "description": _LONGEST}
"""Most characters of a text that the user gave."""


class About(NamedTuple):
    """Name and description of an index: as the user gave them, empty if not; and its contents in phrases."""

    name: str
    given: str
    records: str
    tools: str
    """`258 tools of 12 servers: git, time`; empty without any, as `records` is."""

    @property
    def contents(self) -> str:
        """Both phrases."""
        return "; ".join(filter(None, (self.records, self.tools)))

    @property
    def description(self) -> str:
        """The description that was given, or else the contents."""
        return self.given or self.contents


def about_of(generation: Generation, tenant: str | None) -> About:
    """Return the name and description of an index for a caller; without a tenant, they are made once."""
    noted = generation.manifest.built.get("about", {})
    name, given = (printable(shortened(str(noted.get(key, "")), most)) for key, most in _GIVEN.items())
    return About(name, given, *(generation.once(_phrases) if tenant is None else _phrases(generation, tenant)))


def _phrases(generation: Generation, tenant: str | None = None) -> tuple[str, str]:
    """Return phrases on the records and on the tools of a caller."""
    tools = ToolRecords(generation, tenant)
    number, found = int(tools.rows.sum()), ""
    if number:
        servers = sorted(tools.servers(), key=lambda server: -server["tools"])
        named = [server["name"] for server in servers if server["name"]]
        of = f" of {count(len(named), 'server')}" if named else ""
        found = _phrase(f"{count(number, 'tool')}{of}", iter(named))
    others = tools.view.without(tools.rows) if number else tools.view
    return _phrase(_size(others, tenant), _values(others)) if others.size or not number else "", found


def _phrase(size: str, values: Iterator[str]) -> str:
    """Return a phrase with as many values as there is room for."""
    shown: list[str] = []
    for value in values:
        text = printable(shortened(value, _VALUE))
        if len(shown) == _MOST or len(size) + sum(map(len, shown)) + 2 * len(shown) + len(text) > _LONGEST:
            break
        if text.casefold() not in (other.casefold() for other in shown):
            shown.append(text)
    return f"{size}: {', '.join(shown)}" if shown else size


def _size(view: RecordView, tenant: str | None) -> str:
    """Return the number of records and documents; `160 tools` if that is the name of the only catalog."""
    kinds = view.columns.column("kind")
    records = 0 if kinds is None else len(kinds.rows_of("catalog"))
    sources = view.generation.manifest.sources
    stem = sources[0].name.partition(".")[0].casefold() if len(sources) == 1 and tenant is None else ""
    is_plural = stem.isascii() and stem.isalpha() and stem.endswith("s") and not stem.endswith(("ss", "us", "is"))
    noun = stem.removesuffix("s") if is_plural and len(stem) < _VALUE else "record"
    sizes = ((records, noun), (view.size - records, "document"))
    return ", ".join(count(number, noun) for number, noun in sizes if number) or "no records"


def _values(view: RecordView) -> Iterator[str]:
    """Yield values that records share, of the most telling field first; words of their names if no field is telling."""
    fields = {name.casefold(): name for name in view.columns.fields}
    found = False
    for field in _TELLING:
        column = view.columns.column(fields[field]) if field in fields else None
        if column is None or (field == "group" and column.distinct < 2):  # the folder of all documents tells nothing
            continue
        if len(column.rows) < _LEAST_COVERED * view.size:
            continue
        values = [value for value, records in common_values(column, _MOST)[0] if records >= _FEWEST]
        short = [value for value in values if len(value) <= _VALUE][:_OF_FIELD]
        found = found or bool(short)
        yield from short
    column = view.columns.column("name")
    if found or column is None:
        return
    names = islice(column.texts(), _NAMES)
    words = Counter(word for name in names for word in {*_WORD.findall(_HUMP.sub(" ", name).casefold())})
    ranked = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    yield from (word for word, records in ranked if records >= _FEWEST)
