"""Late interaction: how well each word of a query is met by a word of a text, and the other way round.

ColBERT's MaxSim (Khattab and Zaharia 2020) with the token vectors of an encoder that was never trained for it. Three
things make it work there: words count by how rare they are; both directions count, each by the length of the other
side, for the longer one is always covered less; and a long text is read in windows, of which the best one counts. On
seven collections either direction alone loses 0.05 nDCG@10 somewhere, both of them half and half gain 0.014, by length
0.023. Centring the vectors gains nothing beyond that. Vectors are (t, dim) float32 rows of L2 norm 1, ids (t,).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from retrieve_cli.frozen import Frozen
from retrieve_cli.numerics import one_blas_thread, products

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows, Vectors

WINDOW, STRIDE = 96, 48
"""Tokens; windows of 64 and of 128 were within 0.002."""


class Readable(Protocol):
    """Vectors that are read some at a time."""

    def __getitem__(self, rows: slice) -> Vectors:
        """Some rows, (n, dim) float32; they hold until others are read."""


class WeightedTokens(Frozen, eq=False):
    """The tokens of a query, or of many texts one behind the other."""

    vectors: Readable
    weights: Vectors
    """(t,) float32 how much each counts."""


class Windows(Frozen, eq=False):
    """The windows of candidates' texts, and how a query matches each of them. It takes all candidates to know how
    long a window is, and so how much either direction counts; everything else is of a window by itself."""

    words: int
    """Number of words of the query."""
    owners: Rows
    """(w,) whose window it is: the candidate's place."""
    lengths: Rows
    """(w,) tokens."""
    met: Vectors
    """(w,) how well it meets the words of the query."""
    covered: Vectors
    """(w,) how well the query meets its words."""

    def best(self, candidates: int) -> NDArray[np.float64]:
        """(candidates,) float64 scores: of each candidate the best window. One without a window has -1, as far from
        any query as can be."""
        scores = np.full(candidates, -1.0)
        if len(self.owners):
            share = self.lengths.mean() / (self.lengths.mean() + self.words)
            np.maximum.at(scores, self.owners, share * self.met + (1.0 - share) * self.covered)
        return scores

    def apart(self, candidates: int) -> list[Windows]:
        """The windows of each candidate alone."""
        places = [np.flatnonzero(self.owners == at) for at in range(candidates)]
        return [
            Windows(self.words, np.zeros_like(each), self.lengths[each], self.met[each], self.covered[each])
            for each in places
        ]


def together(parts: Sequence[Windows]) -> Windows:
    """Return the windows of several candidates, one candidate per part."""
    owners = np.repeat(np.arange(len(parts)), [len(part.owners) for part in parts])
    columns = ([getattr(part, name) for part in parts] for name in ("lengths", "met", "covered"))
    return Windows(max(part.words for part in parts), owners, *map(np.concatenate, columns))


def maxsim(
    query: WeightedTokens, texts: WeightedTokens, ends: Rows, owners: Rows, candidates: int
) -> NDArray[np.float64]:
    """(candidates,) float64 scores: of each candidate the best window of all its texts.

    `ends` (n,) is the end of each text, `owners` (n,) its candidate.
    """
    return match_windows(query, texts, ends, owners).best(candidates)


def match_windows(query: WeightedTokens, texts: WeightedTokens, ends: Rows, owners: Rows) -> Windows:
    """The windows of the texts; none where the query has no words."""
    spans = [(owner, *span) for owner, first, end in _texts(ends, owners) for span in windows(first, end)]
    if not spans or not len(query.weights):
        none, nothing = np.empty(0, np.int64), np.empty(0, np.float32)
        return Windows(0, none, none, nothing, nothing)
    whose, starts, stops = (np.array(column) for column in zip(*spans, strict=True))
    lengths = stops - starts
    begins = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    places = np.repeat(starts - begins, lengths) + np.arange(int(lengths.sum()))
    similar = _similar(query.vectors[:], texts.vectors, ends)
    met = _mean(query.weights, _highest(similar, starts, stops).T)
    weights = texts.weights[places]
    covered = np.divide(
        np.add.reduceat(weights * similar.max(axis=0)[places], begins), _above_0(np.add.reduceat(weights, begins))
    )
    return Windows(len(query.weights), whose, lengths, met, covered)


def windows(first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each window of a text; the last one ends with the text and is as long as the others."""
    last = max(first, end - WINDOW)
    for start in range(first, last, STRIDE):
        yield start, start + WINDOW
    yield last, end


def _texts(ends: Rows, owners: Rows) -> Iterator[tuple[int, int, int]]:
    """Owner, first token and end of each text that has a token."""
    first = 0
    for end, owner in zip(ends.tolist(), owners.tolist(), strict=True):
        if end > first:
            yield owner, first, end
        first = end


def _similar(query: Vectors, texts: Readable, ends: Rows) -> Vectors:
    """(words, t + 1) inner products and a column without meaning. One product of BLAS a text: its bits then do not
    depend on the texts beside it."""
    similar = np.zeros((len(query), int(ends[-1]) + 1), np.float32)
    first = 0
    with one_blas_thread:
        for end in ends.tolist():
            if end > first:
                np.matmul(query, texts[first:end].T, out=similar[:, first:end])
            first = end
    return similar


def _highest(similar: Vectors, starts: Rows, stops: Rows) -> Vectors:
    """(words, w) the highest number of each word in each window."""
    # Between the windows lies what reduceat finds from a stop to the next start.
    return np.maximum.reduceat(similar, np.stack([starts, stops], axis=1).ravel(), axis=1)[:, ::2]


def _mean(weights: Vectors, values: Vectors) -> Vectors:
    """(n, t) values to (n,) weighted means."""
    shares: Vectors = products(values, weights) / _above_0(weights.sum())
    return shares


def _above_0(weight: Vectors) -> Vectors:
    return np.maximum(weight, np.float32(1e-9))
