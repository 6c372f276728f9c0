"""Weighted frequencies of the terms of texts, read and counted for thousands of texts at a time.

The text between two blanks, a word or several, is numbered, and analysed once in a batch. Frequencies are whole numbers
times the weights of fields, added in the order of the fields: they do not depend on the batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Field
from retrieve_cli.retrieval.retrievers.analyzer import END_OF_TEXT, TextAnalyzer, is_cut_by_blanks, pieces_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows
    from retrieve_cli.storage.postings import PostingSorter

    Counts = NDArray[np.int64]

_TEXT = 1 << 20
"""Characters that are read at a time."""
_BATCH = 1 << 19
"""Words counted at a time."""
_NUMBERED = 1 << 18
"""Words that stay numbered for the next batch."""
_END = 0
"""Number of the end of a field."""
_FINENESS = float(1 << 20)
"""Lengths are multiples of its inverse, so that sums of them are exact in any order."""


class WordCounts:
    """Counter of the terms of rows, which passes postings on when a batch is full."""

    def __init__(self, analyzer: TextAnalyzer, terms: dict[str, int], postings: PostingSorter) -> None:
        """`terms` are the numbers of terms, to which new ones are added."""
        self._analyzer = analyzer
        self._terms = terms
        self._postings = postings
        self._lengths = array("d")
        self._waiting: list[tuple[str, str]] = []
        """Texts of fields that are not read yet, each with its language."""
        self._characters = 0
        self._forget()
        self._empty()

    def add(self, fields: Iterable[Field], language: str) -> None:
        """Append a row made of weighted fields; a field of weight 0 is skipped."""
        for field in fields:
            if field.weight > 0:
                self._waiting.append((field.text, language))
                self._characters += len(field.text)
                self._weights.append(field.weight)
        self._row_ends.append(len(self._weights))
        if self._characters + len(self._row_ends) >= _TEXT:
            self._read()

    def _read(self) -> None:
        """Number the words of the texts that wait; plain texts of one language are cut together."""
        plain: list[str] = []
        language = ""
        for text, text_language in self._waiting:
            if plain and text_language != language:
                self._number_plain(plain, language)
                plain = []
            language = text_language
            if is_cut_by_blanks(text):
                plain.append(text)
                continue
            if plain:
                self._number_plain(plain, language)
                plain = []
            words = self._words_of(language)
            self._numbers.extend(map(words.__getitem__, words.analyzer.words(text)))
            self._numbers.extend(map(self._forms.__getitem__, words.analyzer.forms_of_row(text)))
            self._numbers.append(_END)
        if plain:
            self._number_plain(plain, language)
        self._waiting, self._characters = [], 0
        if len(self._numbers) >= _BATCH:
            self._count()

    def _number_plain(self, texts: Sequence[str], language: str) -> None:
        pieces = pieces_of(texts)
        self._numbers.extend(map(self._words_of(language).__getitem__, pieces))

    def _words_of(self, language: str) -> _Words:
        words = self._words.get(language)
        if words is None:
            words = self._words[language] = _Words(self._analyzer.among((language,)), self._numbered)
        return words

    def finish(self) -> array[float]:
        """Count the remaining rows; return the lengths of all: of their fields' words, each with its weight."""
        self._read()
        self._count()
        self._forget()
        return self._lengths

    def _forget(self) -> None:
        self._numbered = _Numbered(self._terms)
        self._words: dict[str, _Words] = {}
        self._forms = _Forms(self._numbered)

    def _empty(self) -> None:
        self._numbers = array("i")
        """Number of each word, field by field, and the end of each field."""
        self._weights = array("d")
        self._row_ends = array("i")
        """Number of fields up to the end of each row."""

    def _count(self) -> None:
        """Pass on the postings of the batch, and start another."""
        weights, ends = np.array(self._weights), np.array(self._row_ends, np.int64)
        sizes = np.diff(ends, prepend=0)
        rows = np.repeat(np.arange(len(ends)), sizes)
        places = np.arange(len(weights)) - np.repeat(ends - sizes, sizes)  # of the fields in their rows
        words = np.array(self._numbers)
        fields = np.repeat(np.arange(len(weights)), np.diff(np.flatnonzero(words == _END), prepend=-1))
        terms, owners, counted = self._numbered.terms_of(words, fields)

        lengths = np.bincount(fields, counted, minlength=len(weights)) * weights
        lengths = np.bincount(rows, lengths, minlength=len(ends))
        first = len(self._lengths)
        self._lengths.extend((np.round(lengths * _FINENESS) / _FINENESS).tolist())

        # Keys sort by row, then by term, then by field.
        low, high = _bits(int(sizes.max(initial=0))), _bits(len(self._terms))
        keys = (((rows[owners] << high) | terms) << low) | places[owners]
        keys.sort()
        starts = _starts(keys)
        counts = np.diff(starts, append=len(keys))
        keys = keys[starts]
        of_row = (ends - sizes)[keys >> (low + high)]
        parts = counts * weights[of_row + (keys & ((1 << low) - 1))]
        keys >>= low
        starts = _starts(keys)
        numbers = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(keys)))
        keys = keys[starts]
        frequencies = np.bincount(numbers, parts)
        self._postings.add(keys & ((1 << high) - 1), (keys >> high) + first, frequencies)
        self._empty()
        if len(self._numbered) > _NUMBERED:
            self._forget()


