"""The default encoder on a GPU, and the one for models that the onnx encoder cannot run: sentence-transformers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from retrieve_cli.contracts import ModelCard, TokenVectors
from retrieve_cli.encoders.batching import halving
from retrieve_cli.encoders.devices import Choice, Device, choose
from retrieve_cli.encoders.digests import Digests
from retrieve_cli.encoders.folder import ModelFolder, Precision
from retrieve_cli.encoders.packages import require
from retrieve_cli.encoders.tokens import ModelTokenizer, readable
from retrieve_cli.errors import Unavailable

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

_BATCH = {"cpu": 32, "cuda": 256}


class TorchEncoder:
    """`contracts.Encoder` over sentence-transformers, for any model that it can load.

    Texts of different lengths share a batch and are padded, so that a vector may differ in its last bits with its
    neighbours: cosine 0.9999 in half precision. Where that matters to the bit, the onnx encoder is the one to take.
    """

    def __init__(
        self,
        folder: ModelFolder,
        *,
        cache_dir: Path,
        device: Device = "auto",
        precision: Precision | Literal["auto"] = "auto",
        batch_size: int | None = None,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
    ) -> None:
        """`precision` auto is float16 on a GPU and float32 on a CPU; `cache_dir` remembers the weights' SHA-1."""
        self._folder = folder
        self._cache_dir = cache_dir
        self._asked = device
        self._precision = precision
        self._batch_size = batch_size
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix
        self.truncated = 0
        """How many of the texts encoded so far were longer than the model's limit and lost their end."""

    @cached_property
    def card(self) -> ModelCard:
        return self._folder.card(
            Digests(self._cache_dir),
            query_prefix=self._query_prefix,
            passage_prefix=self._passage_prefix,
            precision=self._resolved_precision,
        )

    @cached_property
    def tokenizer(self) -> ModelTokenizer:
        path = self._folder.transformer / "tokenizer.json"
        if path.is_file():
            return ModelTokenizer.read(path, lowercase=self._folder.lowercase)
        return ModelTokenizer(self._convert_tokenizer, lowercase=self._folder.lowercase)

    @property
    def device(self) -> str:
        return self._choice.reason

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32."""
        return self._encode(texts, prefix=self.card.query_prefix)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32, the longest texts first through the device, so that its memory fails early or never."""
        return self._encode(texts, prefix=self.card.passage_prefix)

    def encode_tokens(self, texts: Sequence[str], *, prefix: str) -> list[TokenVectors]:
        """The hidden states of each text's tokens."""
        ids = self.tokenizer.ids([prefix + text for text in texts], max_tokens=self._folder.max_tokens).ids
        states = self._model.encode(
            [readable(text) for text in texts],
            prompt=prefix,
            batch_size=self._size,
            output_value="token_embeddings",
            show_progress_bar=False,
        )
        return [
            TokenVectors(np.array(tokens, np.int32), np.asarray(hidden.float().cpu())[: len(tokens)])
            for tokens, hidden in zip(ids, states, strict=True)
        ]

    def _encode(self, texts: Sequence[str], *, prefix: str) -> Vectors:
        vectors = np.zeros((len(texts), self._folder.dim), dtype=np.float32)
        if not texts:
            return vectors
        lengths = self._lengths(texts, prefix)
        order = np.argsort(-lengths, kind="stable")
        model = self._model

        def run(start: int, end: int) -> None:
            places = order[start:end]
            batch = [readable(texts[place]) for place in places]
            # An empty prompt is one too: without it the model's default prompt would be put in front.
            found = model.encode(batch, prompt=prefix, batch_size=len(batch), show_progress_bar=False)
            vectors[places] = np.asarray(found, dtype=np.float32)

        halving(len(texts), run, size=self._size, exhausted=require("torch").OutOfMemoryError, release=self._release)
        return self._to_unit(vectors) if self._folder.normalize else vectors

    def _lengths(self, texts: Sequence[str], prefix: str) -> Any:
        tokenizer = self.tokenizer
        room = self._folder.max_tokens - tokenizer.special_tokens
        lengths = np.array(tokenizer.counts([prefix + text for text in texts]))
        self.truncated += int((lengths > room).sum())
        return np.minimum(lengths, room)

    def _to_unit(self, vectors: Vectors) -> Vectors:
        """Half-precision norms are off by 1e-3, which would tilt a ranking by inner product."""
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        scaled: Vectors = vectors / np.maximum(norms, np.float32(1e-12))
        return scaled

    def _release(self) -> None:
        torch = require("torch")
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    @property
    def _size(self) -> int:
        return self._batch_size or _BATCH[self._choice.device]

    @cached_property
    def _choice(self) -> Choice:
        return choose(self._asked, "torch")

    @property
    def _resolved_precision(self) -> Precision:
        if self._precision == "auto":
            return "float16" if self._choice.device == "cuda" else "float32"
        return self._precision

    @cached_property
    def _model(self) -> Any:
        device = self._choice.device
        dtype = getattr(require("torch"), self._resolved_precision)
        with _quiet():
            try:
                model = require("sentence_transformers").SentenceTransformer(
                    str(self._folder.path), device=device, local_files_only=True, model_kwargs={"dtype": dtype}
                )
            except (OSError, ValueError, KeyError, ImportError) as error:
                raise Unavailable(
                    f"sentence-transformers cannot load {self._folder.path}: {error}",
                    hint="fetch the model's files again, or name another model",
                ) from error
        model.max_seq_length = self._folder.max_tokens
        return model

    def _convert_tokenizer(self) -> Any:
        auto = require("transformers").AutoTokenizer
        return auto.from_pretrained(str(self._folder.transformer), local_files_only=True).backend_tokenizer


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the bar that transformers draws while it loads weights."""
    talk = require("transformers").utils.logging
    shown = talk.is_progress_bar_enabled()
    talk.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            talk.enable_progress_bar()
