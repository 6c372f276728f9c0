"""Encoding by workers: every text in one pass, results into the caches as they come.

Batches overlap: while the last texts of one are being encoded, the first of the next one are, too. A text that no
worker can encode is noted in `failed`; its record is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.contracts.executors import Encoded, Executor, Wanted
from retrieve_cli.contracts.progress import Task
from retrieve_cli.ingest.embedding import TermEncoding, VectorEncoding
from retrieve_cli.ingest.worker_results import WorkerResults
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.key_rows import KeyRows, as_digests, as_keys

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows
    from retrieve_cli.ingest.generation_writer import GenerationWriter
    from retrieve_cli.ingest.reuse import Reuse
    from retrieve_cli.storage.key_rows import Keys


class WorkerEncoding:
    """`embedding.Encoding` that makes vectors, packed tokens and term weights by the workers of an executor."""

    title = "encoding"

    def __init__(self, executor: Executor, vectors: VectorEncoding | None, terms: TermEncoding | None) -> None:
        self._executor = executor
        self._vectors = vectors
        self._terms = terms
        self._batches: list[_Batch] = []
        """Batches that are not complete."""
        self.done = 0
        self.failed: dict[bytes, str] = {}
        """Reasons by the SHA-1 of texts that no worker can encode."""

    @property
    def truncated(self) -> int:
        """Number of texts of which workers read only the beginning."""
        return self._executor.truncated

    def encode(self, keys: Sequence[bytes], texts: Sequence[str], task: Task) -> None:
        """Have texts encoded; return as soon as there is room for more."""
        digests = as_keys(keys)
        vectors = np.zeros(len(keys), np.bool_)
        terms = np.zeros(len(keys), np.bool_)
        if self._vectors is not None:
            vectors[self._vectors.lacks(digests)] = True
        if self._terms is not None:
            terms[self._terms.lacks(digests)] = True
        batch = _Batch(self, keys, task)
        if self._vectors is not None and vectors.any():
            batch.expect("vector", self._vectors.arriving(_chosen(keys, vectors)), vectors)
        if self._terms is not None and terms.any():
            batch.expect("terms", self._terms.arriving(_chosen(keys, terms)), terms)
        self._batches.append(batch)
        pairs = zip(vectors.tolist(), terms.tolist(), strict=True)
        try:
            self._executor.encode(texts, [Wanted(*pair) for pair in pairs], batch)
        except BaseException:
            self._keep()
            raise

    def finish(self) -> None:
        """Wait for all texts."""
        if not self._batches:
            return
        try:
            self._executor.finish()
        except BaseException:
            self._keep()
            raise

    def close(self) -> None:
        """End the workers."""
        self._executor.close()

    def lend(self, older: Generation, texts: KeyRows) -> Rows:
        """Take as known what an older generation has; return the rows of texts of which something is not known."""
        parts = [part for part in (self._vectors, self._terms) if part is not None]
        return np.unique(np.concatenate([np.empty(0, np.int64), *(part.lend(older, texts) for part in parts)]))

    def lacks(self, keys: Keys) -> Rows:
        """Return the places of keys that are neither known nor being encoded."""
        parts = [part for part in (self._vectors, self._terms) if part is not None]
        places = np.unique(np.concatenate([np.empty(0, np.int64), *(part.lacks(keys) for part in parts)]))
        if not len(places):
            return places
        begun = self.failed.keys() | {key for batch in self._batches for key in batch.left}
        return places[[key not in begun for key in as_digests(keys[places])]]

    def complete(self, batch: _Batch) -> None:
        """Write a batch of which every text is done."""
        self._batches.remove(batch)
        for arriving in batch.arriving:
            arriving.complete()
        self._count(batch, batch.count)

    def _keep(self) -> None:
        """Write the results that have arrived of incomplete batches."""
        for batch in self._batches:
            for arriving in batch.arriving:
                arriving.keep()
            self._count(batch, min((arriving.kept for arriving in batch.arriving), default=0))
        self._batches = []

    def _count(self, batch: _Batch, count: int) -> None:
        self.done += count
        for part, form in ((self._vectors, "vector"), (self._terms, "terms")):
            if part is not None and (arriving := batch.forms.get(form)) is not None:
                part.done += arriving[0].kept


class _Batch:
    """`contracts.executors.Receiver` of the texts of a batch."""

    def __init__(self, encoding: WorkerEncoding, keys: Sequence[bytes], task: Task) -> None:
        self._encoding = encoding
        self._keys = keys
        self._task = task
        self.forms: dict[str, tuple[WorkerResults, Sequence[int]]] = {}
        """By field of `Encoded`, what takes it, and the place there of each text."""
        self.left = set(keys)
        """Keys of the texts that are neither done nor given up."""
        self.count = 0
        """Texts that are done."""

    def expect(self, form: str, arriving: WorkerResults, wanted: np.ndarray) -> None:
        """Pass on a form of the texts that want it."""
        self.forms[form] = arriving, (np.cumsum(wanted) - 1).tolist()

    @property
    def arriving(self) -> list[WorkerResults]:
        return [arriving for arriving, _ in self.forms.values()]

    def done(self, places: Sequence[int], results: Sequence[Encoded]) -> None:
        for form, (arriving, own) in self.forms.items():
            chosen = [(own[at], one) for at, one in zip(places, results, strict=True) if getattr(one, form) is not None]
            if chosen:
                arriving.add([at for at, _ in chosen], [one for _, one in chosen])
        self.count += len(places)
        self._task.advance(len(places))
        self._drop(places)

    def failed(self, place: int, reason: str) -> None:
        self._encoding.failed[self._keys[place]] = reason
        self._drop([place])

    def _drop(self, places: Sequence[int]) -> None:
        self.left.difference_update(self._keys[place] for place in places)
        if not self.left:
            self._encoding.complete(self)


class Losses(NamedTuple):
    """Records with a text that no worker can encode."""

    by_id: Mapping[str, str]
    """Reasons by id of the record."""
    rows: Rows
    """Their rows in the older generation, for those that were kept from it."""

    @classmethod
    def of(cls, failed: Mapping[bytes, str], tables: GenerationWriter, reuse: Reuse | None) -> Losses:
        """Return the records whose chunks have these texts."""
        chunks = np.flatnonzero(KeyRows(as_keys(list(failed))).find(as_keys(tables.texts)) >= 0)
        starts, older = tables.starts, tables.older_texts[chunks]
        owners = np.searchsorted(starts, chunks, side="right") - 1
        by_id = {}
        for row, chunk in zip(owners.tolist(), chunks.tolist(), strict=True):
            place, reason = chunk - int(starts[row]) + 1, failed[tables.texts[chunk]]
            by_id[tables.id(row)] = f"its chunk {place} cannot be embedded: {reason}"
        old = np.empty(0, np.int64)
        if reuse is not None and (older >= 0).any():
            old = np.searchsorted(reuse.generation.starts, older[older >= 0], side="right") - 1
        return cls(by_id, old)


def _chosen(keys: Sequence[bytes], flags: np.ndarray) -> list[bytes]:
    return [keys[place] for place in np.flatnonzero(flags).tolist()]
