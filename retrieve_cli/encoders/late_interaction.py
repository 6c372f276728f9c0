"""A reader of hits by late interaction, over token vectors that an index keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from retrieve_cli.contracts import Hit, Query, TokenVectors, Unit
from retrieve_cli.encoders.maxsim import Readable, Windows, Words, match_windows, together
from retrieve_cli.encoders.threads import once
from retrieve_cli.numerics import products

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Terms, Vectors


PASSAGES = 4
"""Chunks of a record that are read."""
_TENANTS = 32
"""Tenants for which the weights of tokens are kept, of 120 KB each."""
_QUERIES = 4096
"""Queries whose tokens are kept."""


class Tokens(Protocol):
    """The token vectors of all chunks."""

    def tokens(self, rows: Sequence[int]) -> tuple[Terms, Readable, Rows]:
        """Return ids (t,) and unit vectors (t, dim) of the tokens of chunks, and the end of each chunk among them."""

    def idf(self, ids: Terms) -> Vectors:
        """(t,) float32 how much a token counts."""

    def within(self, chunks: Mask) -> Tokens:
        """Return the tokens with the weights that they have among some chunks, (n,) bool."""


class LateInteraction:
    """Reranker that compares a query word by word with each hit's chunk, or with the nearest chunks of a record."""

    name = "maxsim"

    def __init__(
        self,
        *,
        tokens: Callable[[], Tokens],
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
        self._tenants: dict[bytes, Tokens] = {}

    def read(self, query: Query, hits: Sequence[Hit]) -> Any:
        """(n,) float64: each hit's chunk, or of a record the best of those that are read."""
        return self._match(self._encode(query.text), hits, query).best(len(hits))

    def look(self, query: Query, hits: Sequence[Hit]) -> list[Windows]:
        """Return the windows of each hit, which do not depend on the other hits. Callers that keep them come again with
        more hits: the tokens of a query are kept too."""
        return self._match(self._encode_once(query.text), hits, query).apart(len(hits))

    def scores(self, seen: Sequence[Windows]) -> Any:
        """(n,) float64: what `read` says of hits that were looked at."""
        return together(seen).best(len(seen))

    def _match(self, tokens: TokenVectors, hits: Sequence[Hit], query: Query) -> Windows:
        table = self._table if query.population is None else self._of_tenant(query.population)
        spans = self._passages(tokens, hits, query.chunks) if self._unit == "record" else [[hit.row] for hit in hits]
        ids, vectors, ends = table.tokens([row for span in spans for row in span])
        lengths = np.sqrt(np.einsum("ij,ij->i", tokens.vectors, tokens.vectors))[:, None]
        words = Words(tokens.vectors / np.maximum(lengths, np.float32(1e-12)), table.idf(tokens.ids))
        owners = np.repeat(np.arange(len(hits)), [len(span) for span in spans])
        return match_windows(words, Words(vectors, table.idf(ids)), ends, owners)

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
            return list(spans)
        rows = np.array([row for place in long for row in spans[place]], np.int64)
        near = products(self._vectors_of(rows), tokens.vectors.mean(0))
        chosen: list[Sequence[int]] = list(spans)
        begin = 0
        for place in long:
            end = begin + len(spans[place])
            nearest = np.argsort(-near[begin:end], kind="stable")[:PASSAGES]
            chosen[place] = [spans[place][row] for row in nearest]
            begin = end
        return chosen

    def _of_tenant(self, records: Mask) -> Tokens:
        """Return the tokens with their weights among the chunks of some records; those of the last tenants are kept."""
        key = sha256(np.packbits(records).tobytes()).digest()
        if (table := self._tenants.get(key)) is None:
            table = self._table.within(np.repeat(records, np.diff(self._starts)))
            for oldest in list(self._tenants)[: 1 - _TENANTS]:
                self._tenants.pop(oldest, None)
            self._tenants[key] = table
        return table

    @once
    def _table(self) -> Tokens:
        return self._open()
