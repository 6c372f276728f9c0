"""Queries in other words: misspelled ones corrected to words of the index, and synonyms beside them.

A rule of synonyms is a line as in Solr and Elasticsearch: `ct, computed tomography` works in every direction, `mri =>
magnetic resonance imaging` from left to right. The words of the query stay; the others are searched for beside them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from retrieve_cli.assemble.registry import retriever
from retrieve_cli.config.plugins import HYBRID
from retrieve_cli.errors import STEP_FAILURES, UsageError, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.untrusted.texts import read_user_text

if TYPE_CHECKING:
    from retrieve_cli.config.query_settings import SynonymSettings
    from retrieve_cli.contracts import Analyzer, Spelling
    from retrieve_cli.retrieval.queries.tags import Tagged
    from retrieve_cli.search.opened import Opened
    from retrieve_cli.search.options import SearchOptions
    from retrieve_cli.storage.records.view import RecordView

_MOST_RULES = 50_000
_MOST_BYTES = 10_000_000
_MOST_WORDS = 12
"""Words of a phrase."""
_MOST_ADDED = 16
"""Phrases that are searched for beside a query."""
_HINT = "write `ct, computed tomography`, or `mri => magnetic resonance imaging` for one direction"
_OTHER_INDEX = "synonyms are not searched for: the index of words has another backend"

_SYNONYM_WEIGHT = 0.4
"""Weight of a synonym beside the word of the query."""


class Rewording:
    """Corrections and synonyms for the words of queries to one generation."""

    def __init__(self, spelling: Spelling | None, synonyms: Synonyms | None) -> None:
        """Without `spelling` the index does not know words beside a query either."""
        self._spelling = spelling
        self._synonyms = synonyms
        self._visible: tuple[RecordView, Spelling] | None = None

    def of(self, texts: Sequence[Tagged], view: RecordView) -> list[Tagged]:
        """Return texts with their words corrected to words of the visible records, and with their synonyms."""
        if self._spelling is None:
            problems = (_OTHER_INDEX,) if self._synonyms else ()
            return [replace(each, problems=(*each.problems, *problems)) for each in texts]
        spelling = self._spelling
        if view.rows is not None:
            if self._visible is None or self._visible[0] is not view:
                self._visible = view, spelling.of(view.rows)  # kept for the next request of the same tenant
            spelling = self._visible[1]
        found: list[Tagged] = []
        for each in texts:
            text, corrections = spelling.corrected(each.text)
            # A rule may be about a word that no record has, so that it was corrected.
            synonyms = self._synonyms.beside(each.text, text) if self._synonyms else ()
            changed = corrections or synonyms
            found.append(replace(each, text=text, corrections=corrections, synonyms=synonyms) if changed else each)
        return found


def rewording_of(opened: Opened, options: SearchOptions) -> Rewording | None:
    """Return the rewording of queries by the index of words; None if none is asked, or the words are to stay.

    Raises:
        UsageError: a rule of synonyms cannot be read, or their file.
    """
    chosen = opened.settings.synonyms
    named = options.retrievers or (tuple(opened.indexes) if options.mode == HYBRID else (options.mode,))
    for name in named if not (options.dense_only or options.exact_words) else ():
        with suppress(*STEP_FAILURES):  # which the retriever reports
            if name in opened.indexes and retriever(name).role == "lexical":
                index = opened.indexes[name]
                spelling = retriever(name).spelling(index, opened.generation, is_word=opened.models.is_word)
                given = chosen.rules or chosen.file
                return Rewording(spelling, synonyms_of(chosen, opened.indexes.analyzer) if given else None)
    return None


class Synonyms:
    """Rules by the terms of their phrases, so that an inflection of a word has its synonyms, too."""

    def __init__(self, rules: Iterable[tuple[str, str]], analyzer: Analyzer, weight: float) -> None:
        """`rules` are lines, each with where it is. Raises: UsageError: a line is not a rule; names it."""
        self._analyzer = analyzer
        self._weight = weight
        self._others: dict[tuple[str, ...], list[Sequence[str]]] = {}
        """The right sides of rules, each kept once for all phrases of its left side."""
        for place, rule in rules:
            phrases, others = _sides(rule, place)
            for terms in dict.fromkeys(map(self._terms, phrases)):
                self._others.setdefault(terms, []).append(others)
        self._others.pop((), None)
        self._longest = max(map(len, self._others), default=0)

    def beside(self, *texts: str) -> tuple[tuple[str, float], ...]:
        """Return the synonyms of the words and phrases of a query's texts, each with its weight; the longest phrase at
        a place counts, and none that the texts have themselves."""
        found: dict[str, None] = {}
        known: set[str] = set()
        for text in dict.fromkeys(texts):
            terms = self._terms(text)
            known |= {*terms}
            at = 0
            while at < len(terms):
                sizes = range(min(self._longest, len(terms) - at), 0, -1)
                size = next((size for size in sizes if terms[at : at + size] in self._others), 0)
                found |= dict.fromkeys(chain(*self._others.get(terms[at : at + size], ())))
                at += size or 1
        new = (other for other in found if not {*self._terms(other)} <= known)
        return tuple((other, self._weight) for other in islice(new, _MOST_ADDED))

    def _terms(self, phrase: str) -> tuple[str, ...]:
        return tuple(each[0] for _, _, each in self._analyzer.spans(phrase))


def synonyms_of(settings: SynonymSettings, analyzer: Analyzer) -> Synonyms:
    """Return the synonyms of the configuration and of its file, which is read again when it has changed.

    Raises:
        UsageError: a rule cannot be read, or the file.
    """
    found = None
    with suppress(OSError):  # which reading it reports
        found = settings.file.stat() if settings.file else None
    return _read(
        tuple(settings.rules), settings.file, found and (found.st_mtime_ns, found.st_size), cast("Hashable", analyzer)
    )


@lru_cache(maxsize=4)
def _read(rules: tuple[str, ...], file: Path | None, _state: object, analyzer: Hashable) -> Synonyms:
    named = [(f"synonyms.rules[{at}]", rule) for at, rule in enumerate(rules)]
    return Synonyms([*named, *(_lines(file) if file else ())], cast("Analyzer", analyzer), _SYNONYM_WEIGHT)


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the rules of a file; a line that begins with # is a comment. Raises: UsageError: it cannot be read."""
    try:
        text = read_user_text(path, limit=_MOST_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read {quoted(str(path))}: {error.strerror}", hint="see synonyms.file") from error
    for number, line in enumerate(text.split("\n"), 1):
        if number > _MOST_RULES:
            raise UsageError(f"{path} has more than {_MOST_RULES:,} lines", hint="remove rules that no query needs")
        if line.strip() and not line.lstrip().startswith("#"):
            yield f"{path}, line {number}", line.partition("  #")[0]


def _sides(rule: str, place: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the phrases of a rule and their synonyms, which may be the same. Raises: UsageError: it is not a rule."""
    left, arrow, right = rule.partition("=>")
    given, others = _phrases(left), _phrases(right if arrow else left)
    if not given or not others or (not arrow and len(given) < 2):
        raise UsageError(f"{place}: {quoted(rule.strip())} is not a rule of synonyms", hint=_HINT)
    if longest := next((each for each in (*given, *others) if len(each.split()) > _MOST_WORDS), None):
        raise UsageError(f"{place}: {quoted(longest)} has more than {_MOST_WORDS} words", hint=_HINT)
    return given, others


def _phrases(text: str) -> Sequence[str]:
    return [phrase.strip() for phrase in text.split(",") if phrase.strip()]
