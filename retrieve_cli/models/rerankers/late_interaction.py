"""Late interaction: how well each word of a query is met by a word of a text, and the other way round.

ColBERT's MaxSim (Khattab and Zaharia 2020) with the token vectors of an encoder that was never trained for it. Three
things make it work there: words count by how rare they are; both directions count, each by the length of the other
side, for the longer one is always covered less; and a long text is read in windows, of which the best one counts. On
seven collections either direction alone loses 0.05 nDCG@10 somewhere, both of them half and half gain 0.014, by length
0.023. Centring the vectors gains nothing beyond that. Vectors are (t, dim) float32 rows of L2 norm 1, ids (t,).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from retrieve_cli.contracts import Hit, Query, TokenVectors, Unit
from retrieve_cli.cores import one_blas_thread
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.runtimes.packages import once

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows, Terms, Vectors

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


def match_windows(query: WeightedTokens, texts: WeightedTokens, ends: Rows, owners: Rows) -> Windows:
    """The windows of the texts; none where the query has no words."""
    parts = list(_texts(ends, owners))
    spans = [(owner, *span) for owner, first, end in parts for span in windows(first, end)]
    if not spans or not len(query.weights):
        none, nothing = np.empty(0, np.int64), np.empty(0, np.float32)
        return Windows(0, none, none, nothing, nothing)
    whose, starts, stops = (np.array(column) for column in zip(*spans, strict=True))
    lengths = stops - starts
    begins = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    places = np.repeat(starts - begins, lengths) + np.arange(int(lengths.sum()))
    words = query.vectors[:]
    similar = np.zeros((len(words), int(ends[-1]) + 1), np.float32)  # (words, t + 1), a column without meaning
    with one_blas_thread:
        for _, first, end in parts:
            np.matmul(words, texts.vectors[first:end].T, out=similar[:, first:end])
    # Between the windows lies what reduceat finds from a stop to the next start.
    highest: Vectors = np.maximum.reduceat(similar, np.stack([starts, stops], axis=1).ravel(), axis=1)[:, ::2]
    met: Vectors = np.einsum("ij,i->j", highest, query.weights) / _above_0(query.weights.sum())
    weights = texts.weights[places]
    reached = np.add.reduceat(weights * similar.max(axis=0)[places], begins)
    covered = np.divide(reached, _above_0(np.add.reduceat(weights, begins)))
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


def _above_0(weight: Vectors) -> Vectors:
    return np.maximum(weight, np.float32(1e-9))


PASSAGES = 4
"""Chunks of a record that are read."""
_QUERIES = 4096
"""Queries whose tokens are kept."""


class ChunkTokens(Protocol):
    """The token vectors of all chunks."""

    def tokens(self, rows: Sequence[int]) -> tuple[Terms, Readable, Rows]:
        """Return ids (t,) and unit vectors (t, dim) of the tokens of chunks, and the end of each chunk among them."""

    def idf(self, ids: Terms) -> Vectors:
        """(t,) float32 how much a token counts."""


class LateInteraction:
    """Reranker that compares a query word by word with each hit's chunk, or with the nearest chunks of a record."""

    name = "maxsim"

    def __init__(
        self,
        *,
        tokens: Callable[[], ChunkTokens],
        encode: Callable[[str], TokenVectors],
        vectors_of: Callable[[Rows], Vectors],
        starts: Rows,
        unit: Unit,
    ) -> None:
        """`tokens` is opened at the first hit; `encode` gives the tokens of a query, `vectors_of` the vectors (n, dim)
        of chunk rows; `starts` (records + 1,) the first chunk row of each record, then the number of chunks."""
        self._open = tokens
        self._encode = encode
        self._encode_once = lru_cache(maxsize=_QUERIES)(encode)
        self._vectors_of = vectors_of
        self._starts = starts
        self._unit = unit

    def read(self, query: Query, hits: Sequence[Hit]) -> Any:
        """(n,) float64: each hit's chunk, or of a record the best of those that are read."""
        return self._match(self._encode(query.text), hits, query).best(len(hits))

    def look(self, query: Query, hits: Sequence[Hit]) -> list[Windows]:
        """Return the windows of each hit, which do not depend on the other hits. Callers that keep them come again with
        more hits: the tokens of a query are kept too."""
        return self._match(self._encode_once(query.text), hits, query).apart(len(hits))

    def scores(self, seen: Sequence[Windows]) -> Any:
        """(n,) float64: the scores that `read` would return for the hits of `look`."""
        return together(seen).best(len(seen))

    def _match(self, tokens: TokenVectors, hits: Sequence[Hit], query: Query) -> Windows:
        table = self._table
        spans = self._passages(tokens, hits, query.chunks) if self._unit == "record" else [[hit.row] for hit in hits]
        ids, vectors, ends = table.tokens([row for span in spans for row in span])
        words = WeightedTokens(_unit(tokens.vectors), table.idf(tokens.ids))
        owners = np.repeat(np.arange(len(hits)), [len(span) for span in spans])
        return match_windows(words, WeightedTokens(vectors, table.idf(ids)), ends, owners)

    def _passages(self, tokens: TokenVectors, hits: Sequence[Hit], chunks: Mask | None) -> list[Sequence[int]]:
        """Return by record the rows of the chunks to read, among those that may be found: all of a short record, else
        those nearest to the query."""
        spans: list[Sequence[int]] = [
            range(int(self._starts[hit.record]), int(self._starts[hit.record + 1])) for hit in hits
        ]
        if chunks is not None:
            spans = [[row for row in span if chunks[row]] for span in spans]
        long = [place for place, span in enumerate(spans) if len(span) > PASSAGES]
        if not long or not len(tokens.vectors):
            return spans
        rows = np.array([row for place in long for row in spans[place]], np.int64)
        near = np.einsum("ij,j->i", self._vectors_of(rows), tokens.vectors.mean(0))
        for place in long:
            own, near = np.split(near, [len(spans[place])])
            spans[place] = [spans[place][row] for row in np.argsort(-own, kind="stable")[:PASSAGES]]
        return spans

    @once
    def _table(self) -> ChunkTokens:
        return self._open()


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    unit: Vectors = vectors / np.maximum(lengths, np.float32(1e-12))
    return unit
