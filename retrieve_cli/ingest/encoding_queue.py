"""Texts that wait for the encoders: they are encoded in batches, and as late as memory allows.

Texts are counted before they are encoded: if all texts of a build wait, the number of texts to encode is known before
the first one is encoded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from retrieve_cli.contracts.progress import Task, counted, task
from retrieve_cli.ingest.embedding import TextEncoding
from retrieve_cli.storage.key_rows import as_keys
from retrieve_cli.storage.vector_cache import BATCH

_MOST_TEXT = 16 << 20
"""Characters that wait: about 16,000 chunks."""

_SLOW_S = 120.0
"""Seconds of work that are reported in advance."""

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
        sizes = {key: len(text) for batch in batches for key, text in batch.items()}
        distinct = as_keys(list(sizes))
        self._texts += len(distinct)
        for place, encoding in enumerate(self._encodings):
            if len(rows := encoding.lacks(distinct)) if len(distinct) else 0:
                self._missing[place] += len(rows)
                if place not in self._task:
                    self._task[place] = self._tasks.enter_context(task(encoding.title, "chunks"))
                    self._task[place].watch = self._watch
                own, lengths = self._task[place], list(sizes.values())
                own.size = own.sized + sum(lengths[row] for row in rows)
                # The total is known when all texts are.
                own.expect(own.done + len(rows) if self._all_read else None)
        for batch in batches:
            keys, texts = list(batch), list(batch.values())
            digests = as_keys(keys)
            for place, encoding in enumerate(self._encodings):
                if places := encoding.lacks(digests).tolist() if keys else []:
                    encoding.encode([keys[at] for at in places], [texts[at] for at in places], self._task[place])

    def _watch(self, task: Task) -> None:
        """Report work that will be slow at its present speed."""
        if self._on_slow is None or (left := task.seconds_left) is None:
            return
        if (whole := time.monotonic() - task.began + left) > _SLOW_S:
            report, self._on_slow = self._on_slow, None
            report(whole)
