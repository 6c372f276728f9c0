"""Records by the words that they have: phrases that a query requires, and words that it excludes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from retrieve_cli.assemble.registry import retriever
from retrieve_cli.contracts import Worded
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.contracts.terms.words import WORD, fold, has_words, is_plain, words_of
from retrieve_cli.errors import quoted
from retrieve_cli.frozen import replace
from retrieve_cli.retrieval.queries.operators import read_operators
from retrieve_cli.search.named import named_tools

if TYPE_CHECKING:
    from retrieve_cli.contracts import Analyzer, Mask, Rows
    from retrieve_cli.retrieval.queries.tags import Tagged
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.records.view import RecordView

MOST_COMPARED = 50_000
"""Rows whose texts are compared with a phrase: the first ones of the index, if more have all of its words."""
_NOWHERE = "no record has the words {} next to each other: they are searched for as words"
_OPTION = "{} is searched for as text, because a record has it with its dash: NOT {} excludes the word"
_BETWEEN = re.compile(r"[\s_-]+")
_BLANKS = {code: " " for code in range(128) if not chr(code).isalnum()}


class Having(NamedTuple):
    """Records and chunks that have some words."""

    records: Mask
    """(records,) bool"""
    chunks: Mask
    """(chunks,) bool"""
    notice: str = ""
    """A sentence, if not all candidates were compared."""

    @property
    def is_possible(self) -> bool:
        """True if a record has the words, or may have."""
        return bool(self.notice) or bool(self.records.any())


class WordSearch:
    """The words of one generation's records, by its lexical index."""

    def __init__(self, generation: Generation, indexes: Mapping[str, Any]) -> None:
        self._generation = generation
        self._indexes = indexes
        self._name = next((name for name in indexes if retriever(name).analyzer(indexes[name]) is not None), None)
        self._known: dict[tuple[str, RecordView], Having] = {}

    def read(self, text: Tagged, view: RecordView) -> Tagged:
        """Return a text with its operators read; a phrase that no record has is words. Without an index of words it is
        unchanged."""
        if self._name is None:
            return text

        def is_value(field: str, value: str) -> bool:
            column = view.columns.column(field)
            return column is not None and bool(column.select("=", [value]).any())

        dashed: dict[str, None] = {}

        def is_text(word: str) -> bool:
            if is_option := self._is_option(word, view):
                dashed[word] = None
            return is_option

        found = read_operators(text.text, is_value=is_value, is_text=is_text)
        required = [phrase for phrase in found.phrases if not named_tools(view, phrase)]
        phrases = tuple(phrase for phrase in required if self.having(f'"{phrase}"', view).is_possible)
        problems = [_NOWHERE.format(quoted(phrase)) for phrase in required if phrase not in phrases]
        problems += [_OPTION.format(word, word[1:]) for word in dashed]
        return replace(
            text,
            text=found.text,
            phrases=phrases,
            without=found.without,
            filters=(*text.filters, *found.filters),
            problems=(*text.problems, *problems),
        )

    def _is_option(self, word: str, view: RecordView) -> bool:
        """Return True if one of the records has a word with the dash before it."""
        index, own = self._rows(view)
        return hasattr(index, "rows_with") and index.rows_with(word.lower(), own) > 0

    def _rows(self, view: RecordView) -> tuple[Any, Mask | None]:
        """Return the index of words, the local one of an engine, and its rows that a view has, (n,) bool; None: all."""
        index: Any = self._indexes[str(self._name)]
        index = getattr(index, "local", index)
        return index, view.rows_by(index.unit)

    def having(self, words: str, view: RecordView, among: Mask | None = None) -> Having:
        """Return the records with a word in any inflection, or, between quotation marks, with exact words next to each
        other. Case, accents and punctuation do not count. With `among`, (records,) bool, only these are compared."""
        if among is not None:
            return self._having(words, view.without(~among))
        if (words, view) not in self._known:
            self._known[words, view] = self._having(words, view)
        return self._known[words, view]

    def _having(self, words: str, view: RecordView) -> Having:
        index, own = self._rows(view)
        analyzer = index.analyzer_of(own) if hasattr(index, "analyzer_of") else index.analyzer
        starts = np.asarray(self._generation.starts)
        of_record = index.unit == "record"
        found = _candidates(index, analyzer, words, own)
        exact = words.startswith('"')
        notice = ""
        if exact or len(analyzer.terms(words)) > 1:
            if len(found) > MOST_COMPARED:
                texts = count(len(found), "text")
                notice = f"{words}: {texts} have these words; the first {MOST_COMPARED:,} are compared"
            wanted = _spelled(words) if exact else analyzer.terms(words)[0]

            def matches(row: int) -> bool:
                rows = range(int(starts[row]), int(starts[row + 1])) if of_record else (row,)
                texts = (str(self._generation.chunks[each]["text"]) for each in rows)
                if exact:
                    return any(wanted in _spelled(text) for text in texts)
                return any(terms[0] == wanted for text in texts for _, _, terms in analyzer.spans(text))

            found = np.fromiter(filter(matches, found[:MOST_COMPARED].tolist()), np.int64)
        records, chunks = np.zeros(len(starts) - 1, np.bool_), np.zeros(int(starts[-1]), np.bool_)
        if of_record:
            records[found] = True
            chunks = np.repeat(records, np.diff(starts))
        else:
            chunks[found] = True
            records[np.searchsorted(starts, found, side="right") - 1] = True
        return Having(records, chunks, notice)


def _candidates(index: Any, analyzer: Analyzer, words: str, own: Mask | None) -> Rows:
    """Return the rows that share a term with each of the words that have one, or with each stop word if there are no
    others, a compound by its parts, which rows with the whole have, too."""
    pieces = dict.fromkeys(filter(has_words, _BETWEEN.split(words.strip('"'))))
    asked = [piece for piece in pieces if analyzer.terms(piece)] or map(str.lower, pieces)
    rows = [index.matching(Worded.of(word, (), own), allowed=own) for word in asked]
    return reduce(partial(np.intersect1d, assume_unique=True), sorted(rows, key=len))


def _spelled(text: str) -> str:
    """Return the words of a text in the spelling of a comparison, between blanks; in scripts that are cut into pairs,
    each character is a word."""
    if text.isascii():
        return f" {' '.join(text.lower().translate(_BLANKS).split())} "
    if is_plain(text):
        pieces = WORD.findall(text)
    else:
        spans, characters = words_of(text)
        paired = {start for start, _ in characters}
        places = sorted([*characters, *(span for span in spans if span[0] not in paired)])
        pieces = [text[start:end] for start, end in places]
    return f" {' '.join(' '.join(map(fold, pieces)).translate(_BLANKS).split())} "
