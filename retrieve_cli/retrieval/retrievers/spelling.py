"""Spelling of a query: a word that no record has is corrected to one that a record has.

An index has the terms of words and no words. So the terms of all spellings at one edit (an insertion, deletion or
substitution of a letter, or a transposition of neighbours: Damerau 1964) are looked up; of a long word without such a
term, the terms at one more edit from these. Each word is then read from a text that has the term.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Correction
from retrieve_cli.contracts.terms.languages import ENGLISH, LATIN, script_of
from retrieve_cli.contracts.terms.words import fold, is_plain
from retrieve_cli.retrieval.retrievers.analyzer import stop_terms

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.retrieval.retrievers.bm25_index import Bm25Index
    from retrieve_cli.storage.generation import Generation

_WORD = re.compile(r"(?<![\w\-:/.@+#])[^\W\d_]{4,24}(?![\w\-:/@+#]|\.\w)")
"""Words that may be misspelled: letters alone, and no part of a code, a path, an address or a compound."""
_JOINT = re.compile(r"[-_:]")
_MOST = 8
"""Unknown words of a text that are compared with others."""
_LETTERS = {
    LATIN: "abcdefghijklmnopqrstuvwxyz",
    "GREEK": "αβγδεζηθικλμνξοπρσςτυφχψω",
    "CYRILLIC": "абвгдежзийклмнопрстуфхцчшщъыьэюяіїєґў",
}
_MARKED = {"a": "áàâäãåą", "c": "çćč", "e": "éèêëęě", "i": "íìîï", "n": "ñń", "o": "óòôöõøő", "s": "śšş", "u": "úùûüůű",
           "y": "ý", "z": "źżž"}  # fmt: skip
_LONG = 8
"""Letters from which on a word may have two edits."""
_STEM = 7
"""Letters of a term that may be at a second edit."""
_EDITS = 2
_SAME = 3
"""Letters at the beginning that are right in a word with two edits."""
_OTHER_FIRST = 0.1
"""Factor of candidates with another first letter, which few people get wrong."""
_BYTES = 4
"""Most bytes of a letter."""
_OTHERS = 2
_OTHER_WEIGHT = 0.4
"""Further candidates that are searched for, and their weight, times the root of their share of records. On the judged
sets the first one was right in 94 to 99 of 100 cases, and one of these in most others."""
_FAR_WEIGHT = 0.6
"""Weight of a word at two edits."""
_COMPARED = 8
"""Bytes of a digest that are compared."""
_READ = 3
"""Rows that a word is read from, and chunks of a record."""


class WordSpelling:
    """Corrections by the words of one generation's records, as the index of words has them."""

    def __init__(
        self,
        words: Bm25Index,
        generation: Generation,
        *,
        is_word: Callable[[str], bool],
        own: Mask | None = None,
    ) -> None:
        """`is_word` tells if a word that no record has is spelled right.

        With `own`, the rows of a tenant, (n,) bool, words of other rows are unknown.
        """
        self._words = words
        self._analyzer = words.analyzer_of(own)
        self._own = own
        self._generation = generation
        self._is_word = is_word

    def of(self, own: Mask) -> WordSpelling:
        rows = own if self._words.unit == "record" else np.repeat(own, np.diff(self._generation.starts))
        return WordSpelling(self._words, self._generation, is_word=self._is_word, own=rows)

    def corrected(self, text: str) -> tuple[str, tuple[Correction, ...]]:
        found: dict[str, Correction | None] = {}
        unknown: set[str] = set()
        shouts = text.isupper()

        def replaced(match: re.Match[str]) -> str:
            word = match[0]
            if word not in found:
                found[word] = None
                if (shouts or word[1:].islower()) and len(unknown) < _MOST and self._is_unknown(word):
                    unknown.add(word)
                    found[word] = self._correction(word)
            return word if (correction := found[word]) is None else correction.to

        return _WORD.sub(replaced, text), tuple(filter(None, found.values()))

    def _is_unknown(self, word: str) -> bool:
        terms = self._analyzer.terms(word) if is_plain(word) else []
        # A stop word of one language is an unknown word of the others.
        searched = (*terms, *stop_terms(word))
        return bool(terms) and not any(self._words.rows_with(term, self._own) for term in searched)

    def _correction(self, word: str) -> Correction | None:
        folded = fold(word)
        spellings = list(dict.fromkeys(_neighbours(folded, marked=self._analyzer.languages != (ENGLISH,))))
        near = list(self._analyzer.terms_of_spellings(spellings))
        stop = next((spelling for spelling, term in near if not term and spelling[0] == folded[0]), None)
        candidates = self._counted(self._at_one_edit(near))
        far = not candidates
        candidates = candidates or self._counted(self._at_two_edits(folded, near))
        if not (stop or candidates) or self._is_word(word.lower()):
            return None
        if far:  # terms are stems, and words with a similar stem may be another: hypertension, hyperintensity
            candidates = {
                term: (count, spelling)
                for term, (count, spelling) in candidates.items()
                if _distance(self._read(term, folded, spelling), folded) <= _EDITS
            }
        if not (stop or candidates):
            return None
        if stop and not any(spelling[0] == folded[0] for _, spelling in candidates.values()):
            return Correction(word, stop)

        def score(term: str) -> float:
            count, spelling = candidates[term]
            return count * (1.0 if spelling[0] == folded[0] else _OTHER_FIRST)

        chosen = sorted(candidates, key=lambda term: (-score(term), term))[: _OTHERS + 1]
        shares = [min(1.0, candidates[term][0] / candidates[chosen[0]][0]) for term in chosen[1:]]
        weights = [round(_OTHER_WEIGHT * share**0.5, 3) for share in shares]
        best, *words = (self._read(term, folded, candidates[term][1]) for term in chosen)
        others = tuple(zip(words, weights, strict=True))
        # Two edits are right less often, so that vectors and rerankers read the word as typed.
        return Correction(word, word, ((best, _FAR_WEIGHT), *others)) if far else Correction(word, best, others)

    def _at_one_edit(self, near: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return the terms of some spellings, each with its first spelling."""
        first: dict[str, str] = {}
        for spelling, term in near:
            if term:
                first.setdefault(term, spelling)
        return {term: first[term] for term in self._words.known(first)}

    def _counted(self, spellings: Mapping[str, str]) -> dict[str, tuple[int, str]]:
        """Return the terms that a row has, each with the number of these rows."""
        rows = ((term, self._words.rows_with(term, self._own), spelling) for term, spelling in spellings.items())
        return {term: (count, spelling) for term, count, spelling in rows if count}

    def _at_two_edits(self, word: str, near: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return the terms at two edits from a word's own, or at one from a shorter one of the spellings `near`, each
        as its own spelling."""
        if len(word) < _LONG:
            return {}
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        wanted = {term: 2 for _, term in self._analyzer.terms_of_spellings([word]) if len(term) >= _STEM}
        # What is at one edit from a term beside the word's own is at two edits from that one.
        own = tuple(wanted)
        wanted |= {
            term: 1
            for term in {term for spelling, term in near if spelling[:_SAME] == word[:_SAME]}
            if _STEM <= len(term) < len(word) - 1
            if all(OSA.distance(term, each, score_cutoff=1) > 1 for each in own)
        }
        if not wanted:
            return {}
        least = min(len(term) - edits for term, edits in wanted.items())
        most = max(len(term.encode()) + _BYTES * edits for term, edits in wanted.items())
        terms = self._words.beginning_with(word[:_SAME], range(max(_STEM, least), most + 1))
        distances = process.cdist([*wanted], terms, scorer=OSA.distance, score_cutoff=2, dtype=np.uint8)
        close = np.flatnonzero((distances <= np.array([[edits] for edits in wanted.values()])).any(axis=0))
        return {terms[number]: terms[number] for number in close.tolist() if len(terms[number]) >= _STEM}

    def _read(self, term: str, word: str, spelling: str) -> str:
        """Return the word nearest to a misspelled one, of a spelling and the words of a text with its term."""
        index, generation = self._words, self._generation
        starts, chunks = generation.starts, self._first_with(term)
        if index.unit == "record":
            chunks = [chunk for row in chunks for chunk in range(starts[row], starts[row + 1])[:_READ]]
        texts = [str(generation.chunks[chunk]["text"]) for chunk in chunks]
        spans = ((text[start:end], terms) for text in texts for start, end, terms in self._analyzer.spans(text))
        parts = {part.lower() for each, terms in spans if term in terms for part in _JOINT.split(each)}
        words = {part for part in parts if term in self._analyzer.terms(part)}
        if not words or self._is_word(spelling):  # an inflection that this text lacks
            words.add(spelling)
        return min(words, key=lambda each: (_distance(each, word), each != spelling, each))

    def _first_with(self, term: str) -> list[int]:
        """Return a few rows with a term: by digests, so that they do not depend on the order of rows."""
        rows = self._words.rows_of(term, self._own)
        generation = self._generation
        digests = (generation.contents if self._words.unit == "record" else generation.texts)[rows]
        order = np.lexsort(digests[:, :_COMPARED].T[::-1])
        return list(map(int, rows[order[:_READ]]))


def _distance(word: str, folded: str) -> int:
    """Return the number of edits between a word and a folded one."""
    from rapidfuzz.distance import OSA

    return OSA.distance(fold(word), folded)


def _neighbours(word: str, *, marked: bool) -> Iterator[str]:
    """Yield the spellings of a word at one edit; with `marked`, also those with a mark on one more letter."""
    letters = _LETTERS.get(LATIN if word[0].isascii() else script_of(word[0]), "")
    ends = range(len(word))
    for at in range(len(word) - 1):
        if word[at] != word[at + 1]:
            yield f"{word[:at]}{word[at + 1]}{word[at]}{word[at + 2 :]}"
    for at in range(len(word) + 1):
        for letter in letters:
            yield f"{word[:at]}{letter}{word[at:]}"
    for at in ends:
        yield word[:at] + word[at + 1 :]
    for at in ends:
        for letter in letters if not marked else letters + _MARKED.get(word[at], ""):
            if letter != word[at]:
                yield f"{word[:at]}{letter}{word[at + 1 :]}"
