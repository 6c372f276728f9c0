"""Cross-encoders on this machine: a query and a passage read together, onnxruntime on a CPU and torch on a GPU.

Nogueira and Cho 2019 (a score from the first token of the pair), Dai and Callan 2019 (the best window of a long text).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.models.rerankers.cross_folder import SIGMOID, CrossFolder
from retrieve_cli.models.rerankers.pairs import OnnxPairs, PairReader, PairRow, shortened, why_not, windows
from retrieve_cli.models.runtimes.devices import Device, DeviceChoice, choose, precision_on
from retrieve_cli.models.runtimes.model_folder import Precision
from retrieve_cli.models.runtimes.packages import Truncating, once, require
from retrieve_cli.models.runtimes.tensors import Digests
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer, readable
from retrieve_cli.models.runtimes.torch_runner import TorchRunner, longest_first

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors
_BATCH = {"cpu": 32, "cuda": 128}
_WHOLE = {"text": {"truncation": False, "verbose": False}}
"""Pairs are read whole and cut into windows afterwards, so that a cut never falls into the template around them."""


class _Runner(PairReader, Protocol):
    """A library that reads pairs and scores their rows."""

    def scores(self, rows: Sequence[PairRow]) -> Vectors: ...


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
            message = f"`max_tokens` is {max_tokens}, and {folder.name} takes 1 to {limit}."
            raise UsageError(message, hint=f"omit it, or choose at most {limit}")
        if not 0 < stride <= 1:
            raise UsageError(f"`stride` is {stride}, and a window starts 0 < stride <= 1 of a window after the last.")
        self.name = folder.name
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
    def _choice(self) -> DeviceChoice:
        choice = choose(self._asked, self._kind, section="rerank")
        if choice.kind != "onnx":
            return choice
        plain = self._precision in {"auto", "float32"}
        reason = why_not(self._folder) if plain else f"{self._precision} is requested"
        if reason and self._kind == "onnx":
            message = f"onnxruntime cannot run {self.name}: {reason}."
            raise Unavailable(message, hint="leave the kind to `auto`: torch runs it")
        return DeviceChoice("torch", "cpu", f"cpu: torch ({reason})") if reason else choice

    @once
    def _runner(self) -> _Runner:
        folder, device, size = self._folder, self._choice.device, self._batch_size
        if self._choice.kind == "onnx":
            return OnnxPairs(folder, cache_dir=self._cache_dir, batch_size=size, threads=self._threads)
        return TorchPairs(folder, device=device, precision=precision_on(device, self._precision), batch_size=size)


class TorchPairs:
    """Pair scores in torch, of any model that sentence-transformers loads as a cross-encoder."""

    def __init__(
        self, folder: CrossFolder, *, device: Literal["cpu", "cuda"], precision: Precision, batch_size: int | None
    ) -> None:
        self._folder = folder
        self._size = batch_size or _BATCH[device]
        self._runner = TorchRunner(
            "CrossEncoder",
            folder.path,
            device=device,
            precision=precision,
            prepare=lambda model: model.eval(),
            processor_kwargs={"chat_template": folder.template} if folder.template else None,
        )

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        with self._runner.turn:
            return self._tokenizer.spans(text)

    def rows(self, query: str, passages: Sequence[str]) -> list[PairRow]:
        pairs = [(readable(query), readable(passage)) for passage in passages]
        rows: list[PairRow] = []
        for start in range(0, len(pairs), self._size):
            encoded = self._read(pairs[start : start + self._size])
            real = encoded["attention_mask"].bool()
            ids = encoded["input_ids"]
            segments = encoded.get("token_type_ids", ids * 0)
            rows += [PairRow(i[m].tolist(), s[m].tolist()) for i, s, m in zip(ids, segments, real, strict=True)]
        return rows

    def scores(self, rows: Sequence[PairRow]) -> Vectors:
        """(n,) float32; the longest rows first through the device, so that its memory fails early or never."""
        scores = np.zeros(len(rows), dtype=np.float32)

        def run(places: Rows) -> None:
            scores[places] = self._run([rows[place] for place in places])

        self._runner.run(longest_first([len(row.ids) for row in rows]), run, size=self._size)
        return scores

    def _run(self, rows: Sequence[PairRow]) -> Vectors:
        torch, model, device = require("torch"), self._runner.model, self._runner.device
        # Inputs that are the same for every batch: what kind of text it is, and how many logits are wanted.
        fixed = {name: part for name, part in self._probe.items() if not hasattr(part, "shape")}
        with torch.inference_mode():
            features = {name: torch.from_numpy(part).to(device) for name, part in self._padded(rows).items()}
            logits = model({**features, **fixed})["scores"].float()
            scores: Vectors = model.activation_fn(logits).reshape(len(rows)).cpu().numpy()
        return scores

    def _padded(self, rows: Sequence[PairRow]) -> dict[str, Any]:
        """The model's inputs (n, t) int64, padded on the side that its tokenizer names."""
        tokenizer = self._runner.model.tokenizer
        shape = len(rows), max(len(row.ids) for row in rows)
        ids = np.full(shape, tokenizer.pad_token_id or 0, dtype=np.int64)
        mask, segments = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for number, row in enumerate(rows):
            left = tokenizer.padding_side == "left"
            here = slice(shape[1] - len(row.ids), None) if left else slice(len(row.ids))
            ids[number, here], mask[number, here], segments[number, here] = row.ids, 1, row.segments
        padded = {"input_ids": ids, "attention_mask": mask}
        return {**padded, "token_type_ids": segments} if "token_type_ids" in self._probe else padded

    def _read(self, pairs: Sequence[tuple[str, str]]) -> Any:
        prompt = self._folder.prompt or None
        try:
            with self._runner.turn:
                return self._runner.model.preprocess(list(pairs), prompt=prompt, processing_kwargs=_WHOLE)
        except ValueError as error:
            hint = "name a cross-encoder whose chat template, if it has one, takes both"
            raise UsageError(f"{self._folder.name} cannot read a query and a passage: {error}", hint=hint) from error

    @once
    def _probe(self) -> Any:
        return self._read([("x", "x")])

    @once
    def _tokenizer(self) -> ModelTokenizer:
        return ModelTokenizer(lambda: self._runner.model.tokenizer.backend_tokenizer)
