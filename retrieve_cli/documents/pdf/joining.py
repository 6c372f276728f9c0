"""Words divided at the ends of lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import chain

from retrieve_cli.documents.pdf.page_text import PageText

_LETTERS = re.compile(r"[^\W\d_]+")
_HYPHENS = ("-", "\u2010", "\xad")


class Joiner:
    """Decision about the hyphen at the end of a line."""

    def __init__(self, pages: Sequence[PageText]) -> None:
        self._pages = pages

    def hyphenated(self, word: str) -> bool:
        """Return True if a word at the end of a line goes on in the next one."""
        return word.endswith(_HYPHENS) and len(word) > 1 and (word[-1] == "\xad" or word[-2].isalnum())

    def loses_hyphen(self, word: str, following: str) -> bool:
        """Return True if the hyphen of a word is only there because its line ends."""
        if word[-1] == "\xad":
            return True
        stem, rest = _LETTERS.match(word[-2::-1]), _LETTERS.match(following)
        return bool(stem and rest and rest[0][0].islower() and (stem[0][::-1] + rest[0]).casefold() in self._words)

    @cached_property
    def _words(self) -> frozenset[str]:
        """The words of the whole document."""
        texts = chain.from_iterable(page.words.texts for page in self._pages)
        return frozenset(chain.from_iterable(map(_LETTERS.findall, (text.casefold() for text in texts))))
