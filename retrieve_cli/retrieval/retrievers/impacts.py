"""BM25 as one inverted index of impacts.

Every (term, row) score that a query could ever sum is computed at build time (the eager scoring of BM25S, Lù 2024,
https://arxiv.org/abs/2407.03618) and stored by term in compressed sparse columns. A query then sums a few slices of a
memory-mapped file. Field weights multiply term frequencies before saturation (BM25F in its simple form: Robertson,
Zaragoza, Taylor 2004), so a weight of 2 equals writing the field twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from retrieve_cli.contracts import Json, TermWeights, Unit, Worded
from retrieve_cli.contracts.terms.languages import ENGLISH, languages
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.retrievers.analyzer import STOP, TextAnalyzer, Token
from retrieve_cli.retrieval.retrievers.selection import ScoringIndex
from retrieve_cli.retrieval.retrievers.term_postings import (
    Postings,
    language_at,
    languages_in,
    number_of,
    stored_columns,
)
from retrieve_cli.storage import pickles
from retrieve_cli.storage.pickles import Later
from retrieve_cli.storage.postings import Exported, PostingTable
from retrieve_cli.storage.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows, Vectors

    Floats = NDArray[np.float64]

Variant = Literal["lucene", "robertson", "atire", "okapi"]


def idf(variant: Variant, documents: int, frequencies: Floats) -> Floats:
    """Return the inverse document frequency of terms that occur in `frequencies` of `documents` rows, (v,) float64.

    lucene: ln(1 + (N - n + 0.5) / (n + 0.5)); robertson: the same without the 1, floored at 0; atire: ln(N / n);
    okapi: robertson without the floor, with negatives replaced by a quarter of the mean (as in rank_bm25).
    """
    odds = (documents - frequencies + 0.5) / (frequencies + 0.5)
    if variant == "lucene":
        return np.log1p(odds)
    if variant == "atire":
        return np.log(documents / frequencies)
    weights: Floats = np.log(odds)
    if variant == "robertson":
        return np.maximum(weights, 0.0)
    if weights.size:
        weights[weights < 0] = 0.25 * weights.mean()
    return weights


def saturation(variant: Variant, tf: Floats, lengths: Floats, *, k1: float, b: float, mean_length: float) -> Floats:
    """Return the saturated weight of a term frequency: tf / (tf + k1 (1 - b + b length / mean)).

    atire and okapi multiply it by k1 + 1; lucene and robertson omit that constant.
    """
    share = tf / (tf + k1 * (1.0 - b + b * lengths / mean_length))
    return share * (k1 + 1.0) if variant in ("atire", "okapi") else share


class Formula(Frozen):
    """BM25 variant and parameters; part of the recipe."""

    variant: Variant = "lucene"
    k1: float = 1.2
    b: float = 0.75


def impacts(columns: Mapping[str, Json], formula: Formula) -> Vectors:
    """Return the score that each posting adds to its row, (p,) float32."""
    return _impacts_of(columns, formula)(slice(0, len(columns["starts"]) - 1), columns["rows"], columns["frequencies"])


def _impacts_of(
    columns: Mapping[str, Json], formula: Formula
) -> Callable[[slice, NDArray[np.int32], Vectors], Vectors]:
    """Return a function for the scores of the postings of some terms, from their rows and frequencies."""
    lengths: Floats = columns["lengths"]
    counts = np.diff(columns["starts"])
    weights = idf(formula.variant, len(lengths), counts.astype(np.float64))
    mean = float(lengths.mean()) if lengths.size else 1.0

    def weigh(terms: slice, rows: NDArray[np.int32], frequencies: Vectors) -> Vectors:
        tf = frequencies.astype(np.float64)
        shares = saturation(formula.variant, tf, lengths[rows], k1=formula.k1, b=formula.b, mean_length=mean or 1.0)
        return (np.repeat(weights[terms], counts[terms]) * shares).astype(np.float32)

    return weigh


class Bm25Writer(Postings):
    """Writer of `bm25.pkl`: rows of weighted fields in, impacts out."""

    def __init__(self, *, analyzer: TextAnalyzer, unit: Unit, formula: Formula) -> None:
        super().__init__(analyzer)
        self._head = {"unit": unit, "analyzer": dict(analyzer.card)}
        self._formula = formula

    def stored(self) -> dict[str, Json]:
        """Return the contents of the file: the impacts of all rows, and their inputs. This consumes the collected
        rows."""
        return pickles.fill(*self._blocks())

    def write(self, path: Path) -> int:
        """Write the file block by block, and return the number of rows. This consumes the collected rows."""
        stored, blocks = self._blocks()
        pickles.dump(stored, path, blocks)
        return int(stored["length"])

    def _blocks(self) -> tuple[dict[str, Json], Iterator[tuple[Later, NDArray[Any]]]]:
        columns, merged = self.merged()
        weigh = _impacts_of(columns, self._formula)
        stored, rows, frequencies = stored_columns(columns)
        impacts = Later("<f4", rows.shape)

        def blocks() -> Iterator[tuple[Later, NDArray[Any]]]:
            for block in merged:
                yield rows, block.rows
                yield frequencies, block.values
                yield impacts, weigh(block.groups, block.rows, block.values)

        return {**self._head, "held": languages_in(stored["languages"]), **stored, "impacts": impacts}, blocks()


_TIE = 0.1
"""Share of the score of a whole name that it adds to the score of its parts."""


class Bm25Index(ScoringIndex[str]):
    """Opened `bm25.pkl`: sums the impacts of a query's terms over the rows that contain them."""

    def __init__(self, stored: Mapping[str, Json]) -> None:
        """Open the contents from `Bm25Writer`.

        Raises:
            IndexCorrupt: parts are missing or disagree.
        """
        self._stored = stored
        try:
            self.unit: Unit = stored["unit"]
            self._length: int = stored["length"]
            self._terms = memoryview(stored["terms"])
            self._term_ends: Rows = stored["term_ends"]
            self.vocabulary = Vocabulary(stored["terms"], self._term_ends)
            """The terms, in order of their bytes."""
            self._starts: Rows = stored["starts"]
            self._rows: NDArray[np.int32] = stored["rows"]
            self._impacts: Vectors = stored["impacts"]
            self.analyzer = TextAnalyzer.of_card(stored["analyzer"], stored["held"])
            complete = len(self._rows) == len(self._impacts) == self._starts[-1]
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise IndexCorrupt(f"bm25.pkl is incomplete ({quoted(error)})", hint="retrieve inspect verify") from error
        if not complete or len(self._starts) != len(self._term_ends):
            raise IndexCorrupt("the arrays of bm25.pkl do not fit each other", hint="retrieve inspect verify")

    def reweighted(self, formula: Formula) -> Bm25Index:
        """Return the index that a build with another formula would give; in memory, without reading the texts."""
        return Bm25Index({**self._stored, "impacts": impacts(self._stored, formula)})

    def __len__(self) -> int:
        return self._length

    def weights_of(self, query: str) -> TermWeights:
        """Return the terms of a query that occur in the index, by their numbers, in the order of the query; a term
        weighs as often as the query has it."""
        found = {term: float(np.max(weights)) for term, weights in self._weighted(query).items()}
        for token in self.analyzer.tokens(query, known=partial(self._knows, _rows_for(query))):
            joined = (self.place_of(terms[0]) for terms in token.others if len(terms) == 1)
            found = {**{place: 1.0 for place in joined if place is not None}, **found}
        return TermWeights(np.array(list(found), np.int32), np.array(list(found.values()), np.float32))

    def _weighted(self, query: str) -> dict[int, Vectors | float]:
        """Return the terms of a query that occur in the index, by their numbers, in the order of the query, each with
        the number of times that the query has it: one, or one for each language of the rows. Words beside a query count
        by their weight, unless the query has them."""
        own = _rows_for(query)
        weighted = self._counted(query, own)
        for word, weight in query.beside if isinstance(query, Worded) else ():
            for place, count in self._counted(word, own).items():
                weighted.setdefault(place, count * weight)
        return weighted

    def _counted(self, query: str, own: Mask | None) -> dict[int, Vectors | float]:
        if len(self.analyzer.languages) == 1:
            counts = Counter(self.analyzer.query_terms(query))
            return {place: count for term, count in counts.items() if (place := self._searched(term, own)) is not None}
        weighted: dict[int, Any] = {}
        codes = self.analyzer.languages
        for word, terms in self.analyzer_of(own).by_language(query):
            places = {code: place for code, term in terms.items() if (place := self._searched(term, own)) is not None}
            most = max(map(self.rows_with, places.values()), default=0)
            if word.lower() in languages()[ENGLISH].words:  # which rows in English lack
                most = max(most, self._length // 2)
            for code, place in places.items():
                weights = weighted.setdefault(place, np.zeros(len(codes), np.float32))
                weights[codes.index(code)] += 1 if code == ENGLISH else self._share(place, most)
        return weighted

    def _searched(self, term: str, own: Mask | None) -> int | None:
        """Return the number of a term of a query; of a stop word that no row has in capitals, of its lower case."""
        in_lower_case = term[0] == STOP and not self._knows(own, term)
        return self.place_of(term.lower() if in_lower_case else term)

    def _knows(self, own: Mask | None, term: str) -> bool:
        """Return True if a row, of the `own` ones if given, has a term."""
        place = self.place_of(term)
        return place is not None and (own is None or self.rows_with(place, own) > 0)

    def analyzer_of(self, own: Mask | None) -> TextAnalyzer:
        """Return the analyzer for the languages of some rows, (n,) bool; None: all."""
        if own is None or len(self.analyzer.languages) == 1:
            return self.analyzer
        return self.analyzer.among(tuple(languages_in(self._stored["languages"][own])))

    def rows_by_language(self) -> dict[str, int]:
        """Return the number of rows by the code of their language."""
        numbers, counts = np.unique(self._stored["languages"], return_counts=True)
        return dict(zip(map(language_at, numbers.tolist()), counts.tolist(), strict=True))

    def first_with(self, place: int, own: Mask | None = None, *, most: int = 1) -> list[int]:
        """Return the first rows, of the `own` ones if given, with a term by its number."""
        rows = self._rows_of(place)
        return list(map(int, (rows if own is None else rows[own[rows]])[:most]))

    def _share(self, place: int, most: int) -> float:
        """Return the share of its weight that a term keeps, if `most` rows have its word in another language: there it
        is rare, as `the` is in French records, or its stem (`dat` for data), but that does not make it tell more."""
        frequencies = np.array([most, self.rows_with(place)], np.float64)
        common, own = idf("lucene", self._length, frequencies)
        return min(1.0, float(common / own))

    def rows_with(self, place: int, own: Mask | None = None) -> int:
        """Return the number of rows, of the `own` ones if given, with a term by its number."""
        if own is None:
            return int(self._starts[place + 1] - self._starts[place])
        return int(np.count_nonzero(own[self._rows_of(place)]))

    def _rows_of(self, place: int) -> NDArray[np.uint32]:
        """Return the rows with a term, by its number.

        As unsigned numbers, negative rows of a damaged file are out of range instead of counted from the end.
        """
        return self._rows[int(self._starts[place]) : int(self._starts[place + 1])].view(np.uint32)

    def exported(self, name: str) -> Exported:
        """Return the rows for an engine; `name` is the retriever's name."""
        from retrieve_cli.contracts.engines import Part

        table = PostingTable(self._starts, self._rows, self._impacts, self._length)
        return Exported(Part(name, self.unit, self._length), postings=table)

    def _scores(self, query: str) -> Vectors:
        scores = np.zeros(self._length, np.float32)
        knows = partial(self._knows, _rows_for(query))
        try:
            for term, weights in self._weighted(query).items():
                rows = self._rows_of(term)
                parts = self._impacts[int(self._starts[term]) : int(self._starts[term + 1])]
                count = weights if isinstance(weights, int | float) else weights[self._languages_of(rows)]
                # A row occurs once in a column, so this addition never adds twice to one row.
                scores[rows] += parts * np.float32(count)
            for code in self.analyzer.languages:
                for token in self.analyzer.among((code,)).tokens(query, known=knows):
                    of_language = self._stored["languages"] == number_of(code)
                    scores += np.where(of_language, self._gain(token), np.float32(0))
        except IndexError as error:
            raise IndexCorrupt(f"bm25.pkl refers to a missing row ({error})", hint="retrieve build") from error
        return scores

    def _gain(self, token: Token) -> Vectors:
        """Return the gain of each row by the other forms of a token: up to its best form, and with a name as one word
        up to the best row, and by a part of the score of the word."""
        scores = np.zeros((1 + len(token.others), self._length), np.float32)
        for form, row_scores in zip((token.terms, *token.others), scores, strict=True):
            places = [self.place_of(term) for term in form]
            number = np.zeros(self._length, np.int32)
            for place in places:
                if place is not None:
                    rows = self._rows_of(place)
                    row_scores[rows] += self._impacts[int(self._starts[place]) : int(self._starts[place + 1])]
                    number[rows] += 1
            if form is not token.terms:
                row_scores[number < len(places)] = 0
        best = scores.max(axis=0)
        gain: Vectors = best - scores[0]
        for place in map(self.place_of, token.whole):
            if place is None:
                continue
            rows = self._rows_of(place)
            parts = self._impacts[int(self._starts[place]) : int(self._starts[place + 1])]
            gain[rows] = np.maximum(gain[rows], best.max() - scores[0][rows] + np.float32(_TIE) * parts)
        return gain

    def _languages_of(self, rows: NDArray[np.uint32]) -> Rows:
        """Return for each row the place of its language in `languages` of the analyzer."""
        languages = self._stored["languages"][rows]
        places: Rows = np.searchsorted([number_of(code) for code in self.analyzer.languages], languages)
        return places

    def place_of(self, term: str) -> int | None:
        """Return the number of a term, by binary search in the sorted, concatenated vocabulary."""
        wanted, low, high = term.encode(), 0, len(self._term_ends) - 1
        while low < high:
            middle = (low + high) // 2
            term_here = bytes(self._terms[self._term_ends[middle] : self._term_ends[middle + 1]])
            if term_here == wanted:
                return middle
            low, high = (middle + 1, high) if term_here < wanted else (low, middle)
        return None


def _rows_for(query: str) -> Mask | None:
    """Return the rows that exist for a query, (n,) bool; None: all."""
    return query.own if isinstance(query, Worded) else None
