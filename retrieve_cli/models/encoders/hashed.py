"""An encoder without a model: signed feature hashing of words, pairs of words and pieces of words.

Weinberger et al. 2009, "Feature Hashing for Large Scale Multitask Learning". A baseline, and exact enough to test with:
every weight is a power of two, so that no sum depends on its order, its neighbours or the machine.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import ModelCard
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Vectors

    Hashes = NDArray[np.uint64]

_VERSION = 1
"""Raised when a text's vector changes."""
_MAX_TOKENS = 512
_SLICE = 512
"""Texts handled at once; bounds the memory."""
_WORD = re.compile(r"\w+")
_EDGE = "\x02\x03"
_PIECE_WEIGHT = 0.25
_PAIR_WEIGHT = 0.125
_COMMON_WEIGHT = 0.25
_COMMON_WORDS = (
    "a an and are as at be by can for from has have in into is it its not of on or that the their this to used was were"
    " which will with"
)
_COMMON = frozenset(_COMMON_WORDS.split())
"""Words with little meaning, listed because there is no model or collection to tell them."""


class WordTokenizer:
    """`contracts.Tokenizer` over runs of letters and digits."""

    @property
    def special_tokens(self) -> int:
        return 0

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        return [match.span() for match in _WORD.finditer(text)]

    def count(self, text: str) -> int:
        return len(_WORD.findall(text))


class HashedEncoder:
    """`contracts.Encoder` whose vectors follow from the text alone."""

    truncated = 0
    """No text is ever cut."""

    shares_passes = True
    """No sum depends on its order, and none on other texts."""

    def __init__(
        self, dim: int = 256, *, pieces: tuple[int, int] = (3, 4), query_prefix: str = "", passage_prefix: str = ""
    ) -> None:
        """`pieces` is the shortest and the longest piece of a word in characters, both included."""
        self._dim = dim
        self._pieces = pieces
        self._tokenizer = WordTokenizer()
        self._card = ModelCard(
            family="hashed",
            name=f"hashed-{dim}",
            revision=sha1({"version": _VERSION, "dim": dim, "pieces": pieces}),
            dim=dim,
            max_tokens=_MAX_TOKENS,
            query_prefix=query_prefix,
            passage_prefix=passage_prefix,
            pooling="none",
        )

    @property
    def card(self) -> ModelCard:
        return self._card

    @property
    def tokenizer(self) -> WordTokenizer:
        return self._tokenizer

    @property
    def device(self) -> str:
        return "cpu (feature hashing, no model)"

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32, rows of L2 norm 1; a text without a word has the zero vector."""
        return self._encode([self._card.query_prefix + text for text in texts])

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32, rows of L2 norm 1; a text without a word has the zero vector."""
        return self._encode([self._card.passage_prefix + text for text in texts])

    def _encode(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self._dim), dtype=np.float32)
        for start in range(0, len(texts), _SLICE):
            vocabulary: dict[str, int] = {}
            own = [words(text) for text in texts[start : start + _SLICE]]
            worded = [[vocabulary.setdefault(word, len(vocabulary)) for word in each] for each in own]
            meanings = self._word_vectors(list(vocabulary))
            hashes = np.fromiter((hash64(word) for word in vocabulary), dtype=np.uint64, count=len(vocabulary))
            for place, numbers in enumerate(worded, start):
                if numbers:
                    row = np.array(numbers)
                    total = meanings[row].sum(axis=0)
                    self._add(total, pairs(hashes[row]), _PAIR_WEIGHT)
                    # Counts dampened by the square root, as repeated words add ever less, then scaled to L2 norm 1.
                    damped = np.sign(total) * np.sqrt(np.abs(total))
                    norm = np.sqrt(np.abs(total).sum(dtype=np.float64))
                    vectors[place] = (damped / norm).astype(np.float32) if norm > 0 else total
        return vectors

    def _word_vectors(self, vocabulary: Sequence[str]) -> Vectors:
        """(words, dim) float32: what one occurrence of each word adds."""
        meanings = np.zeros((len(vocabulary), self._dim), dtype=np.float32)
        for row, word in zip(meanings, vocabulary, strict=True):
            if word in _COMMON:
                self._add(row, [hash64(word)], _COMMON_WEIGHT)
            else:
                self._add(row, [hash64(word)], 1.0)
                self._add(row, [hash64(piece) for piece in self._cut(word)], _PIECE_WEIGHT)
        return meanings

    def _cut(self, word: str) -> Iterator[str]:
        """The pieces of a word, its edges marked so that a beginning is not an end."""
        marked = f"{_EDGE[0]}{word}{_EDGE[1]}"
        shortest, longest = self._pieces
        for size in range(shortest, longest + 1):
            for start in range(len(marked) - size + 1):
                yield marked[start : start + size]

    def _add(self, vector: Vectors, hashes: Sequence[int] | Hashes, weight: float) -> None:
        """Add each feature at its bucket, with the sign that its highest bit gives."""
        features = np.asarray(hashes, dtype=np.uint64)
        signs = np.where(features >> np.uint64(63), np.float32(-weight), np.float32(weight))
        np.add.at(vector, (features % np.uint64(self._dim)).astype(np.int64), signs)


def words(text: str) -> list[str]:
    """Runs of letters and digits, without regard to case."""
    return _WORD.findall(text.casefold())


def hash64(text: str) -> int:
    """64 bits of BLAKE2b (RFC 7693), the same in every process and on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def pairs(hashes: Hashes) -> Hashes:
    """(n - 1,) uint64: a hash for each word with its successor (the finalizer of MurmurHash3)."""
    mixed = hashes[:-1] * np.uint64(0x9E3779B97F4A7C15) + hashes[1:]
    mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return mixed ^ (mixed >> np.uint64(33))
