"""Encodings of texts: vectors, the tokens that a reranker compares, term weights. A text is encoded once.

A text that a segment holds is not encoded again, nor is one that an interrupted build has put into the cache. Other
texts wait as long as memory allows: if all texts of a build wait, their number is known before the first is encoded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.assemble import encoders
from retrieve_cli.contracts import GradualEncoder, GradualSparseEncoder, TermWeights, TokenEncoder, TokenVectors
from retrieve_cli.contracts.progress import Task, task
from retrieve_cli.ingest.encoded_texts import EncodedTexts
from retrieve_cli.storage.entries import Entry, EntryStore
from retrieve_cli.storage.key_rows import DigestList, as_keys, heads
from retrieve_cli.storage.token_table import pack, width_of

if TYPE_CHECKING:
    from retrieve_cli.assemble.parts import Parts
    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.contracts.models import EmbeddingWorkers
    from retrieve_cli.storage.key_rows import Keys
    from retrieve_cli.storage.segment import Segment

BATCH = 2048
"""Texts that an encoder is given at a time: enough to sort by length, few enough to bound the memory."""
KEPT = 256
"""Texts whose encodings are written together; a few alone are not."""
PAUSE_S = 2.0
"""Seconds between two writes: waiting for the disk costs a fast encoder more than encoding the texts again."""
_MOST_TEXT = 16 << 20
"""Characters that wait: about 16,000 chunks."""


class _Form:
    """A form in which texts are encoded, with the stores of its results."""

    def __init__(self, title: str, stores: Sequence[EntryStore], encode: Callable[[_Batch], None]) -> None:
        self.title, self.stores, self.encode = title, stores, encode
        self.done = 0
        self.task: Task | None = None

    def lacks(self, keys: Keys) -> Rows:
        """Return the places of the keys that a store lacks."""
        return np.flatnonzero(np.any([store.find(keys) < 0 for store in self.stores], axis=0))


class _Batch:
    """Texts while they are encoded: their results are taken from any thread, and written now and then, so that an
    interruption loses little."""

    def __init__(self, form: _Form, keys: Sequence[bytes], texts: Sequence[str], working: Task) -> None:
        self.texts = texts
        self._form, self._keys, self._task = form, keys, working
        self._left = set(range(len(texts)))
        self._results: dict[int, Sequence[Entry]] = {}
        self._written = time.monotonic()
        self._lock = Lock()

    def add(self, places: Sequence[int], results: Sequence[Sequence[Entry]]) -> None:
        """Take results of texts: for each, an entry for each store."""
        with self._lock:
            self._results.update(zip(places, results, strict=True))
            self._left.difference_update(places)
            if len(self._results) >= KEPT and time.monotonic() - self._written >= PAUSE_S:
                self._write(stored=True)
        self._task.advance(len(places), size=sum(len(self.texts[place]) for place in places))

    def run(self) -> None:
        """Encode all texts. Finished ones are kept if that fails or is interrupted."""
        try:
            self._form.encode(self)
        except BaseException:
            with self._lock, suppress(OSError):
                self._write(stored=True)
            raise
        self._write(stored=len(self.texts) >= KEPT)

    def add_others(self, results: Callable[[int], Sequence[Entry]]) -> None:
        """Take the results of texts that did not come one by one."""
        places = sorted(self._left)
        self.add(places, [results(place) for place in places])

    def _write(self, *, stored: bool) -> None:
        if not self._results:
            return
        keys = [self._keys[place] for place in self._results]
        for store, results in zip(self._form.stores, zip(*self._results.values(), strict=True), strict=True):
            store.add(keys, results, stored=stored)
        self._form.done += len(keys)
        self._results = {}
        self._written = time.monotonic()


class Encodings:
    """Has every text encoded in every way, at the latest by `finish`, and passes the results on to the writers."""

    def __init__(
        self,
        parts: Parts,
        cache: Path,
        say: Callable[[str], None],
        *,
        lenders: Sequence[Segment] = (),
        verified: bool = True,
    ) -> None:
        """`cache` is the folder of the cache. The bytes of the lenders' files are compared with their manifests, unless
        they are `verified`."""
        self.encoded = encoded = EncodedTexts(parts.recipe, cache, lenders, say=say, verified=verified)
        self._encoder, self._sparse = parts.encoder, parts.sparse
        self._workers: EmbeddingWorkers | None = parts.workers(say)
        self._forms: list[_Form] = []
        if encoded.vectors is not None:
            stores = [store for store in (encoded.vectors, encoded.tokens) if store is not None]
            self._forms.append(_Form("encoding", stores, self._encode_vectors))
        if encoded.weights is not None:
            (self._terms,) = encoders.term_cards(parts.recipe)
            self._forms.append(_Form(f"encoding ({self._terms})", [encoded.weights], self._encode_terms))
        self._waiting: dict[bytes, str] = {}
        self._characters = 0
        self._tasks = ExitStack()
        self._all_read = False

    @property
    def expected(self) -> bool:
        """True if texts are encoded: not in an index of words alone."""
        return bool(self._forms)

    @property
    def done(self) -> int:
        """Texts that were encoded, in the form that most were."""
        return max((form.done for form in self._forms), default=0)

    @property
    def embedded(self) -> int:
        """Texts that were encoded as vectors."""
        return self._forms[0].done if self.encoded.vectors is not None else 0

    @property
    def truncated(self) -> int:
        """Texts that were longer than the encoder's limit."""
        workers = self._workers.truncated if self._workers is not None else 0
        return workers + (self._encoder.truncated if self._encoder is not None else 0)

    def summary(self, texts: DigestList) -> str:
        """Return a sentence on the texts whose terms were weighted, of all; empty without term weights."""
        if self.encoded.weights is None:
            return ""
        distinct = len(np.unique(heads(texts.array)))
        return f"{self._terms}: {self._forms[-1].done} of {distinct} texts encoded, the others were cached"

    def add(self, key: bytes, text: str) -> None:
        """Have a text encoded, unless it is known."""
        if key in self._waiting:
            return
        self._waiting[key] = text
        self._characters += len(text)
        if self._characters > _MOST_TEXT:
            self._encode()

    def finish(self) -> None:
        """Encode all that waits and is not known."""
        self._all_read = True
        self._encode()
        self._tasks.close()

    def close(self) -> None:
        """End tasks and workers, finished or not."""
        self._tasks.close()
        for form in self._forms:
            form.encode, form.task = lambda _: None, None  # both refer to this object, which has the lenders open
        if self._workers is not None:
            self._workers.close()

    def _encode(self) -> None:
        waiting, self._waiting, self._characters = self._waiting, {}, 0
        keys, texts = list(waiting), list(waiting.values())
        for form in self._forms:
            if lacking := form.lacks(as_keys(keys)).tolist() if keys else []:
                working = self._task_of(form, [len(texts[place]) for place in lacking])
                for start in range(0, len(lacking), BATCH):
                    places = lacking[start : start + BATCH]
                    batch = _Batch(form, [keys[place] for place in places], [texts[place] for place in places], working)
                    batch.run()

    def _task_of(self, form: _Form, lengths: Sequence[int]) -> Task:
        """Return the task of a form, which will encode texts of these lengths."""
        if form.task is None:
            form.task = self._tasks.enter_context(task(form.title, "chunks"))
        form.task.size = form.task.sized + sum(lengths)
        form.task.expect(form.task.done + len(lengths) if self._all_read else None)
        return form.task

    def _encode_vectors(self, batch: _Batch) -> None:
        encoder, keeps_tokens = self._encoder, self.encoded.tokens is not None
        width = width_of(encoder.card.dim) if encoder is not None else 0
        nothing = (np.empty(0, np.int32), np.empty((0, width), np.uint8))
        tokens: dict[int, Entry] = {}

        def take(place: int, of_text: TokenVectors) -> None:
            packed = pack(of_text)
            tokens[place] = (packed.ids, packed.codes)

        def result(place: int, vector: Vectors) -> Sequence[Entry]:
            entry = (vector[None],)
            return [entry, tokens.pop(place, nothing)] if keeps_tokens else [entry]

        def done(places: Sequence[int], vectors: Sequence[Vectors]) -> None:
            batch.add(places, [result(*pair) for pair in zip(places, vectors, strict=True)])

        if self._workers is not None:
            for places, results in self._workers.results("vectors", batch.texts):
                packed = {place: each for place, (_, each) in zip(places, results, strict=True) if each is not None}
                tokens.update({place: (each.ids, each.codes) for place, each in packed.items()})
                done(places, [vector for vector, _ in results])
            return
        taker = take if keeps_tokens and isinstance(encoder, TokenEncoder) else None
        if isinstance(encoder, GradualEncoder):
            vectors = encoder.encode_passages_gradually(batch.texts, done, taker)
        elif taker is not None and isinstance(encoder, TokenEncoder):
            vectors = encoder.encode_passages_into(batch.texts, taker)
        elif encoder is not None:
            vectors = encoder.encode_passages(batch.texts)
        batch.add_others(lambda place: result(place, vectors[place]))

    def _encode_terms(self, batch: _Batch) -> None:
        def done(places: Sequence[int], weights: Sequence[TermWeights]) -> None:
            batch.add(places, [[(each.terms, each.weights)] for each in weights])

        encoder = self._sparse
        if self._workers is not None:
            for places, results in self._workers.results("terms", batch.texts):
                done(places, results)
            return
        if isinstance(encoder, GradualSparseEncoder):
            weights = encoder.encode_passages_gradually(batch.texts, done)
        elif encoder is not None:
            weights = encoder.encode_passages(batch.texts)
        batch.add_others(lambda place: [(weights[place].terms, weights[place].weights)])
