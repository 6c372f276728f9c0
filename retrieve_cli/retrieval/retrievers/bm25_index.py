"""BM25 over the segments of an index: the postings of a query's terms, weighted when they are read.

Document frequencies and the mean length are computed from the rows that are not deleted, so that the scores do not
depend on the history of the index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json, Unit, Worded
from retrieve_cli.contracts.terms.languages import ENGLISH, languages
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.retrieval.retrievers.analyzer import STOP, TextAnalyzer, Token
from retrieve_cli.retrieval.retrievers.bm25_formula import Formula, floored, idf
from retrieve_cli.retrieval.retrievers.bm25_part import Bm25Part
from retrieve_cli.retrieval.retrievers.selection import ScoringIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows, Vectors
    from retrieve_cli.retrieval.retrievers.selection import Lowest

_TERMS = 4096
"""Terms whose number of rows is remembered."""
_TIE = 0.1
"""Share of the score of a whole name that it adds to the score of its parts."""


def _rows_with(parts: Sequence[Bm25Part], term: str, own: Mask | None = None) -> int:
    places = ((part, part.place_of(term)) for part in parts)
    return sum(part.count(place, own) for part, place in places if place is not None)


class Bm25Index(ScoringIndex[str]):
    """Opened `bm25.pkl` of each segment: sums the scores of a query's terms over the rows that contain them."""

    def __init__(
        self,
        segments: Sequence[Mapping[str, Json]],
        *,
        formula: Formula | None = None,
        live: Mask | None = None,
        lowest: Lowest | None = None,
    ) -> None:
        """Open the contents from `Bm25Writer`, at least one; `live` masks the rows that are not deleted.

        Raises:
            IndexCorrupt: parts are missing or disagree.
        """
        self.formula = formula or Formula()
        self.lowest = lowest
        self._live = live
        self._parts: list[Bm25Part] = []
        for stored in segments:
            self._parts.append(Bm25Part(stored, len(self), live))
        if len({part.unit for part in self._parts}) != 1:
            raise IndexCorrupt("the segments of bm25.pkl do not go together", hint="build again: retrieve build")
        self.unit: Unit = self._parts[0].unit
        try:
            self.analyzer = TextAnalyzer.of_card(self._parts[0].stored["analyzer"], tuple(self.rows_by_language()))
        except (KeyError, TypeError, AttributeError) as error:
            raise IndexCorrupt(f"bm25.pkl is incomplete ({quoted(error)})", hint="retrieve inspect verify") from error
        self._size = len(self) if live is None else int(np.count_nonzero(live))
        # Not of a method: its cache would keep the index in memory.
        self._frequency = lru_cache(maxsize=_TERMS)(partial(_rows_with, self._parts))

    def __len__(self) -> int:
        return self._parts[-1].span.stop if self._parts else 0

    @cached_property
    def mean_length(self) -> float:
        """Mean length of the live rows; sums of lengths are exact in any order."""
        total = sum(part.total for part in self._parts)
        return (total / self._size if self._size else 0.0) or 1.0

    def rows_by_language(self) -> dict[str, int]:
        """Return the number of live rows by the code of their language."""
        rows: Counter[str] = Counter()
        for part in self._parts:
            rows.update(part.rows_by_language)
        return {code: count for code, count in sorted(rows.items()) if count}

    # ------------------------------------------------------------------------------------- terms

    def rows_with(self, term: str, own: Mask | None = None) -> int:
        """Return the number of rows, of the `own` ones if given, with a term; without them, of those that are not
        deleted."""
        return _rows_with(self._parts, term, own)

    def _places(self, term: str) -> Iterator[tuple[Bm25Part, int]]:
        """Yield the segments with a term, and its place in the vocabulary of each."""
        for part in self._parts:
            if (place := part.place_of(term)) is not None:
                yield part, place

    def rows_of(self, term: str, own: Mask | None = None) -> Rows:
        """Return the rows, of the `own` ones if given, with a term."""
        found = [part.rows(place).astype(np.int64) + part.span.start for part, place in self._places(term)]
        rows = np.concatenate([np.empty(0, np.int64), *found])
        own = self._live if own is None else own
        return rows if own is None else rows[own[rows]]

    def known(self, terms: Iterable[str]) -> set[str]:
        """Return the terms among the given ones that any row has, deleted ones included."""
        return {term for term in terms if any(part.vocabulary.place(term) is not None for part in self._parts)}

    def beginning_with(self, text: str, lengths: range) -> list[str]:
        """Return the terms that begin with the first eight bytes of a text and have so many bytes, in order."""
        return sorted({term for part in self._parts for term in part.vocabulary.beginning_with(text, lengths)})

    def _idf(self, frequencies: NDArray[np.float64]) -> NDArray[np.float64]:
        weights = idf(self.formula.variant, self._size, frequencies)
        return floored(weights, self._mean_idf) if self.formula.variant == "okapi" else weights

    @cached_property
    def _mean_idf(self) -> float:
        """Mean weight of all terms, for okapi."""
        counts: Counter[bytes] = Counter()
        for part in self._parts:
            numbers = [part.count(place, None) for place in range(len(part.vocabulary))]
            counts.update(dict(zip(map(part.vocabulary.raw, range(len(numbers))), numbers, strict=True)))
        frequencies = np.array([count for _, count in sorted(counts.items()) if count], np.float64)
        return float(idf("okapi", self._size, frequencies).mean()) if len(frequencies) else 0.0

    def _postings(self, term: str) -> Iterator[tuple[Bm25Part, NDArray[np.uint32], Vectors]]:
        """Yield by segment its rows with a term, counted in the segment, and the score that the term adds to each."""
        if not (count := self._frequency(term)):
            return
        weight = float(self._idf(np.array([count], np.float64))[0])
        for part, place in self._places(term):
            yield part, part.rows(place), part.scores(place, weight, self.formula, self.mean_length)

    # ----------------------------------------------------------------------------------- queries

    def weights_of(self, query: str) -> dict[str, float]:
        """Return the terms of a query that occur in the index, each with the number of times that the query has it."""
        return {term: float(np.max(counts)) for term, counts in self._weighted(query).items()}

    def _weighted(self, query: str) -> dict[str, Vectors | float]:
        """Return the terms of a query that occur in the index, in the order of the query, each with the number of times
        that the query has it: one, or one for each language of the rows. Words beside a query count by their weight,
        unless the query has them."""
        own = _rows_for(query)
        weighted = self._counts(query, own)
        for word, weight in query.beside if isinstance(query, Worded) else ():
            for term, count in self._counts(word, own).items():
                weighted.setdefault(term, count * weight)
        return weighted

    def _counts(self, query: str, own: Mask | None) -> dict[str, Vectors | float]:
        if len(self.analyzer.languages) == 1:
            counts = Counter(self.analyzer.query_terms(query))
            searched = ((self._searched(term, own), count) for term, count in counts.items())
            return {term: count for term, count in searched if self._frequency(term)}
        weighted: dict[str, Any] = {}
        codes = self.analyzer.languages
        for word, terms in self.analyzer_of(own).by_language(query):
            searched_by = {code: self._searched(term, own) for code, term in terms.items()}
            rows = {code: self._frequency(term) for code, term in searched_by.items()}
            most = max(rows.values(), default=0)
            if word.lower() in languages()[ENGLISH].words:  # which rows in English lack
                most = max(most, self._size // 2)
            for code, term in searched_by.items():
                if rows[code]:
                    weights = weighted.setdefault(term, np.zeros(len(codes), np.float32))
                    weights[codes.index(code)] += 1 if code == ENGLISH else self._share(rows[code], most)
        return weighted

    def _searched(self, term: str, own: Mask | None) -> str:
        """Return a term of a query; of a stop word that no row has in capitals, its lower case."""
        in_lower_case = term[0] == STOP and not self._knows(own, term)
        return term.lower() if in_lower_case else term

    def _knows(self, own: Mask | None, term: str) -> bool:
        """Return True if a row, of the `own` ones if given, has a term."""
        return self.rows_with(term, own) > 0

    def analyzer_of(self, own: Mask | None) -> TextAnalyzer:
        """Return the analyzer for the languages of some rows, (n,) bool; None: all."""
        if own is None or len(self.analyzer.languages) == 1:
            return self.analyzer
        return self.analyzer.among(tuple(code for code in self.analyzer.languages if own[self._in(code)].any()))

    def languages(self) -> Iterator[str]:
        """Yield the code of the language of each row."""
        for part in self._parts:
            yield from part.languages()

    def _in(self, code: str) -> Mask:
        """Return the rows in a language, (n,) bool."""
        return np.concatenate([part.in_language(code) for part in self._parts])

    def _share(self, rows: int, most: int) -> float:
        """Return the share of its weight that a term in `rows` rows keeps, if `most` rows have its word in another
        language: there it is rare, as `the` is in French records, or its stem (`dat` for data), but that does not make
        it tell more."""
        common, own = idf("lucene", self._size, np.array([most, rows], np.float64))
        return min(1.0, float(common / own))

    def _scores(self, query: str) -> Vectors:
        scores = np.zeros(len(self), np.float32)
        knows = partial(self._knows, _rows_for(query))
        codes = self.analyzer.languages
        try:
            for term, weights in self._weighted(query).items():
                for part, rows, gains in self._postings(term):
                    count = weights if isinstance(weights, int | float) else weights[part.languages_of(rows, codes)]
                    # Faster than `scores[rows] += ...`, which first gathers the old values.
                    np.add.at(scores[part.span], rows, gains * np.float32(count))
            for code in codes:
                for token in self.analyzer.among((code,)).tokens(query, known=knows):
                    scores += np.where(self._in(code), self._gain(token), np.float32(0))
        except IndexError as error:
            raise IndexCorrupt(f"bm25.pkl refers to a missing row ({error})", hint="retrieve build") from error
        return scores

    def _gain(self, token: Token) -> Vectors:
        """Return the gain of each row by the other forms of a token: up to its best form, and with a name as one word
        up to the best row, and by a part of the score of the word."""
        scores = np.zeros((1 + len(token.others), len(self)), np.float32)
        for form, row_scores in zip((token.terms, *token.others), scores, strict=True):
            number = np.zeros(len(self), np.int32)
            for term in form:
                for part, rows, gains in self._postings(term):
                    row_scores[part.span][rows] += gains
                    number[part.span][rows] += 1
            if form is not token.terms:
                row_scores[number < len(form)] = 0
        best = scores.max(axis=0)
        gain: Vectors = best - scores[0]
        most = best.max(initial=0) if self._live is None else best[self._live].max(initial=0)
        for term in token.whole:
            for part, rows, gains in self._postings(term):
                more = most - scores[0][part.span][rows] + np.float32(_TIE) * gains
                gain[part.span][rows] = np.maximum(gain[part.span][rows], more)
        return gain


def _rows_for(query: str) -> Mask | None:
    """Return the rows that exist for a query, (n,) bool; None: all."""
    return query.own if isinstance(query, Worded) else None
