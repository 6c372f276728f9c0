"""Sentence boundaries by a blank spaCy pipeline, which sees words between blanks, and by the stops of other scripts:
rules only, no download."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.sources.chunking.spacy_import import mask_runs, spacy

if TYPE_CHECKING:
    from spacy.language import Language

_BLOCK = 100_000
"""Characters passed to spaCy at once; below the `max_length` of any pipeline."""

_STOP_OR_SPACE = (re.compile(r"(?<=[.!?])\s+|(?<=[。！？｡।])"), re.compile(r"\s+"))
_STOP = re.compile(r"(?:[。！？｡]+[」』”’）》〉】]*|[।॥။។៕؟۔։።]+[”’»)]*)\s*")
"""Stops that no blank need follow, or that spaCy knows in some languages only."""


def sentence_starts(text: str, language: str = "en") -> list[int]:
    """Return the character positions at which the sentences of `text` begin; the first is 0.

    Raises:
        UsageError: spaCy has no blank pipeline of this language.
        Unavailable: spaCy, or a package that it needs for this language, is not installed.
    """
    pipeline = _pipeline(language)
    starts = [0] if text.isascii() else [0, *(found.end() for found in _STOP.finditer(text) if found.end() < len(text))]
    for offset, block in _blocks(text):
        starts.extend(offset + sentence.start_char for sentence in pipeline(mask_runs(block)).sents)
    return sorted(set(starts))


@lru_cache(maxsize=4)
def _pipeline(language: str) -> Language:
    package = spacy()  # takes seconds: only for a block that must be cut
    try:
        pipeline: Language = package.blank(language)
    except ImportError as error:
        if "E048" in str(error):
            raise UsageError(
                f"spaCy has no language `{language}`", hint='use a code such as "en" or "de", or "xx" for any'
            ) from error
        raise Unavailable(
            f"spaCy cannot read `{language}` here: {error}", hint='use "xx", which needs no extra package'
        ) from error
    pipeline.add_pipe("sentencizer")
    return pipeline


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the text in parts that spaCy accepts, cut after a sentence or a word if possible."""
    start = 0
    while len(text) - start > _BLOCK:
        end = start + _BLOCK
        for boundary in _STOP_OR_SPACE:
            ends = [match.end() for match in boundary.finditer(text, start + _BLOCK * 3 // 4, end)]
            if ends:
                end = ends[-1]
                break
        yield start, text[start:end]
        start = end
    yield start, text[start:]
