"""Results within a number of tokens, for programs that read for a model: every result is named before any is long.

    10 of 57 matches
    1. lungmask [lungmask#0] 4.69 https://github.com/JoHof/lungmask
       Small package with pretrained U-Nets that outline the left and right lung …

Each result has its share of what the heads leave: the whole passage if it fits, else the best sentence and what
follows it. What a result does not need goes to those above it. Text of documents is indented and heads are not, so that
no text can be mistaken for another result.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms.tenants import KEYS
from retrieve_cli.contracts.tools import fields_in
from retrieve_cli.errors import UsageError, printable, shortened
from retrieve_cli.output.places import linked, pages, span_of
from retrieve_cli.output.plain_text import one_line, percent, significant
from retrieve_cli.output.snippet import snippet
from retrieve_cli.output.styled_lines import ELLIPSIS
from retrieve_cli.search.answer import Answer, Result

Count = Callable[[str], int]
"""Number of tokens of a text."""
_LETTERS = 4
"""Characters that a token has at most on average: a first guess at how much text fits."""
_FEWEST = 6
"""Tokens of a text that is worth showing if it is not whole."""
_TITLE, _PLACE = 120, 160
"""Most characters of a title, and of an address or the path of a section."""
_FIELD = 40
"""Characters of a field that is worth showing if it is cut."""
_INDENT = "   "


class CompactEntry(NamedTuple):
    """A result to show."""

    result: Result
    text: str = ""
    whole: bool = False
    """True if the text is the whole passage."""


Layout = Callable[[Sequence[CompactEntry]], str]
"""Everything that is counted, for some entries."""
Cost = Callable[[CompactEntry], int]
"""Tokens that the text of an entry takes."""
Fill = Callable[[CompactEntry, int, Cost], CompactEntry]
"""Returns an entry with as much of its text as a number of tokens has room for."""


def fitted(results: Iterable[Result], layout: Layout, fill: Fill, *, most: int, count: Count) -> list[CompactEntry]:
    """Return the first results whose heads fit into `most` tokens, with as much of their texts as fits.

    Raises:
        UsageError: there is no room for the first head.
    """
    entries = [CompactEntry(result) for result in results]
    shown = bisect_left(range(1, len(entries) + 1), x=True, key=lambda size: count(layout(entries[:size])) > most)
    if entries and not shown:
        hint = f"the first one needs max_tokens {count(layout(entries[:1]))}"
        raise UsageError(f"not one result fits into {most} tokens", hint=hint)
    entries = entries[:shown]
    left = most - count(layout(entries))
    for place in reversed(range(shown)):  # what a result leaves is for those above it
        bare = count(layout(entries[place : place + 1]))

        def cost(entry: CompactEntry, bare: int = bare) -> int:
            return count(layout([entry])) - bare

        entries[place] = fill(entries[place], left // (place + 1), cost)
        left -= cost(entries[place])
    for place in reversed(range(shown)):  # tokens of the whole may differ from the sum of those of its parts
        if count(layout(entries)) <= most:
            break
        entries[place] = entries[place]._replace(text="", whole=False)
    return entries


def filled(answer: Answer, entry: CompactEntry, room: int, cost: Cost) -> CompactEntry:
    """Return the entry of a result of an answer with the text for which there is room: the whole passage, or the best
    sentence and what follows it."""
    whole = entry._replace(text=passage(entry.result), whole=True)
    if not whole.text or cost(whole) <= room:
        return whole
    if room < _FEWEST:
        return entry
    line = snippet(answer, entry.result, room=room * _LETTERS)
    size = room * _LETTERS
    while size >= _FEWEST:
        partly = entry._replace(text=line.cut(size).text)
        if (tokens := cost(partly)) <= room:
            return partly if partly.text.rstrip(ELLIPSIS) else entry
        size = min(size - _LETTERS, len(partly.text) * room // tokens)
    return entry


def passage(result: Result) -> str:
    """Return the text of a result without the name of its record before it, and without tokens of the index."""
    text = result.text.replace("\r\n", "\n")
    if result.record["kind"] != "catalog":
        return "\n".join(map(clean, text.strip().split("\n")))
    name = str(result.record["name"])
    if text.startswith(name) and len(name) > 1:
        text = text[len(name) :].lstrip(":.\n ")
    lines = (printable(one_line(line)) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


def clean(line: str) -> str:
    """Return a line of a document without control characters; tabs stay."""
    return "\t".join(map(printable, line.rstrip().split("\t")))


def own_fields(record: Mapping[str, Json], names: Sequence[str], room: int) -> dict[str, Json]:
    """Return the fields of a record that have values: those named, by dotted paths too, or by default all, the shortest
    first; as many as fit into `room` characters, long texts cut."""
    own = {key: record.get(key) for key in ("license", "group", "keywords")}
    own |= {**record.get("supporting_data", {}), **fields_in(record["metadata"])}
    own = {key: value for key, value in own.items() if key not in KEYS}
    shown: dict[str, Json] = {}
    for name in names or sorted(own, key=lambda name: len(_text(own[name]))):
        value = own.get(name, reduce(_within, name.split("."), own))
        if value in (None, "", [], {}):
            continue
        left = room - len(name)
        if len(text := _text(value)) > left:
            if left < _FIELD:
                continue
            value = text = shortened(text, left)
        room = left - len(text)
        shown[name] = value
    return shown


def _within(value: Json, step: str) -> Json:
    return value.get(step) if isinstance(value, Mapping) else None


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def fields_line(fields: Mapping[str, Json]) -> str:
    """Return fields on one line: `license: MIT; version: 1.2`."""
    return "; ".join(f"{printable(name)}: {printable(one_line(_text(value)))}" for name, value in fields.items())


def as_compact(
    entries: Sequence[CompactEntry],
    *,
    first: str,
    last: str = "",
    rank: int = 1,
    brief: bool = False,
    fields: Callable[[Result], Mapping[str, Json]] = lambda _: {},
) -> str:
    """Return entries as text, numbered from `rank`, below a first line; `brief` leaves out all but name and id, and
    the `fields` of each."""
    lines = [first]
    for number, (result, text, _) in enumerate(entries, rank):
        more = () if brief else filter(None, (worth(result), _place(result)))
        lines.append(" ".join((f"{number}. {title_of(result)} [{printable(result.id)}]", *more)))
        lines += [f"{_INDENT}{line}" for line in [fields_line(fields(result))] if line]
        lines += [f"{_INDENT}{line}" for line in text.split("\n") if line]
    return "\n".join(line for line in (*lines, last) if line)


def title_of(result: Result) -> str:
    """Return the name of a result on one line."""
    return printable(shortened(one_line(result.name) or result.doc_id, _TITLE))


def worth(result: Result) -> str:
    """Return the relevance of a result if it is known, and its score if not."""
    return significant(result.score) if result.relevance is None else percent(result.relevance)


def _place(result: Result) -> str:
    """The pages of a result, and its address or else the section that it is from; an address that is too long is
    none."""
    span = span_of(result)
    url, section = one_line(linked(result.url or "", span)), shortened(str(result.chunk["section"] or ""), _PLACE)
    where = url if url and len(url) <= _PLACE else section
    return " ".join(filter(None, (pages(span.place), printable(where))))
