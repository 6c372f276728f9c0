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
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from retrieve_cli.contracts import Analyzer, Rows

Kind = Literal["descriptions", "titles", "headings"]

LONGEST = 30
"""Words of a query; people do not type longer ones."""
CROWD = 10
"""Records, a page of results: if more of them contain all words of a query in one chunk, no single one is right."""
REASONS: Mapping[str, str] = {
    "missing": "records without one",
    "own title": "repeating their document's title",
    "repeated": "in more than one record",
    "short": "with too few content words",
    "long": f"with more than {LONGEST} words",
    "vague": f"with words found together in more than {CROWD} records",
}
"""Reasons for skipping a text, worded to follow a number."""
_LEAST = {"descriptions": 3, "titles": 2, "headings": 2}
"""Content words of a query; the name of a catalog's record may have a single one."""


class Starter(Frozen):
    """Lines of a gold file, and the numbers of skipped texts by reason."""

    lines: Sequence[Mapping[str, Json]]
    skipped: Mapping[str, int]

    @property
    def reasons(self) -> str:
        """Numbers of skipped texts with their reasons, as a sentence."""
        return ", ".join(f"{count} {REASONS[reason]}" for reason, count in self.skipped.items())


class Candidate(Frozen):
    """A query that may be fair, and the row of its record."""

    query: str
    row: int


class Holders:
    """Index of the terms of candidates, to count the records that contain some of them within one chunk."""

    def __init__(self, generation: Generation, analyzer: Analyzer, candidates: Iterable[Candidate]) -> None:
        wanted = {term for candidate in candidates for term in analyzer.terms(candidate.query)}
        rows: dict[str, array[int]] = defaultdict(lambda: array("q"))
        for row, chunk in enumerate(generation.chunks):
            for term in wanted.intersection(analyzer.terms(f"{chunk['header']}{chunk['text']}")):
                rows[term].append(row)
        self._rows = {term: np.array(held, np.int64) for term, held in rows.items()}
        self._starts = generation.starts

    def count(self, terms: Iterable[str]) -> int:
        """Return the number of records with all terms in one chunk, or an upper bound once it cannot exceed `CROWD`."""
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
    """Selection of fair queries among candidates."""

    generation: Generation
    analyzer: Analyzer
    kind: Kind
    skipped: Counter[str] = field(default_factory=Counter)
    owners: dict[frozenset[str], set[int]] = field(default_factory=lambda: defaultdict(set))
    """Records that could be meant, by the terms of a query."""

    def key(self, query: str) -> frozenset[str]:
        """Return a key that is equal for two spellings of one query."""
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
        """Return at most `n` lines; `names` are the records whose candidate is a name and not a description."""
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
        """Return the reason why a query is not fair; empty if it is fair."""
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
    """Return the candidates in an order that depends on seed, ids and texts, not on rows.

    No record is repeated before each has had its turn; groups and sources take turns.
    """
    ends = list(accumulate(source.records for source in generation.manifest.sources))
    by_chance = sorted(candidates, key=lambda each: sha1([seed, generation.record_id(each.row), each.query]))
    by_group = _in_turn(by_chance, lambda each: (bisect_right(ends, each.row), generation.records[each.row]["group"]))
    return _in_turn(by_group, lambda each: each.row)


def _in_turn(candidates: Sequence[Candidate], kind: Callable[[Candidate], Hashable]) -> list[Candidate]:
    """Return the first of each kind, then the second of each, and so on; otherwise in their order."""
    seen: Counter[Hashable] = Counter()
    turns = []
    for each in candidates:
        turns.append(seen[kind(each)])
        seen[kind(each)] += 1
    return [candidates[at] for at in sorted(range(len(candidates)), key=turns.__getitem__)]
