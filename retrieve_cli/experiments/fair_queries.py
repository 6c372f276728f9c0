"""Fair known-item queries: those with one right answer that do not give it away, drawn so that records take turns.

A query is unfair if several records could be meant, or if too many records hold all its words; both follow from the
collection and from no list of words.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.experiments.gold_lines import gold_line
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from retrieve_cli.contracts import Analyzer, Rows

Kind = Literal["descriptions", "titles", "headings"]

LONGEST = 30
"""Words of a query; nobody types more."""
CROWD = 10
"""Records, a page of results: where more of them hold all words of a query in one chunk, no one of them is right."""
REASONS: Mapping[str, str] = {
    "missing": "records without any",
    "own title": "repeating their document's title",
    "repeated": "in more than one record",
    "short": "with too few content words",
    "long": f"with more than {LONGEST} words",
    "vague": f"with words found together in more than {CROWD} records",
}
"""Why something became no query, as it reads behind a number."""
_LEAST = {"descriptions": 3, "titles": 2, "headings": 2}
"""Content words of a query; the name of a catalog's record may have a single one."""


@dataclass(frozen=True, slots=True)
class Starter:
    """Lines of a gold file, and by reason how many texts became none."""

    lines: Sequence[Mapping[str, Json]]
    skipped: Mapping[str, int]

    @property
    def reasons(self) -> str:
        """How many became none and why, in a sentence."""
        return ", ".join(f"{count} {REASONS[reason]}" for reason, count in self.skipped.items())


@dataclass(frozen=True, slots=True)
class Candidate:
    """A query that may be fair, and the row of the record that it is made of."""

    query: str
    row: int


class Holders:
    """Which records hold all of some terms within one chunk, for the terms of the candidates."""

    def __init__(self, generation: Generation, analyzer: Analyzer, candidates: Iterable[Candidate]) -> None:
        wanted = {term for candidate in candidates for term in analyzer.terms(candidate.query)}
        rows: dict[str, array[int]] = defaultdict(lambda: array("q"))
        for row, chunk in enumerate(generation.chunks):
            for term in wanted.intersection(analyzer.terms(f"{chunk['header']}{chunk['text']}")):
                rows[term].append(row)
        self._rows = {term: np.array(held, np.int64) for term, held in rows.items()}
        self._starts = generation.starts

    def count(self, terms: Iterable[str]) -> int:
        """How many records they are, or at most: the count ends once it cannot exceed `CROWD`."""
        held = sorted((self._rows.get(term, _NOWHERE) for term in terms), key=len)
        common = held[0]
        for rows in held[1:]:
            if len(common) <= CROWD:
                break
            common = np.intersect1d(common, rows, assume_unique=True)
        return len(np.unique(np.searchsorted(self._starts, common, side="right")))


_NOWHERE: Rows = np.empty(0, np.int64)


@dataclass
class Maker:
    """Picks the fair ones among candidates and draws from them."""

    generation: Generation
    analyzer: Analyzer
    kind: Kind
    skipped: Counter[str] = field(default_factory=Counter)
    owners: dict[frozenset[str], set[int]] = field(default_factory=lambda: defaultdict(set))
    """By the terms of a query, the records that could be meant."""

    def key(self, query: str) -> frozenset[str]:
        """What two spellings of one query have in common."""
        return frozenset(self.analyzer.terms(query))

    def starter(
        self,
        candidates: Sequence[Candidate],
        *,
        n: int,
        seed: int,
        names: Collection[int] = (),
        holders: Holders | None = None,
    ) -> Starter:
        """At most `n` lines; `names` are the records whose candidate is a name and not a description."""
        for each in candidates:
            self.owners[self.key(each.query)].add(each.row)
        known = holders or Holders(self.generation, self.analyzer, candidates)
        fair = []
        for each in candidates:
            if reason := self._fault(each, known, name=each.row in names):
                self.skipped[reason] += 1
            else:
                fair.append(each)
        lines = []
        for number, each in enumerate(_drawn(self.generation, fair, seed)[:n], 1):
            record = self.generation.records[each.row]
            lines.append(gold_line(self.kind, number, each.query, {record["id"]: 1}, record["group"]))
        return Starter(lines, {reason: self.skipped[reason] for reason in REASONS if self.skipped[reason]})

    def _fault(self, candidate: Candidate, holders: Holders, *, name: bool) -> str:
        """Why a query is not fair; empty where it is."""
        spans = self.analyzer.spans(candidate.query)
        words = sum(any(map(str.isalpha, candidate.query[start:end])) for start, end, _ in spans)
        if words < (1 if name else _LEAST[self.kind]):
            return "short"
        if len(candidate.query.split()) > LONGEST:
            return "long"
        key = self.key(candidate.query)
        if len(self.owners[key]) > 1:
            return "repeated"
        return "vague" if not name and holders.count(key) > CROWD else ""


def _drawn(generation: Generation, candidates: Iterable[Candidate], seed: int) -> list[Candidate]:
    """The candidates in an order that seed, ids and texts decide, whatever row a record has: no record comes twice
    before each has come once, and groups and sources take turns."""
    ends = list(accumulate(source.records for source in generation.manifest.sources))
    by_chance = sorted(candidates, key=lambda each: sha1([seed, generation.record_id(each.row), each.query]))
    by_group = _in_turn(by_chance, lambda each: (bisect_right(ends, each.row), generation.records[each.row]["group"]))
    return _in_turn(by_group, lambda each: each.row)


def _in_turn(candidates: Sequence[Candidate], kind: Callable[[Candidate], Hashable]) -> list[Candidate]:
    """The first of each kind, then the second of each, and so on; otherwise in the order they have."""
    seen: Counter[Hashable] = Counter()
    turns = []
    for each in candidates:
        turns.append(seen[kind(each)])
        seen[kind(each)] += 1
    return [candidates[at] for at in sorted(range(len(candidates)), key=turns.__getitem__)]
