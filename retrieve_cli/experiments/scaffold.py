"""Starter gold files: known-item queries from an index, or the judgments of an interactive session.

A known-item query has one right answer, the record it was made from (Azzopardi, de Rijke and Balog, "Building simulated
queries for known-item topics", SIGIR 2007, https://doi.org/10.1145/1277741.1277820). It takes no manual work, and its
words come from the record itself, which favours every engine and lexical ones most: nDCG@10 is close to 1. Such a file
shows whether an index works and whether a setting breaks it, not the quality for real users. Every line names its
origin.

    descriptions   the first sentence of a description without the record's own name: the words of a person who knows
                   what a tool does but not its name. The default for catalogs.
    titles         the name as it is. In a catalog a name of a single word is a fair query (`Cellpose`); the title of a
                   document must have two.
    headings       the innermost heading of a section as it is; the default for documents. A heading with the document's
                   title in front would be unambiguous, but the title alone would find it.
    session        the queries and judgments of a user.

A fair query has one right answer and does not give it away (`fair_queries.py`).
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from retrieve_cli.errors import UsageError
from retrieve_cli.experiments.fair_queries import Candidate, Holders, Kind, Maker, Starter
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.contracts import Analyzer

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
        others = ", ".join(f"--from {name}" for name in (*MAKERS, "session") if name != kind)
        raise UsageError(f"no fair query can be made from the {kind}: {made.reasons}", hint=f"try {others}")
    return made


def from_titles(generation: Generation, analyzer: Analyzer, *, n: int, seed: int) -> Starter:
    """Return names as they are; the name of a catalog record is fair even if many records mention it."""
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
    """Return the words of a text without markup, on one line."""
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
