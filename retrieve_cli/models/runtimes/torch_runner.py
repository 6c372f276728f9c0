"""Runs a model of sentence-transformers on one device, in batches that fit its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from retrieve_cli.errors import Unavailable
from retrieve_cli.models.runtimes.model_folder import Precision
from retrieve_cli.models.runtimes.packages import once, require

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows


class TorchRunner:
    """One model; it loads at the first text. Threads that share it take turns."""

    def __init__(
        self,
        kind: Literal["SentenceTransformer", "SparseEncoder", "CrossEncoder"],
        path: Path,
        *,
        device: Literal["cpu", "cuda"],
        precision: Precision,
        prepare: Callable[[Any], None],
        **options: Any,
    ) -> None:
        """`kind` is the class of sentence-transformers, `options` more of its arguments; `prepare` gets the model once
        it is loaded.

        On a CPU bfloat16 is mixed precision: weights, sums and norms stay in float32, and only products are computed
        in bfloat16. The error of a vector is a quarter of the one with weights in bfloat16, the speed the same.
        """
        self._kind = kind
        self._path = path
        self.device = device
        self._mixed = device == "cpu" and precision == "bfloat16"
        self._precision: Precision = "float32" if self._mixed else precision
        self._prepare = prepare
        self._options = options
        self.turn = RLock()
        """Held while the model runs: a call sets how its tokenizer pads and cuts, on the tokenizer itself."""

    @once
    def model(self) -> Any:
        """The loaded model.

        Raises:
            Unavailable: sentence-transformers is not installed, or cannot load it.
        """
        dtype = getattr(require("torch"), self._precision)
        make = getattr(require("sentence_transformers"), self._kind)
        with _quiet():
            try:
                fixed = {"device": self.device, "local_files_only": True, "model_kwargs": {"dtype": dtype}}
                model = make(str(self._path), **fixed, **self._options)
            except (OSError, ValueError, KeyError, ImportError) as error:
                message = f"sentence-transformers cannot load {self._path}: {error}"
                raise Unavailable(message, hint="fetch the model's files again, or name another model") from error
        self._prepare(model)
        return model

    def run(self, places: Rows, batch: Callable[[Rows], None], *, size: int) -> None:
        """Call `batch` with `size` of the places at a time in order, or fewer where they do not fit into memory."""

        torch = require("torch")

        def step(start: int, end: int) -> None:
            with self.turn, torch.autocast("cpu", torch.bfloat16) if self._mixed else nullcontext():
                batch(places[start:end])

        def release() -> None:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

        halving(len(places), step, size=size, exhausted=torch.OutOfMemoryError, release=release)


def longest_first(lengths: Any) -> Rows:
    """Places in descending order of length, so that the device's memory fails early or never."""
    order: Rows = np.argsort(-np.asarray(lengths, np.int64), kind="stable")
    return order


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the bar that transformers draws while it loads weights."""
    logging = require("transformers").utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


_CALM = 8
"""Batches in a row that must succeed before a larger one is tried again."""


def halving(
    count: int,
    run: Callable[[int, int], None],
    *,
    size: int,
    exhausted: type[BaseException] | tuple[type[BaseException], ...],
    release: Callable[[], None] = lambda: None,
) -> None:
    """Call `run(start, end)` over 0..count in order, `size` at a time, or less where that raises `exhausted`.

    A batch that failed is halved until it succeeds; after eight successes in a row the size doubles again, up to
    `size`. `release` is called after each failure, to give the device's memory back.

    Raises:
        BaseException: an error that `exhausted` names, if not even a batch of one succeeds.
    """
    start, current, calm = 0, size, 0
    while start < count:
        end = min(start + current, count)
        try:
            run(start, end)
        except exhausted:
            if end - start == 1:
                raise
            current, calm = (end - start) // 2, 0
            release()
            continue
        start, calm = end, calm + 1
        if current < size and calm >= _CALM:
            current, calm = min(size, current * 2), 0
