"""Rows to scores in torch: on a GPU, and for what the ONNX graph does not know. sentence-transformers' CrossEncoder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from retrieve_cli.encoders.batching import halving
from retrieve_cli.encoders.cross.cross_folder import CrossFolder
from retrieve_cli.encoders.cross.pairs import Row
from retrieve_cli.encoders.model_folder import Precision
from retrieve_cli.encoders.packages import require
from retrieve_cli.encoders.tokenizer import ModelTokenizer, readable
from retrieve_cli.encoders.torch import quiet
from retrieve_cli.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

_BATCH = {"cpu": 32, "cuda": 128}
_WHOLE = {"text": {"truncation": False, "verbose": False}}
"""Pairs are read whole and cut into windows afterwards, so that a cut never falls into what stands around them."""


class TorchPairs:
    """Reads pairs and scores rows, for any model that sentence-transformers loads as a cross-encoder."""

    def __init__(
        self,
        folder: CrossFolder,
        *,
        device: Literal["cpu", "cuda"],
        precision: Precision,
        batch_size: int | None,
    ) -> None:
        self._folder = folder
        self._device = device
        self._precision = precision
        self._size = batch_size or _BATCH[device]

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        return self._tokenizer.spans(text)

    def rows(self, query: str, passages: Sequence[str]) -> list[Row]:
        pairs = [(readable(query), readable(passage)) for passage in passages]
        rows: list[Row] = []
        for start in range(0, len(pairs), self._size):
            found = self._read(pairs[start : start + self._size])
            real = found["attention_mask"].bool()
            ids = found["input_ids"]
            segments = found.get("token_type_ids", ids * 0)
            rows += [Row(i[m].tolist(), s[m].tolist()) for i, s, m in zip(ids, segments, real, strict=True)]
        return rows

    def scores(self, rows: Sequence[Row]) -> Vectors:
        """(n,) float32; the longest rows first through the device, so that its memory fails early or never."""
        scores = np.zeros(len(rows), dtype=np.float32)
        order = np.argsort([-len(row.ids) for row in rows], kind="stable")
        torch = require("torch")

        def run(start: int, end: int) -> None:
            places = order[start:end]
            scores[places] = self._run([rows[place] for place in places])

        halving(len(rows), run, size=self._size, exhausted=torch.OutOfMemoryError, release=self._release)
        return scores

    def _run(self, rows: Sequence[Row]) -> Vectors:
        torch = require("torch")
        with torch.inference_mode():
            features = {name: torch.from_numpy(part).to(self._device) for name, part in self._padded(rows).items()}
            logits = self._model({**features, **self._fixed})["scores"].float()
            found: Vectors = self._model.activation_fn(logits).reshape(len(rows)).cpu().numpy()
        return found

    def _padded(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The model's inputs (n, t) int64, padded on the side that its tokenizer names."""
        tokenizer = self._model.tokenizer
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
            return self._model.preprocess(list(pairs), prompt=prompt, processing_kwargs=_WHOLE)
        except ValueError as error:
            raise UsageError(
                f"{self._folder.name} cannot read a query and a passage: {error}",
                hint="name a cross-encoder whose chat template, if it has one, takes both",
            ) from error

    @cached_property
    def _fixed(self) -> dict[str, Any]:
        """Inputs that are the same for every batch: what kind of text it is, and how many logits are wanted."""
        return {name: part for name, part in self._probe.items() if not hasattr(part, "shape")}

    @property
    def _segmented(self) -> bool:
        return "token_type_ids" in self._probe

    @cached_property
    def _probe(self) -> Any:
        return self._read([("x", "x")])

    @cached_property
    def _tokenizer(self) -> ModelTokenizer:
        return ModelTokenizer(lambda: self._model.tokenizer.backend_tokenizer)

    def _release(self) -> None:
        torch = require("torch")
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    @cached_property
    def _model(self) -> Any:
        dtype = getattr(require("torch"), self._precision)
        template = self._folder.template
        with quiet():
            try:
                model = require("sentence_transformers").CrossEncoder(
                    str(self._folder.path),
                    device=self._device,
                    local_files_only=True,
                    model_kwargs={"dtype": dtype},
                    processor_kwargs={"chat_template": template} if template else None,
                )
            except (OSError, ValueError, KeyError, ImportError) as error:
                raise Unavailable(
                    f"sentence-transformers cannot load {self._folder.path}: {error}",
                    hint="fetch the model's files again, or name another model",
                ) from error
        return model.eval()
