"""Token vectors of all chunks, 2-bit quantised, for a reranker that compares words: `tokens.pkl`.

A number is stored as one of the four levels with the least error for a normal distribution (Max 1960), and a vector is
normalised to length 1 again when it is read: 96 bytes per token of 384 numbers. On seven collections, reranking with
them differs from reranking with full vectors by 0.0003 nDCG@10; 1-bit signs, half the size, lose 0.002.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json, TokenVectors
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage import pickles
from retrieve_cli.storage.pickles import Later

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows, Terms, Vectors

    Codes = NDArray[np.uint8]

_THRESHOLD = 0.9816
_LEVELS = np.array([-1.510, -0.4528, 0.4528, 1.510], np.float32)
"""Levels for a normal distribution of deviation 1."""
_PER_BYTE = 4
_COUNTED = 1024
"""Chunks whose tokens are counted at a time."""
CARD: Mapping[str, Json] = {"bits": 2, "version": 1}
"""Parameters of the packing; part of the recipe."""
_FOURS = _LEVELS[(np.arange(256)[:, None] >> np.array([0, 2, 4, 6])) & 3].view(np.complex128)[:, 0]
"""The four numbers of each byte, (256,), as one item of 16 bytes: NumPy copies such items faster than short rows."""


class PackedTokens(Frozen, eq=False):
    """2-bit quantised tokens of a text."""

    ids: Terms
    """Token ids, (t,) int32."""
    codes: Codes
    """Packed vectors, (t, width) uint8, four numbers per byte."""


def width_of(dim: int) -> int:
    """Return the bytes of a packed vector."""
    return -(-dim // _PER_BYTE)


def pack(tokens: TokenVectors) -> PackedTokens:
    """Return the vectors at unit length, 2-bit quantised."""
    vectors = tokens.vectors
    rows, dim = vectors.shape
    # The numbers of a vector of length 1 have a deviation of 1 / sqrt(dim).
    scale = np.linalg.norm(vectors, axis=1, keepdims=True) / np.sqrt(np.float32(dim))
    level = np.zeros((rows, width_of(dim) * _PER_BYTE), np.uint8)
    edge = _THRESHOLD * scale
    level[:, :dim] = (vectors > -edge).astype(np.uint8) + (vectors > 0) + (vectors > edge)
    parts = level.reshape(rows, width_of(dim), _PER_BYTE)
    codes = (parts << np.array([0, 2, 4, 6], np.uint8)).sum(axis=2, dtype=np.uint8)
    return PackedTokens(tokens.ids.astype(np.int32), codes)


class UnitVectors:
    """Rows of L2 norm 1, (t, dim) float32, unpacked on access and always into the same memory, so that the rows of a
    text are still in the cache when they are multiplied. For one thread."""

    def __init__(self, codes: Codes, dim: int) -> None:
        self._codes = codes
        self._dim = dim
        self._memory = np.empty((0, codes.shape[1]), np.complex128)

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, rows: slice) -> Vectors:
        """Return some rows; they are valid until others are read."""
        codes = self._codes[rows]
        if len(codes) > len(self._memory):
            self._memory = np.empty(codes.shape, np.complex128)
        fours = self._memory[: len(codes)]
        _FOURS.take(codes, out=fours, mode="clip")  # the default mode makes another copy
        vectors = fours.view(np.float32)[:, : self._dim]
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
        # Rows with gaps between them would take another path through BLAS, with other last bits.
        into = vectors if vectors.flags.c_contiguous else None
        rows_of_length_1: Vectors = np.divide(vectors, np.maximum(norms, np.float32(1e-12)), out=into)
        return rows_of_length_1


class Stretch(Frozen, eq=False):
    """Concatenated tokens of several chunks, with the number of tokens of each."""

    tokens: PackedTokens
    sizes: Rows


def write(stretches: Callable[[], Iterable[Stretch]], path: Path, *, dim: int) -> int:
    """Write the tokens of all chunks in order; return the number of chunks.

    `stretches` is called twice; one of the stretches is in memory at a time.
    """
    sizes, largest = array("i"), -1
    for stretch in stretches():
        sizes.frombytes(stretch.sizes.astype(np.intc).tobytes())
        largest = max(largest, int(stretch.tokens.ids.max(initial=-1)))
    starts = np.concatenate([[0], np.cumsum(np.frombuffer(sizes, np.intc), dtype=np.int64)])
    ids, codes = Later("<i4", (int(starts[-1]),)), Later("|u1", (int(starts[-1]), width_of(dim)))
    frequencies = Later("<i4", (largest + 1 if largest >= 0 else 1,))
    stored = {"dim": dim, "ids": ids, "codes": codes, "starts": starts, "frequencies": frequencies}

    def blocks() -> Iterator[tuple[Later, NDArray[Any]]]:
        counts = np.zeros(frequencies.shape[0], np.int64)
        for stretch in stretches():
            yield ids, stretch.tokens.ids
            yield codes, stretch.tokens.codes
            counts += _frequencies(stretch.tokens.ids, stretch.sizes, len(counts))
        yield frequencies, counts

    pickles.dump(stored, path, blocks())
    return len(sizes)


def _frequencies(ids: Terms, sizes: Rows, size: int) -> Rows:
    """Return for each token id below `size` the number of chunks, of so many tokens each, that contain it."""
    chunk = np.repeat(np.arange(len(sizes)), sizes)
    narrow = len(sizes) * size < 2**31  # sorting 32-bit numbers takes half the time
    pairs = np.sort((chunk * size + ids).astype(np.int32 if narrow else np.int64))
    first = np.concatenate([[True], pairs[1:] != pairs[:-1]])[: len(pairs)]
    return np.bincount(pairs[first] % size, minlength=size)


class TokenTable:
    """Opened `tokens.pkl` of a segment: the tokens of any chunk, and their document frequencies."""

    def __init__(self, stored: Mapping[str, Json]) -> None:
        """Open the contents from `write`.

        Raises:
            IndexCorrupt: parts are missing or disagree.
        """
        try:
            self.dim: int = stored["dim"]
            self._ids: Terms = stored["ids"]
            self._codes: Codes = stored["codes"]
            self._starts: Rows = stored["starts"]
            self.frequencies: NDArray[np.int32] = stored["frequencies"]
            """Number of chunks that contain each token id."""
            types = [self._ids.dtype, self._codes.dtype, self._starts.dtype, self.frequencies.dtype]
            typed = types == [np.int32, np.uint8, np.int64, np.int32] and len(self.frequencies) > 0
            fit = typed and len(self._ids) == len(self._codes) == int(self._starts[-1])
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise IndexCorrupt(f"tokens.pkl is incomplete ({quoted(error)})", hint="retrieve inspect verify") from error
        if not fit or self._codes.ndim != 2 or self._codes.shape[1] != width_of(self.dim):
            raise IndexCorrupt("the arrays of tokens.pkl do not fit each other", hint="retrieve inspect verify")

    def __len__(self) -> int:
        """Return the number of chunks."""
        return len(self._starts) - 1

    def stretch(self, first: int, end: int) -> Stretch:
        """Return the tokens of the chunks from row `first` to `end`, packed."""
        span = slice(int(self._starts[first]), int(self._starts[end]))
        return Stretch(PackedTokens(self._ids[span], self._codes[span]), np.diff(self._starts[first : end + 1]))

    def frequencies_in(self, rows: Rows) -> Rows:
        """Return for each token id the number of some chunks that contain it."""
        counts = np.zeros(len(self.frequencies), np.int64)
        for first in range(0, len(rows), _COUNTED):
            starts, ends = (self._starts[rows[first : first + _COUNTED] + after] for after in (0, 1))
            sizes = ends - starts
            places = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(int(sizes.sum()))
            counts += _frequencies(self._ids[places], sizes, len(counts))
        return counts


class ChunkTokenVectors:
    """The tokens of the chunks of all segments, with their weights."""

    def __init__(self, tables: Sequence[TokenTable], live: Mask | None = None) -> None:
        """`tables` has at least one; `live` masks the chunks that are not deleted, (n,) bool; None: all."""
        self._tables = tables
        self._ends = np.cumsum([0, *map(len, tables)])
        self._live = live

    def tokens(self, rows: Sequence[int]) -> tuple[Terms, UnitVectors, Rows]:
        """Return the ids (t,) and unit vectors (t, dim) of some chunks, and the end of each chunk among them."""
        numbers = np.searchsorted(self._ends, rows, side="right") - 1
        stretches: list[Stretch] = []
        for number, row in zip(numbers.tolist(), rows, strict=True):
            first = row - int(self._ends[number])
            stretches.append(self._tables[number].stretch(first, first + 1))
        ids = np.concatenate([stretch.tokens.ids for stretch in stretches])
        codes = np.concatenate([stretch.tokens.codes for stretch in stretches])
        return ids, UnitVectors(codes, self._tables[0].dim), np.cumsum([len(one.tokens.ids) for one in stretches])

    def idf(self, ids: Terms) -> Vectors:
        """Return ln(1 + (n - df + 0.5) / (df + 0.5)) of each id; df is the number of live chunks that contain it."""
        frequencies = self._frequencies
        live = int(self._ends[-1]) if self._live is None else int(np.count_nonzero(self._live))
        clipped = np.minimum(ids, len(frequencies) - 1)
        df = np.where(ids < len(frequencies), frequencies[clipped], 0).astype(np.float64)
        return np.log1p((live - df + 0.5) / (df + 0.5)).astype(np.float32)

    @cached_property
    def _frequencies(self) -> Rows:
        frequencies = np.zeros(max(len(table.frequencies) for table in self._tables), np.int64)
        for table, (first, end) in zip(self._tables, pairwise(self._ends), strict=True):
            frequencies[: len(table.frequencies)] += table.frequencies
            if self._live is not None:
                deleted = np.flatnonzero(~self._live[first:end])
                frequencies[: len(table.frequencies)] -= table.frequencies_in(deleted)
        return frequencies
