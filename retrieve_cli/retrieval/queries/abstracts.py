"""Title and abstract of a document that a query is about, as a text that retrievers can search with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from retrieve_cli.contracts import Parsed

_MOST_WORDS = 100
_MOST_CHARACTERS = 800
"""Maximum length of an abstract: models read a few hundred words, and the query itself should keep its weight. The
characters count for languages that put no space between words."""
_LONGEST_TITLE = 300
_MOST_BLOCKS = 300
"""Number of blocks, from the first, among which an abstract is searched."""
_LABELS = frozenset({"abstract", "executive summary", "résumé", "resumen", "summary", "zusammenfassung"})
_BEHIND_LABEL = ":.—–-"
_ENDS = (".", "!", "?", ":", "…", "。", "！", "？", "।", "؟", ")", "”", '"')
_LEAST_WORDS = 8
_LEAST_CHARACTERS = 40
"""Minimum length of a paragraph of prose: above the length of a line of authors or an address."""


class Summary(NamedTuple):
    """The beginning of a document in brief."""

    title: str
    abstract: str
    kind: str
    """`abstract`, or `first paragraph` if nothing is labelled as one; empty if there is neither."""

    @property
    def text(self) -> str:
        return " ".join(filter(None, (self.title, self.abstract)))


class _Block(NamedTuple):
    kind: str
    level: int
    text: str


def summary_of(parsed: Parsed) -> Summary:
    """Return the title and the abstract of a document, as far as it has them."""
    blocks = list(islice(_blocks(parsed), _MOST_BLOCKS))
    given = parsed.metadata.get("title")
    headings = (block.text for block in blocks if block.kind == "heading" and _label(block.text) is None)
    title = (given if isinstance(given, str) else "") or parsed.title or next(headings, "")
    title = _cut(title, words=_MOST_WORDS, characters=_LONGEST_TITLE)
    for kind, text in (("abstract", _labelled(blocks)), ("first paragraph", _prose(blocks))):
        if text:
            return Summary(title, _cut(text, words=_MOST_WORDS, characters=_MOST_CHARACTERS), kind)
    return Summary(title, "", "")


def _labelled(blocks: Sequence[_Block]) -> str:
    """Return the text under the label of an abstract; a part of it may have its own heading."""
    for place, block in enumerate(blocks):
        behind = _label(block.text)
        if behind:
            return behind
        if behind is None:
            continue
        texts: list[str] = []
        for after in blocks[place + 1 :]:
            if after.kind == "heading" and (block.kind != "heading" or after.level <= block.level):
                break
            if after.kind in ("heading", "paragraph", "list"):
                texts.append(after.text)
            if sum(map(len, texts)) > 2 * _MOST_CHARACTERS:
                break
        if texts:
            return " ".join(texts)
    return ""


def _label(text: str) -> str | None:
    """Return the text behind the label of an abstract, empty if the label is all; None if there is no label."""
    line = text.strip().lstrip("0123456789.*_ ")
    for label in _LABELS:
        if line[: len(label)].casefold() == label:
            rest = line[len(label) :].lstrip("*_ ")
            if not rest.strip(_BEHIND_LABEL + "*_ \n"):
                return ""
            if rest[0] in _BEHIND_LABEL or rest[0] == "\n":
                return rest.lstrip(_BEHIND_LABEL + "*_ \n")
    return None


def _prose(blocks: Sequence[_Block]) -> str:
    """Return the first paragraph of prose: long enough, most of its words neither names nor numbers. One that ends as
    a sentence does is preferred to a line of a table of contents."""
    paragraphs = []
    for block in blocks:
        words = block.text.split()
        plain = sum(word[0].isalpha() and not word[0].isupper() for word in words)
        long = len(words) >= _LEAST_WORDS or len(block.text) - len(words) >= _LEAST_CHARACTERS
        if block.kind == "paragraph" and long and 2 * plain >= len(words):
            paragraphs.append(block.text)
    return next((text for text in paragraphs if text.rstrip().endswith(_ENDS)), next(iter(paragraphs), ""))


def _blocks(parsed: Parsed) -> Iterator[_Block]:
    for block in parsed.layout.blocks if parsed.layout is not None else ():
        yield _Block(block.kind, block.level, block.title or parsed.text[block.start : block.end])


def _cut(text: str, *, words: int, characters: int) -> str:
    """Return the beginning of a text as one line, cut between words if that is possible."""
    line = " ".join(text[: 4 * characters].split()[:words])
    if len(line) <= characters:
        return line
    return line[: characters + 1].rpartition(" ")[0] or line[:characters]
