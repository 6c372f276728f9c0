"""Summaries without a language model: of each chunk the sentence that is closest to all of them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import accumulate, groupby, pairwise

import numpy as np

from retrieve_cli.contracts import LONGEST_FACET, Card, Chunk, Encoder, FacetAnswer
from retrieve_cli.errors import one_line
from retrieve_cli.sources.chunking.sentences import sentence_starts

SUMMARY = "summary"
_CHUNKS = 256
"""Chunks whose sentences are encoded together."""
_ENDS = (".", "!", "?", "…", "。", "！", "？", "؟", "।")
_CLOSING = "\"')]»”’*_"
"""Marks that may follow the end of a sentence."""
_RULES = 2
"""Version of the rule; part of the card."""


class ExtractiveFacets:
    """Chooses the sentence whose vector has the largest inner product with the centroid of the chunk's sentences.

    The centroid as in Radev et al., "Centroid-based summarization of multiple documents", Information Processing &
    Management 40(6), 2004, of sentence vectors instead of term weights. Of equal sentences the first is chosen. A
    chunk's answer does not depend on the other chunks.
    """

    address = ""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    @property
    def card(self) -> Card:
        return {"kind": "extractive", "names": [SUMMARY], "rules": _RULES}

    def make(self, chunks: Sequence[Chunk]) -> Generator[FacetAnswer, None, None]:
        for start in range(0, len(chunks), _CHUNKS):
            sentences = [_sentences(chunk.text) for chunk in chunks[start : start + _CHUNKS]]
            ends = [0, *accumulate(map(len, sentences))]
            texts = [sentence for several in sentences for sentence in several]
            vectors = self._encoder.encode_passages(texts) if texts else np.empty((0, 1), np.float32)
            for place, (first, end) in enumerate(pairwise(ends), start):
                found = {}
                if end > first:
                    rows = vectors[first:end].astype(np.float64)
                    found[SUMMARY] = texts[first + int(np.einsum("ij,j->i", rows, rows.sum(axis=0)).argmax())]
                yield FacetAnswer(place, found)


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text, each on one line; parts without an end, such as headings, rows of tables and
    code, only if there is nothing else."""
    lines = []
    for filled, stretch in groupby(text.split("\n"), key=lambda line: bool(line.strip())):
        if filled:  # no sentence goes on after a blank line
            paragraph = "\n".join(stretch)
            starts = [*sentence_starts(paragraph), len(paragraph)]
            lines += [one_line(paragraph[start:end], LONGEST_FACET) for start, end in pairwise(starts)]
    worded = [line for line in lines if any(char.isalnum() for char in line)]
    return [line for line in worded if line.rstrip(_CLOSING).endswith(_ENDS)] or worded
