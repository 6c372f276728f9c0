"""Starter gold files: known-item queries from an index.

A known-item query has one right answer, the record it was made from (Azzopardi, de Rijke and Balog, "Building simulated
queries for known-item topics", SIGIR 2007, https://doi.org/10.1145/1277741.1277820). It takes no manual work, and its
words come from the record itself, which favours every engine and lexical ones most: nDCG@10 is close to 1. Such a file
shows whether an index works and whether a setting breaks it, not the quality for real users. Every line names its
origin.

    descriptions   the first sentence of a description without the record's own name: the words of a person who knows
                   what a tool does but not its name. The default for catalogs.
    titles         the unchanged name. In a catalog a name of a single word is a fair query (`Cellpose`); the title of a
                   document must have two.
    headings       the unchanged innermost heading of a section; the default for documents. A heading with the title of
                   the document in front would be unambiguous, but the title alone would find it.

A fair query has one right answer and does not give it away. A query is unfair if several records could be meant, or if
too many records hold all its words; both follow from the collection and from no list of words.
"""

from __future__ import annotations

import html
import json
import re
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage import durable
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
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_NUMBERING = re.compile(r"^\d+(?:\.\d+)*[.)]\s+")
_SENTENCE = re.compile(r"[.!?](?=\s+[^\W\d_a-z])|[.!?]\s*$|[。！？]|\r?\n\s*\n")
_EMPTY = re.compile(r"\(\s*\)|[\"“]\s*[\"”]")
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_BRACKET = re.compile(r"[(\[]")


def default_kind(generation: Generation) -> Kind:
    """Return headings if most records are documents, else descriptions, or titles if no record has a description."""
    documents = sum(source.records for source in generation.manifest.sources if source.kind == "docs")
    if 2 * documents > len(generation.records):
        return "headings"
    return "descriptions" if any(record["description"] for record in generation.records) else "titles"


def starter(generation: Generation, analyzer: Analyzer, kind: Kind, *, n: int, seed: int) -> Starter:
    """Return at most `n` fair queries of a kind; a larger `n` begins with the same ones.

    Raises:
        UsageError: no fair query can be made.
    """
    made = MAKERS[kind](generation, analyzer, n=n, seed=seed)
    if not made.lines:
        others = ", ".join(f"--from {name}" for name in MAKERS if name != kind)
        raise UsageError(f"no fair query can be made from the {kind}: {made.reasons}", hint=f"try {others}")
    return made


def from_titles(generation: Generation, analyzer: Analyzer, *, n: int, seed: int) -> Starter:
    """Return unchanged names; the name of a catalog record is fair even if many records mention it."""
    maker = Maker(generation, analyzer, "titles")
    records = list(enumerate(generation.records))
    named = [Candidate(_plain(record["name"]), row) for row, record in records]
    names = {row for row, record in records if record["kind"] == "catalog"}
    return maker.starter(named, n=n, seed=seed, names=names)


def from_headings(generation: Generation, analyzer: Analyzer, *, n: int, seed: int) -> Starter:
    """Return innermost headings, without the titles of documents, which are ambiguous or belong to `titles`."""
    maker = Maker(generation, analyzer, "headings")
    titles = [maker.key(record["name"]) for record in generation.records]
    for row, title in enumerate(titles):
        maker.owners[title].add(row)
    found: dict[tuple[int, frozenset[str]], Candidate] = {}
    for row, title in enumerate(titles):
        headings = list(_headings(generation, row))
        maker.skipped["missing"] += not headings
        for heading in headings:
            if (key := maker.key(heading)) == title:
                maker.skipped["own title"] += 1
            else:
                found.setdefault((row, key), Candidate(heading, row))
    return maker.starter(list(found.values()), n=n, seed=seed)


def from_descriptions(generation: Generation, analyzer: Analyzer, *, n: int, seed: int) -> Starter:
    """Return first sentences of descriptions, each without the name of its record."""
    maker = Maker(generation, analyzer, "descriptions")
    found = []
    for row, record in enumerate(generation.records):
        description = _SENTENCE.split(_TAG.sub(" ", record["description"]).strip(), maxsplit=1)[0]
        if any(char.isalnum() for char in description):
            found.append(Candidate(_plain(description), row))
        else:
            maker.skipped["missing"] += 1
    holders = Holders(generation, analyzer, found)
    nameless = [
        Candidate(_without_name(each.query, generation.records[each.row]["name"], holders, analyzer), each.row)
        for each in found
    ]
    return maker.starter(nameless, n=n, seed=seed, holders=holders)


MAKERS: Mapping[Kind, Callable[..., Starter]] = {
    "descriptions": from_descriptions,
    "titles": from_titles,
    "headings": from_headings,
}


def _headings(generation: Generation, record: int) -> Iterator[str]:
    """Yield the innermost headings of a record's chunks, without the underlined line that opens a front matter."""
    for row in range(int(generation.starts[record]), int(generation.starts[record + 1])):
        chunk = generation.chunks[row]
        for section in chunk.get("sections") or [chunk["section"] or ""]:
            heading = str(section).rpartition(" > ")[2]
            if heading and not heading.startswith("---"):
                yield _plain(_NUMBERING.sub("", heading))


def _plain(text: str) -> str:
    words = html.unescape(_LINK.sub(r"\1", _TAG.sub(" ", text))).replace("**", "").replace("`", "").split()
    return " ".join(words).strip(" :;,>")


def _without_name(sentence: str, name: str, holders: Holders, analyzer: Analyzer) -> str:
    """Return the sentence without the name of its record in any spelling, and without `X is a` or `The X is a`.

    A part of the name that is a coined word (`CellDetector`) and in no other record is removed too.
    """
    text = sentence
    for spelling in (name, _BRACKET.split(name, maxsplit=1)[0].rstrip()):
        words = re.findall(r"[^\W_]+", spelling)
        if words:
            joined = r"[\W_]*".join(map(re.escape, words))
            text = re.sub(rf"(?<!\w){joined}(?!\w)(?:['’]s\b)?", " ", text, flags=re.IGNORECASE)
    coined = {terms[0] for start, end, terms in analyzer.spans(name) if _CAMEL.search(name, start, end)}
    for start, end, terms in reversed(list(analyzer.spans(text))):
        if terms[0] in coined and holders.count(terms[:1]) == 1:
            text = f"{text[:start]} {text[end:]}"
    if text == sentence:
        return text
    text = _EMPTY.sub(" ", text)
    start = next((start for start, _, _ in analyzer.spans(text)), len(text))
    start -= text[start - 1 : start] == "("
    return " ".join(text[start:].split()).strip(" :;,-–—")


# ------------------------------------------------------------------------------------------- fair queries


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


def gold_line(made_by: str, number: int, query: str, grades: Mapping[str, int], group: str | None) -> dict[str, Json]:
    """Return a line of a gold file."""
    line = {"id": f"{made_by}-{number:04}", "query": query, "relevant": dict(grades)}
    return {**line, **({"group": group} if group else {}), "synthetic": made_by}


def write(lines: Iterable[Mapping[str, Json]], path: Path) -> None:
    """Replace the file with these lines in one step."""
    durable.put(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