class _Numbered:
    """Words by number, with the numbers of their terms: the first ones count for the length of a row. The end of a
    field is a word without terms."""

    def __init__(self, terms: dict[str, int]) -> None:
        self._numbers = terms
        self._terms = array("i")
        self._ends = array("q", [0, 0])
        self._counted = array("i", [0])

    def __len__(self) -> int:
        return len(self._counted)

    def append(self, terms: Iterable[str], forms: Iterable[str]) -> int:
        """Number a word; `forms` are terms beside its `terms` that do not count for the length."""
        numbers = self._numbers
        for term in terms:
            self._terms.append(numbers.setdefault(term, len(numbers)))
        self._counted.append(len(self._terms) - self._ends[-1])
        for term in forms:
            self._terms.append(numbers.setdefault(term, len(numbers)))
        self._ends.append(len(self._terms))
        return len(self._counted) - 1

    def terms_of(self, words: NDArray[np.int32], owners: Rows) -> tuple[Rows, Rows, NDArray[np.int32]]:
        """Return the terms of some words and the owner of each, and by word the number of terms that count."""
        ends = np.array(self._ends)
        sizes = (ends[1:] - ends[:-1])[words]
        places = np.repeat(ends[words] - np.cumsum(sizes) + sizes, sizes) + np.arange(int(sizes.sum()))
        terms = np.array(self._terms, np.int64)[places]
        return terms, np.repeat(owners, sizes), np.array(self._counted, np.int32)[words]


class _Words(dict[str, int]):
    """Numbers of the words of a language, and of pieces of texts that are several words or none."""

    def __init__(self, analyzer: TextAnalyzer, numbered: _Numbered) -> None:
        super().__init__({END_OF_TEXT: _END})
        self.analyzer = analyzer
        self._numbered = numbered

    def __missing__(self, piece: str) -> int:
        number = self[piece] = self._numbered.append(*self._analyzed(piece))
        return number

    def _analyzed(self, piece: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return the terms of the words of a piece, and those that do not count for the length."""
        if piece.isalnum() or not piece.isascii():
            return self.analyzer.analyzed(piece)
        analyzed = [self.analyzer.analyzed(word) for word in self.analyzer.words(piece)]
        terms = [term for own, _ in analyzed for term in own]
        return terms, [term for _, forms in analyzed for term in forms]


class _Forms(dict[str, int]):
    """Numbers of terms that do not count for the length, as if they were words."""

    def __init__(self, numbered: _Numbered) -> None:
        self._numbered = numbered

    def __missing__(self, term: str) -> int:
        number = self[term] = self._numbered.append((), (term,))
        return number


def _bits(count: int) -> int:
    """Return the bits of the numbers below a count."""
    return max(count - 1, 0).bit_length()


def _starts(keys: Counts) -> Rows:
    """Return the place of the first of each run of equal keys."""
    return np.flatnonzero(np.diff(keys, prepend=-1))
