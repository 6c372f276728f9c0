"""Control tags in the text of a query: `[EXCLUDE:a|b]`, `[INCLUDE:a|b]`, `[FORMAT:CT|DICOM]`, `[FILTER:license=MIT]`.

A tag is a known key in any case, a colon, and one or more values between `|`. Other brackets are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from retrieve_cli.contracts import Correction
from retrieve_cli.frozen import Frozen
from retrieve_cli.untrusted.nearest import nearest

_KEYS = {
    "EXCLUDE": "excluded",
    "EXCLUDED": "excluded",
    "INCLUDE": "included",
    "INCLUDED": "included",
    "FORMAT": "formats",
    "FORMATS": "formats",
    "FILTER": "filters",
    "FILTERS": "filters",
}
_TAG = re.compile(r"\[\s*([A-Za-z]+)\s*:([^\[\]]*)(\]?)")
_OPERATOR = re.compile(r"(?<!\S)(?:-|NOT\s)")
_ALIKE = 0.82
"""Similarity from which on a key counts as misspelt: EXCLUD and FORMTA reach it, `see` and `exclusive` do not."""


def has_operator(text: str) -> bool:
    """Return True if a text has a character or a word of an operator; operators.py reads them."""
    return any(mark in text for mark in '"“”:') or _OPERATOR.search(text) is not None


class Tagged(Frozen):
    """A query's text and its control tags."""

    text: str
    """The text without its tags; tags between words become one space."""
    excluded: tuple[str, ...] = ()
    included: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    """Words that a result has next to each other."""
    without: tuple[str, ...] = ()
    """Words that no result has."""
    corrections: tuple[Correction, ...] = ()
    """Words that no record has."""
    synonyms: tuple[tuple[str, float], ...] = ()
    """Words to search for beside the text, with their weights."""
    problems: tuple[str, ...] = ()
    """A sentence for each tag that cannot be read."""

    @property
    def beside(self) -> tuple[tuple[str, float], ...]:
        """The words to search for beside the text, with their weights."""
        return (*self.synonyms, *(other for each in self.corrections for other in each.others))

    @property
    def reworded(self) -> Iterator[str]:
        """A sentence on each corrected word, and one on synonyms."""
        yield from (each.notice for each in self.corrections)
        if self.synonyms:
            yield f"searched also for {', '.join(dict(self.synonyms))} (synonyms; unless --exact-words)"


def read_tags(text: str) -> Tagged:
    """Return the tags of a query and the text around them; a tag that is misspelt or not closed stays in the text."""
    parts: dict[str, list[str]] = {name: [] for name in (*_KEYS.values(), "problems")}
    between, end = [], 0
    for match in _TAG.finditer(text):
        kind, values, problem = _read(match)
        parts["problems"] += [problem] if problem else []
        if kind:
            parts[kind] += values
            between.append(text[end : match.start()])
            end = match.end()
    between.append(text[end:])
    read: dict[str, Any] = {name: tuple(values) for name, values in parts.items()}
    return Tagged(_joined(between), **read)


def _read(match: re.Match[str]) -> tuple[str, list[str], str]:
    """Return the list that a tag adds to, its values, and its problem; no list if it is text."""
    tag, key, closed = match[0].strip(), match[1].upper(), bool(match[3])
    tag = tag if len(tag) <= 40 else tag[:40] + "…"
    if key not in _KEYS:
        near = nearest(key, _KEYS, cutoff=_ALIKE) if closed else None
        return "", [], f"{tag} is read as text: did you mean {near}?" if near else ""
    if not closed:
        return "", [], f"{tag} is not closed by ] and is read as text"
    values = [value for part in match[2].split("|") if (value := part.strip())]
    return _KEYS[key], values, "" if values else f"{tag} names nothing: write [{key}:value] or [{key}:one|another]"


def _joined(between: list[str]) -> str:
    """Join the text between tags; only white space next to a tag changes."""
    if len(between) == 1:
        return between[0]
    first, *middle, last = between
    return " ".join(filter(None, [first.rstrip(), *(part.strip() for part in middle), last.lstrip()]))
