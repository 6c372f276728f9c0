"""The default encoder on a GPU, and the one for models that the onnx encoder cannot run: sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from retrieve_cli.contracts import ModelCard, TokenVectors
from retrieve_cli.models.runtimes.devices import Device, DeviceChoice, choose
from retrieve_cli.models.runtimes.model_folder import ModelFolder, Precision
from retrieve_cli.models.runtimes.packages import Truncating, once
from retrieve_cli.models.runtimes.tensors import Digests
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer, content, readable
from retrieve_cli.models.runtimes.torch_runner import TorchRunner, longest_first

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.models.runtimes.model_folder import Prefixes

_BATCH = {"cpu": 32, "cuda": 256}


class TorchEncoder(Truncating):
    """`contracts.Encoder` over sentence-transformers, for any model that it can load.

    Texts of different lengths share a batch and are padded, so that a vector may differ in its last bits with its
    neighbours: cosine 0.9999 in half precision. Where that matters to the bit, the onnx encoder is the one to take.
    In bfloat16 on a CPU only texts of one length share a batch: nothing is padded, and a text keeps its bits.
    """

    def __init__(
        self,
        folder: ModelFolder,
        *,
        cache_dir: Path,
        device: Device = "auto",
        precision: Precision | Literal["auto"] = "auto",
        batch_size: int | None = None,
    ) -> None:
        """`precision` auto is float16 on a GPU and float32 on a CPU; `cache_dir` remembers the weights' SHA-1."""
        self._folder = folder
        self._cache_dir = cache_dir
        self._asked = device
        self._precision = precision
        self._batch_size = batch_size

    @once
    def card(self) -> ModelCard:
        return self._folder.card(Digests(self._cache_dir), precision=self._choice.precision)

    @once
    def tokenizer(self) -> ModelTokenizer:
        path = self._folder.transformer / "tokenizer.json"
        return ModelTokenizer.read_or_convert(path, lowercase=self._folder.lowercase)

    @property
    def wanted(self) -> Prefixes:
        """Prefixes that the model wants, whether or not they are overruled."""
        return self._folder.prompts

    @property
    def device(self) -> str:
        return self._choice.reason

    @property
    def shares_passes(self) -> bool:
        """True on a GPU: on an H100, 16 short texts a pass give 1,830 texts/s, one by one 185."""
        return self._choice.device == "cuda"

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32."""
        return self._encode(texts, prefix=self.card.query_prefix)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32, the longest texts first through the device, so that its memory fails early or never."""
        return self._encode(texts, prefix=self.card.passage_prefix)

    def encode_passages_into(self, texts: Sequence[str], take: Callable[[int, TokenVectors], None]) -> Vectors:
        """Return what `encode_passages` does; `take` gets the tokens of each text by its place."""
        return self._encode(texts, prefix=self.card.passage_prefix, take=take)

    def encode_passages_gradually(
        self,
        texts: Sequence[str],
        done: Callable[[Sequence[int], Sequence[Vectors]], None],
        take: Callable[[int, TokenVectors], None] | None = None,
    ) -> Vectors:
        """Return what `encode_passages` does; `done` gets places and vectors of each batch, `take` the tokens of each
        text before that. Skipping finished batches does not change the others."""
        return self._encode(texts, prefix=self.card.passage_prefix, take=take, done=done)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """The tokens of queries, each cut to the model's limit."""
        tokens: dict[int, TokenVectors] = {}
        self._encode(texts, prefix=self.card.query_prefix, take=tokens.__setitem__)
        return [tokens[place] for place in range(len(texts))]

    def _encode(
        self,
        texts: Sequence[str],
        *,
        prefix: str,
        take: Callable[[int, TokenVectors], None] | None = None,
        done: Callable[[Sequence[int], Sequence[Vectors]], None] = lambda *_: None,
    ) -> Vectors:
        vectors = np.zeros((len(texts), self._folder.dim), dtype=np.float32)
        if not texts:
            return vectors
        prefixed = [prefix + text for text in texts]
        lengths, truncated = self.tokenizer.lengths(prefixed, max_tokens=self._folder.max_tokens)
        self._count_truncated(truncated)
        model = self._runner.model

        def run(places: Rows) -> None:
            batch = [readable(texts[place]) for place in places]
            # An empty prompt is one too: without it the model's default prompt would be put in front.
            options: dict[str, Any] = {"prompt": prefix, "batch_size": len(batch), "show_progress_bar": False}
            if take is None:
                vectors[places] = np.asarray(model.encode(batch, **options), dtype=np.float32)
            else:
                keep(places, model.encode(batch, output_value=None, **options), take)
            done(places.tolist(), list(self._finished(vectors[places])))

        def keep(places: Rows, outputs: Any, take: Callable[[int, TokenVectors], None]) -> None:
            for place, output in zip(places, outputs, strict=True):
                vectors[place] = output["sentence_embedding"].float().cpu().numpy()
                real = output["attention_mask"].cpu().numpy() > 0
                ids = output["input_ids"].cpu().numpy()[real].astype(np.int32)
                embeddings = output["token_embeddings"].float().cpu().numpy()[: len(real)]
                states = embeddings[real[: len(embeddings)]]
                take(int(place), content(ids, states, self.tokenizer.special_ids))

        size = self._batch_size or _BATCH[self._choice.device]
        for places in self._alike(lengths):
            self._runner.run(places, run, size=size)
        return self._finished(vectors)

    def _alike(self, lengths: Rows) -> list[Rows]:
        """Return the places of the texts that may share a batch, the longest first."""
        order = longest_first(lengths)
        if self._choice.device == "cuda" or self._choice.precision == "float32":
            return [order]
        return np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1)

    def _finished(self, vectors: Vectors) -> Vectors:
        """The vectors at unit length, if the model normalises: half-precision norms are off by 1e-3, which would tilt a
        ranking by inner product."""
        if not self._folder.normalize:
            return vectors
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        scaled: Vectors = vectors / np.maximum(norms, np.float32(1e-12))
        return scaled

    @once
    def _choice(self) -> DeviceChoice:
        return choose(self._asked, "torch", precision=self._precision)

    @once
    def _runner(self) -> TorchRunner:
        def limit(model: Any) -> None:
            model.max_seq_length = self._folder.max_tokens

        path, device, precision = self._folder.path, self._choice.device, self._choice.precision
        return TorchRunner("SentenceTransformer", path, device=device, precision=precision, prepare=limit)
