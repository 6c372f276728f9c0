"""Rows to scores in torch: on a GPU, and for what the ONNX graph does not know. sentence-transformers' CrossEncoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from retrieve_cli.encoders.cross.cross_folder import CrossFolder
from retrieve_cli.encoders.cross.pairs import Row
from retrieve_cli.encoders.model_folder import Precision
from retrieve_cli.encoders.packages import require
from retrieve_cli.encoders.threads import once
from retrieve_cli.encoders.tokenizer import ModelTokenizer, readable
from retrieve_cli.encoders.torch_runner import TorchRunner, longest_first
from retrieve_cli.errors import UsageError

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors

_BATCH = {"cpu": 32, "cuda": 128}
_WHOLE = {"text": {"truncation": False, "verbose": False}}
"""Pairs are read whole and cut into windows afterwards, so that a cut never falls into what stands around them."""


class TorchPairs:
    """Pair scores of any model that sentence-transformers loads as a cross-encoder."""

    def __init__(
        self,
        folder: CrossFolder,
        *,
        device: Literal["cpu", "cuda"],
        precision: Precision,
        batch_size: int | None,
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

    def rows(self, query: str, passages: Sequence[str]) -> list[Row]:
        pairs = [(readable(query), readable(passage)) for passage in passages]
        rows: list[Row] = []
        for start in range(0, len(pairs), self._size):
            encoded = self._read(pairs[start : start + self._size])
            real = encoded["attention_mask"].bool()
            ids = encoded["input_ids"]
            segments = encoded.get("token_type_ids", ids * 0)
            rows += [Row(i[m].tolist(), s[m].tolist()) for i, s, m in zip(ids, segments, real, strict=True)]
        return rows

    def scores(self, rows: Sequence[Row]) -> Vectors:
        """(n,) float32; the longest rows first through the device, so that its memory fails early or never."""
        scores = np.zeros(len(rows), dtype=np.float32)

        def run(places: Rows) -> None:
            scores[places] = self._run([rows[place] for place in places])

        self._runner.run(longest_first([len(row.ids) for row in rows]), run, size=self._size)
        return scores

    def _run(self, rows: Sequence[Row]) -> Vectors:
        torch, model, device = require("torch"), self._runner.model, self._runner.device
        with torch.inference_mode():
            features = {name: torch.from_numpy(part).to(device) for name, part in self._padded(rows).items()}
            logits = model({**features, **self._fixed})["scores"].float()
            scores: Vectors = model.activation_fn(logits).reshape(len(rows)).cpu().numpy()
        return scores

    def _padded(self, rows: Sequence[Row]) -> dict[str, Any]:
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
        return {**padded, "token_type_ids": segments} if self._segmented else padded

    def _read(self, pairs: Sequence[tuple[str, str]]) -> Any:
        prompt = self._folder.prompt or None
        try:
            with self._runner.turn:
                return self._runner.model.preprocess(list(pairs), prompt=prompt, processing_kwargs=_WHOLE)
        except ValueError as error:
            raise UsageError(
                f"{self._folder.name} cannot read a query and a passage: {error}",
                hint="name a cross-encoder whose chat template, if it has one, takes both",
            ) from error

    @once
    def _fixed(self) -> dict[str, Any]:
        """Inputs that are the same for every batch: what kind of text it is, and how many logits are wanted."""
        return {name: part for name, part in self._probe.items() if not hasattr(part, "shape")}

    @property
    def _segmented(self) -> bool:
        return "token_type_ids" in self._probe

    @once
    def _probe(self) -> Any:
        return self._read([("x", "x")])

    @once
    def _tokenizer(self) -> ModelTokenizer:
        return ModelTokenizer(lambda: self._runner.model.tokenizer.backend_tokenizer)
