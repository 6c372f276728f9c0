"""Queries that name records: by a list of names, such as `pydicom, nibabel and ITK-SNAP`, or by identifiers of tools
anywhere, as in `use git_status, then git_commit`. Each of the named records is wanted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.contracts.terms.words import has_words
from retrieve_cli.contracts.tools import SERVER, TOOL, is_tool

if TYPE_CHECKING:
    from retrieve_cli.storage.records.view import RecordView

_SEPARATORS = (",", ";", "\n", " and ", " & ")
_BETWEEN = frozenset({"and", "&", "or"})
_FEWEST = 3
"""Names of a list that has blanks alone between them."""
_MOST_WORDS, _LONGEST_TEXT = 100, 20_000
_LONGEST = 6
"""Words of a name."""
_RARE = 0.01
"""Share of the rows up to which a word is rare: without commas, most of the words of a list are."""
_TOKEN = re.compile(r"`[^`]+`|\"[^\"]+\"|[^\s`\"]+")
_IDENTIFIER = re.compile(r"[^\W_](?:[_/.-]|(?<=[^\W\d_A-Z])(?=[A-Z]))")
"""An inner sign or capital, which an ordinary word does not have."""
_SIGNS, _QUOTES = ".,;:!?()[]{}<>*", "`\"'‘’“”"
_MOST_TOOLS = 100
"""Most tools of one name."""


def named_tools(view: RecordView, text: str) -> tuple[int, ...]:
    """Return the rows of the visible tools that a text names by `tool` or `server/tool`, in its order and in any case.

    A name that looks like a word, however it is written, has to be quoted, or the whole text.
    """
    rows: dict[int, None] = {}
    column = None
    for name, is_quoted in islice(dict.fromkeys(_identifiers(text)), _MOST_WORDS):
        if (column := column or view.columns.column(TOOL)) is None:
            return ()
        rows |= dict.fromkeys(_tools_named(view, name, is_quoted=is_quoted))
    return tuple(rows)


def _identifiers(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text that may be names of tools, and whether each is quoted or the whole text."""
    tokens = list(_TOKEN.finditer(text[:_LONGEST_TEXT]))
    if len(tokens) == 1 or "/" in text:
        yield text.strip(), True
    for token in tokens:
        word = token[0].strip(_SIGNS)
        is_quoted = len(word) > 2 and word[0] in _QUOTES and word[-1] in _QUOTES
        if is_quoted or len(tokens) == 1 or _IDENTIFIER.search(word):
            yield word.strip(_QUOTES).strip(), is_quoted or len(tokens) == 1


def _tools_named(view: RecordView, name: str, *, is_quoted: bool) -> list[int]:
    """Return the rows of the tools with a name, or with an id, or a server and a name, joined by a slash."""
    for field, value in ((TOOL, name), ("id", name), (TOOL, name.rpartition("/")[2])):
        column = view.columns.column(field)
        near = [] if column is None else column.rows_of(canonical(value))[:_MOST_TOOLS].tolist()
        records = ((row, view.generation.records[row]) for row in near)
        if rows := [row for row, record in records if _is_named(record, name, is_quoted=is_quoted)]:
            return rows
    return []


def _is_named(record: Any, name: str, *, is_quoted: bool) -> bool:
    metadata = record["metadata"]
    tool = str(metadata.get(TOOL))
    keys = (tool, f"{metadata.get(SERVER)}/{tool}", str(record["id"]))
    return is_tool(metadata) and any(
        key.casefold() == name.casefold() and (is_quoted or _IDENTIFIER.search(key)) for key in keys
    )


def named_records(view: RecordView, text: str, lexical: Callable[[], Any]) -> tuple[int, ...]:
    """Return the rows of the visible records that a text lists by their names, in its order.

    Empty if it has other words, or only one name; `lexical` opens the index of words, if there is one.
    """
    words = text.replace(",", " ").replace(";", " ").split()
    listed = text.strip(" ,;\n")
    separated = any(separator in listed for separator in _SEPARATORS)
    fewest = 2 if separated else _FEWEST
    if not fewest <= len(words) <= _MOST_WORDS or not (separated or _are_rare(words, view, lexical())):
        return ()
    rows: dict[int, None] = {}
    start = names = 0
    while start < len(words):
        end = min(start + _LONGEST, len(words))
        while end > start and not (found := view.rows_named(" ".join(words[start:end]))):
            end -= 1
        if end == start and words[start] not in _BETWEEN and has_words(words[start]):
            return ()
        if end > start:
            rows |= dict.fromkeys(found)
            names += 1
        start = max(end, start + 1)
    return tuple(rows) if names >= fewest else ()


def _are_rare(words: list[str], view: RecordView, index: Any) -> bool:
    """Return True if most of the words are in few rows, which saves most queries a look at the names."""
    index = getattr(index, "local", index)  # of an index in an engine
    if not hasattr(index, "rows_with"):
        return True
    own = view.rows_by(index.unit)
    analyzer = index.analyzer_of(own)
    terms = [found[0] for word in words if (found := analyzer.terms(word))]  # none of a stop word
    most = max(_RARE * (len(index) if own is None else int(own.sum())), 5)
    rare = [term for term in terms if index.rows_with(term, own) <= most]
    return 2 * len(rare) > len(words)
