"""Text analysis: the terms that BM25 counts.

Tool names stay searchable: `3D`, `C++`, `format:DICOM` and version numbers stay whole; compounds (`scRNA-seq`,
`snake_case`, `camelCase`) are kept whole *and* split, so that both spellings of a name match.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from retrieve_cli.contracts import Json

Stemming = Literal["english", "none"]
StopWords = Literal["english", "none"]

_WORD = re.compile(
    r"""
    \d+(?:[.,]\d+)+(?![^\W_])          # 1.2.3  10,000
    | [^\W_]+(?:[-_:][^\W_]+)*         # words, and compounds joined by - _ :
      (?:\+\+|\#(?!\w))?               # C++  C#
    """,
    re.VERBOSE,
)
_JOINT = re.compile(r"[-_]")
_CAMEL = re.compile(r"(?<=[^\W\d_A-ZÀ-ÖØ-Þ])(?=[A-ZÀ-ÖØ-Þ])")
_SHORTEST_PART = 3
"""Minimum letters of each part of a split camelCase word: `ImageJ` and `NIfTI` are names, not compounds."""

# The stop words of the Snowball project's English stemmer (https://snowballstem.org), the usual companion of Porter2.
_ENGLISH = frozenset(
    """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it
    its itself they them their theirs themselves what which who whom this that these those am is are was were be been
    being have has had having do does did doing would should could ought a an the and but if or because as until while
    of at by for with about against between into through during before after above below to from up down in out on off
    over under again further then once here there when where why how all any both each few more most other some such
    no nor not only own same so than too very can will just t s don
    """.split()
)


class TextAnalyzer:
    """Analyzer that splits, folds, drops stop words and stems. It is deterministic, and keeps the order of terms."""

    def __init__(self, *, stemming: Stemming = "english", stop_words: StopWords = "english") -> None:
        self._stemming = stemming
        self._stop_words = _ENGLISH if stop_words == "english" else frozenset[str]()
        self.card: Mapping[str, Json] = {"version": 1, "stemming": stemming, "stop_words": stop_words}
        self._cache: dict[str, tuple[str, ...]] = {}

    def terms(self, text: str) -> list[str]:
        """Return the terms of a text, in order, repeats included."""
        terms: list[str] = []
        for word in _WORD.findall(text):
            terms.extend(self.terms_of_word(word))
        return terms

    def spans(self, text: str) -> list[tuple[int, int, tuple[str, ...]]]:
        """Return start, end and terms of each word of the text that has terms; for marking matches."""
        found = ((*match.span(), self.terms_of_word(match.group())) for match in _WORD.finditer(text))
        return [each for each in found if each[2]]

    def terms_of_word(self, word: str) -> tuple[str, ...]:
        """Return the terms of one word: itself, and its parts if it is a compound; empty for a stop word."""
        terms = self._cache.get(word)
        if terms is None:
            terms = tuple(term for part in _parts(word) if (term := self._term(part)))
            if len(self._cache) < _REMEMBERED:
                self._cache[word] = terms
        return terms

    def forget(self) -> None:
        """Clear the cache of words."""
        self._cache = {}

    def _term(self, part: str) -> str:
        folded = fold(part)
        if folded in self._stop_words:
            return ""
        return folded if self._stemming == "none" or not folded.isalpha() else str(self._stemmer.stemWord(folded))

    @cached_property
    def _stemmer(self):  # type: ignore[no-untyped-def]  # PyStemmer has no types
        import Stemmer

        return Stemmer.Stemmer("english")


_REMEMBERED = 1_000_000
"""Maximum number of cached words: natural text repeats itself, and a stemmer call costs ten times a look-up."""


def fold(word: str) -> str:
    """Return a word in lower case without accents; compatibility characters (ligatures, full width) become plain."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFKD", word)
    return "".join(char for char in decomposed if not unicodedata.combining(char)).casefold()


def _parts(word: str) -> list[str]:
    """Return the word, followed by the parts of a compound. Of `key:value` only the value is a separate part."""
    whole, value = [word], word.rpartition(":")[2]
    pieces = [piece for piece in _JOINT.split(value) if piece]
    if pieces != [word]:
        whole += pieces
    for piece in pieces:
        camel = _CAMEL.split(piece)
        if len(camel) > 1 and all(len(part) >= _SHORTEST_PART for part in camel):
            whole += camel
    return whole
