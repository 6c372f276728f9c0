"""Lines that act as headings because they are listed titles of sections, or are in bold and alone on their line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from retrieve_cli.contracts import Json, Record

_MOST = 1000
"""Maximum number of titles that a record may list."""
_LONGEST = 200
"""Maximum characters of a title."""
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
"""Marks that end a sentence or introduce the next text."""


class Titles:
    """Titles of sections; case, number, emphasis and colon of a line are ignored."""

    def __init__(self, titles: Iterable[str] = ()) -> None:
        self._names = {key: " ".join(title.split()) for title in titles if (key := _key(title))}

    def __bool__(self) -> bool:
        return bool(self._names)

    def name(self, line: str) -> str | None:
        """Return the title on a line, in its listed form; None if it is not a title."""
        if not self._names or len(line) > 2 * _LONGEST:
            return None
        key = _key(line)
        return self._names.get(key) or self._names.get(_NUMBER.sub("", key, count=1))


def titles_of(record: Record) -> tuple[str, ...]:
    """Return the section titles that a record's metadata lists."""
    listed: Json = record.metadata.get(_KEY)
    named = listed if isinstance(listed, list | tuple) else ()
    return tuple(title for title in named[:_MOST] if isinstance(title, str) and len(title) <= _LONGEST)


@lru_cache(maxsize=8)
def titles(*named: str) -> Titles:
    """Return the titles as one value, cached because records of one kind often list the same titles."""
    return Titles(named)


def bold_heading(line: str) -> str | None:
    """Return the words of a line that is bold throughout and neither a sentence nor a caption; None for other lines.

    Follows markdownlint's rule MD036 on emphasis used instead of a heading.
    """
    match = _BOLD.fullmatch(line)
    if match is None or match[2][-1] in _NO_HEADING or is_caption(line) or not any(map(str.isalpha, match[2])):
        return None
    return match[2]


def is_caption(text: str) -> bool:
    """Return True for a text that begins like the caption of a figure: `Figure 3. …`, `Fig. 2: …`."""
    return _CAPTION.match(text) is not None


def _key(line: str) -> str:
    """Return the form that different spellings of a title share."""
    return " ".join(line.strip(" \t\r\n*_#").rstrip(":").strip(" \t*_").split()).casefold()
