"""Encoding by workers: every text in one pass, results into the caches as they come.

Batches overlap: while the last texts of one are being encoded, the first of the next one are, too. A text that no
worker can encode is noted in `failed`; its record is rejected.

Texts that wait for the encoders: they are encoded in batches, and as late as memory allows.

Texts are counted before they are encoded: if all texts of a build wait, the number of texts to encode is known before
the first one is encoded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.contracts.models import Encoded, Executor, Wanted
from retrieve_cli.contracts.progress import Task, counted, task
from retrieve_cli.ingest.batch_checkpoint import WorkerResults
from retrieve_cli.ingest.embedding import TermEncoding, TextEncoding, VectorEncoding
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.key_rows import KeyRows, as_digests, as_keys
from retrieve_cli.storage.vector_cache import BATCH

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows
    from retrieve_cli.ingest.generation_writer import GenerationWriter
    from retrieve_cli.ingest.inventory import Reuse
    from retrieve_cli.storage.key_rows import Keys


class WorkerEncoding:
    """`embedding.Encoding` that makes vectors, packed tokens and term weights by the workers of an executor."""

    title = "encoding"

    def __init__(self, executor: Executor, vectors: VectorEncoding | None, terms: TermEncoding | None) -> None:
        self._executor = executor
        parts: dict[str, VectorEncoding | TermEncoding | None] = {"vector": vectors, "terms": terms}
        self._parts = {form: part for form, part in parts.items() if part is not None}
        """By field of `Encoded`, the encoding that keeps it."""
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
        batch = _Batch(self, keys, task)
        wanted = {form: np.zeros(len(keys), np.bool_) for form in ("vector", "terms")}
        for form, part in self._parts.items():
            wanted[form][part.lacks(digests)] = True
            if wanted[form].any():
                lacking = [keys[place] for place in np.flatnonzero(wanted[form]).tolist()]
                batch.forms[form] = part.arriving(lacking), (np.cumsum(wanted[form]) - 1).tolist()
        self._batches.append(batch)
        pairs = zip(wanted["vector"].tolist(), wanted["terms"].tolist(), strict=True)
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
        rows = [part.lend(older, texts) for part in self._parts.values()]
        return np.unique(np.concatenate([np.empty(0, np.int64), *rows]))

    def lacks(self, keys: Keys) -> Rows:
        """Return the places of keys that are neither known nor being encoded."""
        lacking = [part.lacks(keys) for part in self._parts.values()]
        places = np.unique(np.concatenate([np.empty(0, np.int64), *lacking]))
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
        for batch in self._batches:
            for arriving in batch.arriving:
                arriving.keep()
            self._count(batch, min((arriving.kept for arriving in batch.arriving), default=0))
        self._batches = []

    def _count(self, batch: _Batch, count: int) -> None:
        self.done += count
        for form, (arriving, _) in batch.forms.items():
            self._parts[form].done += arriving.kept


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


_MOST_TEXT = 16 << 20
"""Characters that wait: about 16,000 chunks."""

_SLOW_S, _MEASURED_S = 120.0, 2.0
"""Seconds of work that are reported in advance, and after which its speed is known."""

Batch = dict[bytes, str]


class EncodingQueue:
    """Has every text encoded in every way, at the latest by `finish`."""

    def __init__(self, encodings: Sequence[TextEncoding], on_slow: Callable[[float], None] = lambda _: None) -> None:
        """`on_slow` is called once, with the seconds that encoding will take, if these are more than two minutes."""
        self._encodings = encodings
        self._on_slow: Callable[[float], None] | None = on_slow
        self._batches: list[Batch] = [{}]
        """The texts that wait, in batches. Batches depend neither on the waiting time nor on which texts are known."""
        self._characters = 0
        self._tasks = ExitStack()
        self._task: dict[int, Task] = {}
        """By place of the encoding."""
        self._texts = 0
        self._missing = [0] * len(encodings)
        """Texts whose encoding was begun, and how many of them each encoding lacked."""
        self._all_read = False

    def add(self, key: bytes, text: str) -> None:
        """Have a text encoded, unless it is known."""
        if not self._encodings:
            return
        batch = self._batches[-1]
        if key not in batch:
            batch[key] = text
            self._characters += len(text)
        if len(batch) < BATCH:
            return
        if self._characters > _MOST_TEXT:
            self._encode()
        else:
            self._batches.append({})

    def finish(self) -> None:
        """Encode all that waits and is not known."""
        self._all_read = True
        self._encode()
        for encoding in self._encodings:
            encoding.finish()
        self.close()

    def close(self) -> None:
        """End the tasks, finished or not."""
        self._tasks.close()

    def kept(self) -> str:
        """Return a sentence on what an interruption loses nothing of; empty if nothing was encoded."""
        missing = zip(self._encodings, self._missing, strict=True)
        kept = self._texts - max((count - encoding.done for encoding, count in missing), default=0)
        if kept <= 0:
            return ""
        of = f" of {self._texts:,}" if self._all_read else ""
        are = f"{counted('chunks', self._texts if of else kept)} {'is' if kept == 1 else 'are'}"
        return f"{kept:,}{of} {are} encoded and kept; run the same command to continue"

    def _encode(self) -> None:
        batches, self._batches, self._characters = self._batches, [{}], 0
        distinct = as_keys(list({key for batch in batches for key in batch}))
        self._texts += len(distinct)
        for place, encoding in enumerate(self._encodings):
            if missing := len(encoding.lacks(distinct)) if len(distinct) else 0:
                self._missing[place] += missing
                if place not in self._task:
                    self._task[place] = self._tasks.enter_context(task(encoding.title, "chunks"))
                    self._task[place].watch = partial(self._watch, place)
                # The total is known when all texts are.
                self._task[place].expect(self._task[place].done + missing if self._all_read else None)
        for batch in batches:
            keys, texts = list(batch), list(batch.values())
            digests = as_keys(keys)
            for place, encoding in enumerate(self._encodings):
                if places := encoding.lacks(digests).tolist() if keys else []:
                    encoding.encode([keys[at] for at in places], [texts[at] for at in places], self._task[place])

    def _watch(self, place: int, task: Task) -> None:
        """Report work that will be slow at its present speed."""
        seconds = time.monotonic() - task.began
        if self._on_slow is None or seconds < _MEASURED_S or not task.done:
            return
        if (whole := seconds * self._missing[place] / task.done) > _SLOW_S:
            report, self._on_slow = self._on_slow, None
            report(whole)
