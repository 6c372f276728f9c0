"""What a reranker says of hits while many settings are tried: whatever lists a hit stands in, it is read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from retrieve_cli.assemble import encoders, rerankers
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Encoder, Hit, Query
from retrieve_cli.stages.rerank import Reader, Separable
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.stages.fusion import Floats


class Rereading(Protocol):
    """A reranker that remembers."""

    any_depth: bool
    """Whether what it says of the first hits follows from what it saw of more."""
    by_chunk: bool
    """Whether it reads the chunk that stands for a record; else the whole record."""

    @property
    def name(self) -> str: ...

    def scores(self, query: Query, hits: Sequence[Hit]) -> Floats:
        """(n,) what the reranker says of these hits, read together."""


def rereading(generation: Generation, settings: Settings) -> Rereading | None:
    """What is configured, for rankings of records; None where nothing reads hits again.

    Raises:
        Unavailable: it cannot run.
    """

    @cache
    def encoder() -> Encoder:
        return encoders.encoder_to_query(settings, generation.manifest.recipe)

    reader = rerankers.reader(generation, settings, unit="record", encoder=encoder)
    if reader is None:
        return None
    if isinstance(reader, Separable):
        return Apart(reader, by_chunk=False)
    return Together(reader) if settings.rerank.backend == "llm" else Apart(_Pairs(reader), by_chunk=True)


class Apart:
    """Looks at each hit once; any list of hits is put together from that."""

    any_depth = True

    def __init__(self, reader: Separable, *, by_chunk: bool) -> None:
        self._reader = reader
        self.by_chunk = by_chunk
        self._seen: dict[str, dict[int, Any]] = {}

    @property
    def name(self) -> str:
        return self._reader.name

    def scores(self, query: Query, hits: Sequence[Hit]) -> Floats:
        seen = self._seen.setdefault(query.text, {})
        unseen = [hit for hit in hits if hit.row not in seen]
        if unseen:
            looks = self._reader.look(query, unseen)
            seen.update((hit.row, look) for hit, look in zip(unseen, looks, strict=True))
        return np.asarray(self._reader.scores([seen[hit.row] for hit in hits]), np.float64)


class Together:
    """Reads a list of hits as a whole, each list once: a chat model says of a hit what it says beside the others."""

    any_depth = False
    by_chunk = True

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._read: dict[tuple[str, tuple[int, ...]], Floats] = {}

    @property
    def name(self) -> str:
        return self._reader.name

    def scores(self, query: Query, hits: Sequence[Hit]) -> Floats:
        key = (query.text, tuple(hit.row for hit in hits))
        if key not in self._read:
            self._read[key] = np.asarray(self._reader.read(query, hits), np.float64)
        return self._read[key]


@dataclass(frozen=True, slots=True)
class _Pairs:
    """A reader whose scores are of a query and a hit alone: there is no more to see."""

    reader: Reader

    @property
    def name(self) -> str:
        return self.reader.name

    def read(self, query: Query, hits: Sequence[Hit]) -> Any:
        return self.reader.read(query, hits)

    def look(self, query: Query, hits: Sequence[Hit]) -> Sequence[Any]:
        return list(self.reader.read(query, hits))

    def scores(self, seen: Sequence[Any]) -> Any:
        return seen
