"""Cross-encoders on this machine: a query and a passage read together, onnxruntime on a CPU and torch on a GPU.

Nogueira and Cho 2019 (a score from the first token of the pair), Dai and Callan 2019 (the best window of a long text).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.encoders.cross.cross_folder import SIGMOID, CrossFolder
from retrieve_cli.encoders.cross.onnx_pairs import OnnxPairs, why_not
from retrieve_cli.encoders.cross.pairs import PairReader, Row, shortened, windows
from retrieve_cli.encoders.cross.torch_pairs import TorchPairs
from retrieve_cli.encoders.devices import Choice, Device, choose, precision_on
from retrieve_cli.encoders.digests import Digests
from retrieve_cli.encoders.model_folder import Precision
from retrieve_cli.encoders.threads import Truncating, once
from retrieve_cli.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors


class _Runner(PairReader, Protocol):
    """A library that reads pairs and scores their rows."""

    def scores(self, rows: Sequence[Row]) -> Vectors: ...


class CrossScorer(Truncating):
    """`contracts.PairScorer` over a cross-encoder's folder.

    The score is what the model's own settings make of its logit. A passage that does not fit beside the query is cut
    into windows that overlap, and is worth its best one.
    """

    def __init__(
        self,
        folder: CrossFolder,
        *,
        cache_dir: Path,
        device: Device = "auto",
        kind: Literal["auto", "onnx", "torch"] = "auto",
        precision: Precision | Literal["auto"] = "auto",
        max_tokens: int | None = None,
        stride: float = 0.5,
        batch_size: int | None = None,
        threads: int | None = None,
    ) -> None:
        """`max_tokens` of a pair, None for the model's own limit; `stride` is the share of a window by which the next
        one starts later, 1 for windows that do not overlap; `kind` auto is torch on a GPU and for what the ONNX graph
        does not know; `precision` auto is float16 on a GPU and float32 on a CPU.

        Raises:
            UsageError: `max_tokens` is above the model's limit, or `stride` is not above 0 and at most 1.
        """
        limit = folder.model.max_tokens
        if max_tokens is not None and not 1 <= max_tokens <= limit:
            raise UsageError(
                f"`max_tokens` is {max_tokens}, and {folder.name} takes 1 to {limit}.",
                hint=f"omit it, or choose at most {limit}",
            )
        if not 0 < stride <= 1:
            raise UsageError(f"`stride` is {stride}, and a window starts 0 < stride <= 1 of a window after the last.")
        self._folder = folder
        self._cache_dir = cache_dir
        self._asked = device
        self._kind: Literal["auto", "onnx", "torch"] = kind
        self._precision = precision
        self._max_tokens = limit if max_tokens is None else max_tokens
        self._stride = stride
        self._batch_size = batch_size
        self._threads = threads

    @property
    def name(self) -> str:
        return self._folder.name

    @property
    def unit_scale(self) -> bool:
        """True if the model's own settings end in a sigmoid."""
        return self._folder.activation == SIGMOID

    @property
    def device(self) -> str:
        """Device that it runs on, and why, for people."""
        return self._choice.reason

    @once
    def card(self) -> Mapping[str, Json]:
        """Everything that changes a score."""
        return {
            "name": self.name,
            "revision": self._folder.revision(Digests(self._cache_dir)),
            "max_tokens": self._max_tokens,
            "stride": self._stride,
            "activation": self._folder.activation,
            "prompt": self._folder.prompt,
            "precision": precision_on(self._choice.device, self._precision),
        }

    def score(self, query: str, passages: Sequence[str]) -> Vectors:
        """(n,) float32, higher is better. On a CPU with onnxruntime a score is the same to the bit in any company.

        Raises:
            Unavailable: a package or the GPU that was asked for is missing, or the model cannot be loaded.
            UsageError: the query leaves no room for the passage.
        """
        best = np.full(len(passages), -np.inf, dtype=np.float32)
        if not passages:
            return best
        runner = self._runner
        asked = shortened(runner, query, max_tokens=self._max_tokens)
        self._count_truncated(asked != query)  # longer than half of what fits
        cut = windows(runner, asked, passages, max_tokens=self._max_tokens, stride=self._stride)
        np.maximum.at(best, cut.owners, runner.scores(cut.rows))
        return best

    @once
    def _choice(self) -> Choice:
        choice = choose(self._asked, self._kind, section="rerank")
        if choice.kind != "onnx":
            return choice
        plain = self._precision in {"auto", "float32"}
        reason = why_not(self._folder) if plain else f"{self._precision} is requested"
        if reason and self._kind == "onnx":
            raise Unavailable(
                f"onnxruntime cannot run {self.name}: {reason}.", hint="leave the kind to `auto`: torch runs it"
            )
        return Choice("torch", "cpu", f"cpu: torch ({reason})") if reason else choice

    @once
    def _runner(self) -> _Runner:
        if self._choice.kind == "onnx":
            return OnnxPairs(
                self._folder, cache_dir=self._cache_dir, batch_size=self._batch_size, threads=self._threads
            )
        device = self._choice.device
        precision = precision_on(device, self._precision)
        return TorchPairs(self._folder, device=device, precision=precision, batch_size=self._batch_size)
