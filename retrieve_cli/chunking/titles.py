"""Lines that act as headings because they are known titles of sections, or stand alone and bold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from retrieve_cli.contracts import Json, Record

_MOST = 1000
"""Titles that a record may bring."""
_LONGEST = 200
"""Characters of a title."""
_KEY = "section_titles"
"""The key of a record's metadata that lists the titles of its sections."""

_NUMBER = re.compile(r"(?:\d{1,3}(?:\.\d{1,3}){0,5}|[ivx]{1,5})[.)]?\s{1,9}(?=\S)")
_BOLD = re.compile(r"[ ]{0,3}(\*\*|__)(?=[^\s*_])([^*\n]{1,200})(?<=[^\s*_])\1[ \t]*\r?\n?")
_CAPTION = re.compile(
    r"[ \t>]{0,9}[*_]{0,3}fig(?:ure|\.)?[ \t]{0,3}[a-z]?\d{1,4}(?:\.\d{1,3})?[a-z]?"
    r"[*_]{0,3}[ \t]{0,3}(?:[.:|)*_—–-]|$)",
    re.IGNORECASE | re.MULTILINE,
)
_NO_HEADING = ".,;:!?。，；：！？"
"""Marks that end a sentence or lead in to what follows."""


class Titles:
    """Titles of sections; a line is one whatever its case, number, emphasis and colon."""

    def __init__(self, titles: Iterable[str] = ()) -> None:
        self._names = {key: " ".join(title.split()) for title in titles if (key := _key(title))}

    def __bool__(self) -> bool:
        return bool(self._names)

    def name(self, line: str) -> str | None:
        """The title that a line is, as it was given; None if it is none."""
        if not self._names or len(line) > 2 * _LONGEST:
            return None
        key = _key(line)
        return self._names.get(key) or self._names.get(_NUMBER.sub("", key, count=1))


def titles_of(record: Record) -> tuple[str, ...]:
    """The titles of its sections that a record's metadata lists."""
    listed: Json = record.metadata.get(_KEY)
    given = listed if isinstance(listed, list | tuple) else ()
    return tuple(title for title in given[:_MOST] if isinstance(title, str) and len(title) <= _LONGEST)


@lru_cache(maxsize=8)
def titles(*named: str) -> Titles:
    """The titles as one value: records of one kind often list the same."""
    return Titles(named)


def bold_heading(line: str) -> str | None:
    """The words of a line that is bold from end to end and neither a sentence nor a caption; None for any other.

    As markdownlint's rule MD036 tells emphasis that is used instead of a heading.
    """
    found = _BOLD.fullmatch(line)
    if found is None or found[2][-1] in _NO_HEADING or is_caption(line) or not any(map(str.isalpha, found[2])):
        return None
    return found[2]


def is_caption(text: str) -> bool:
    """True of a text that begins as the caption of a figure does: `Figure 3. …`, `Fig. 2: …`."""
    return _CAPTION.match(text) is not None


def _key(line: str) -> str:
    """Form that two spellings of a title share."""
    return " ".join(line.strip(" \t\r\n*_#").rstrip(":").strip(" \t*_").split()).casefold()
