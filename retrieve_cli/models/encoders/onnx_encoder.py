"""The default encoder on a CPU: hidden states of the BERT family by `onnx_runner.py`, pooled to one vector a text.

OpenVINO or torch can take the place of onnxruntime for bfloat16. Short queries go through NumPy in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from retrieve_cli.contracts import ModelCard, TokenVectors
from retrieve_cli.errors import Unavailable
from retrieve_cli.models.runtimes.bert import Architecture, arrange, hidden_states, pool, to_unit
from retrieve_cli.models.runtimes.exports import Contents, Export
from retrieve_cli.models.runtimes.model_folder import ModelFolder, Precision
from retrieve_cli.models.runtimes.onnx_runner import SHORT, Graph, Keep, OnnxRunner, in_onnxruntime, write_graph
from retrieve_cli.models.runtimes.packages import Truncating, once
from retrieve_cli.models.runtimes.tensors import Digests, read
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer, content

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors
    from retrieve_cli.models.runtimes.model_folder import Prefixes

Runtime: TypeAlias = Literal["onnxruntime", "openvino", "torch"]

_REMEMBERED = 256
"""Short queries whose hidden states are kept: late interaction asks for the tokens of a query next, and people ask for
the next page, or for what another one has asked."""


class OnnxEncoder(Truncating):
    """`contracts.Encoder` for the BERT family on a CPU."""

    def __init__(
        self,
        folder: ModelFolder,
        *,
        cache_dir: Path,
        threads: int | None = None,
        batch_tokens: int = 512,
        runtime: Runtime = "onnxruntime",
        precision: Precision = "float32",
    ) -> None:
        """`batch_tokens` is what a batch of one thread holds: 512 tokens keep its activations in the L2 cache.
        `precision` is OpenVINO's choice; onnxruntime computes in float32, torch here in bfloat16.

        Raises:
            Unavailable: the model is of a family that this encoder does not know.
        """
        if folder.extras:
            message = f"The onnx encoder cannot run this model (it has the modules {', '.join(folder.extras)})."
            raise Unavailable(message, hint="set `encoder.kind: torch`, which runs any sentence-transformers model")
        architecture = Architecture.read(folder.config)
        export, opener = partial(dense_export, folder, cache_dir), _opener(runtime, precision, architecture)
        self._runner = OnnxRunner(export, architecture, threads=threads, batch_tokens=batch_tokens, runtime=opener)
        self._runtime = runtime
        self._precision = precision
        self._folder = folder
        self._cache_dir = cache_dir
        self._recent: dict[tuple[int, ...], Vectors] = {}
        """Hidden states of the last short queries by their ids; replaced as a whole, so that threads may share it."""

    @once
    def card(self) -> ModelCard:
        return self._folder.card(Digests(self._cache_dir), precision=self._precision)

    @once
    def tokenizer(self) -> ModelTokenizer:
        return ModelTokenizer.read(self._folder.transformer / "tokenizer.json", lowercase=self._folder.lowercase)

    @property
    def wanted(self) -> Prefixes:
        """Prefixes that the model wants, whether or not they are overruled."""
        return self._folder.prompts

    @property
    def device(self) -> str:
        threads = self._runner.threads
        runtime = self._runtime if self._precision == "float32" else f"{self._runtime} in {self._precision}"
        return f"cpu ({runtime}, {threads} {'thread' if threads == 1 else 'threads'})"

    @property
    def shares_passes(self) -> bool:
        """True with onnxruntime: nothing is padded, and its products of one length are summed in one order."""
        return self._runtime == "onnxruntime"

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32. The route a query takes depends on its own length only."""
        vectors, into = self._pooled(len(texts))
        self._run_queries(self._ids(self.card.query_prefix, texts), into)
        return vectors

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32. The more texts at once (thousands), the more of them find others of their length."""
        vectors, into = self._pooled(len(texts))
        self._runner.run(self._ids(self.card.passage_prefix, texts), into)
        return vectors

    def encode_passages_into(self, texts: Sequence[str], take: Callable[[int, TokenVectors], None]) -> Vectors:
        """Return what `encode_passages` does; `take` gets the tokens of each text by its place, from any thread."""
        return self.encode_passages_gradually(texts, lambda *_: None, take)

    def encode_passages_gradually(
        self,
        texts: Sequence[str],
        done: Callable[[Sequence[int], Sequence[Vectors]], None],
        take: Callable[[int, TokenVectors], None] | None = None,
    ) -> Vectors:
        """Return what `encode_passages` does; `done` gets the place and the vector of each text that has a token, and
        `take` its tokens before that, from any thread."""
        ids = self._ids(self.card.passage_prefix, texts)
        vectors, into = self._pooled(len(texts))

        def keep(place: int, hidden: Vectors) -> None:
            into(place, hidden)
            if take is not None:
                take(place, self._content(ids[place], hidden))
            done((place,), (vectors[place],))

        self._runner.run(ids, keep)
        return vectors

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """The tokens of queries, each cut to the model's limit. They take the routes of `encode_queries`."""
        ids = self._ids(self.card.query_prefix, texts)
        hidden: dict[int, Vectors] = {}
        self._run_queries(ids, hidden.__setitem__)
        nothing = np.empty((0, self._folder.dim), np.float32)
        return [self._content(tokens, hidden.get(place, nothing)) for place, tokens in enumerate(ids)]

    def _run_queries(self, ids: Sequence[Sequence[int]], keep: Keep) -> None:
        """Pass on the hidden states of each query, and cache the states of short queries."""
        earlier = self._recent
        recent: dict[tuple[int, ...], Vectors] = {}
        new: list[int] = []
        for place, tokens in enumerate(ids):
            if (known := earlier.get(tuple(tokens))) is None:
                new.append(place)
            else:
                keep(place, known)

        def take(place: int, hidden: Vectors) -> None:
            keep(place, hidden)
            if len(hidden) <= SHORT:
                recent[tuple(ids[place])] = hidden

        self._runner.run_queries(ids, take, hidden_states, places=new)
        if recent:
            kept = list(self._recent.items())[-max(_REMEMBERED - len(recent), 0) :]
            self._recent = {**dict(kept), **recent} if len(recent) < _REMEMBERED else recent

    def _content(self, ids: Sequence[int], hidden: Vectors) -> TokenVectors:
        return content(np.array(ids, np.int32), hidden, self.tokenizer.special_ids)

    def _ids(self, prefix: str, texts: Sequence[str]) -> list[list[int]]:
        tokenized = self.tokenizer.ids([prefix + text for text in texts], max_tokens=self._folder.max_tokens)
        self._count_truncated(tokenized.truncated)
        return tokenized.ids

    def _pooled(self, count: int) -> tuple[Vectors, Keep]:
        """Vectors (count, dim) to be filled, and what turns a text's hidden states into its row of them."""
        vectors = np.zeros((count, self._folder.dim), dtype=np.float32)

        def into(place: int, hidden: Vectors) -> None:
            pooled = pool(hidden, self._folder.pooling)
            vectors[place] = to_unit(pooled) if self._folder.normalize else pooled

        return vectors, into


def dense_export(folder: ModelFolder, cache_dir: Path, digests: Digests | None = None) -> Export:
    """The export of the model, which may not be written yet.

    Raises:
        Unavailable: the model is of a family that this encoder does not know.
    """
    architecture = Architecture.read(folder.config)
    revision = folder.revision(digests or Digests(cache_dir))

    def contents() -> Contents:
        if folder.weights[0].suffix != ".safetensors":
            message = f"{folder.weights[0]} is a pickle, which the onnx encoder does not open."
            raise Unavailable(message, hint="fetch the model's safetensors file, or set `encoder.kind: torch`")
        return arrange(read(folder.weights), architecture), partial(write_graph, architecture)

    return Export(cache_dir, folder.name, revision, contents)


def _opener(runtime: Runtime, precision: Precision, architecture: Architecture) -> Callable[[Path, int], Graph]:
    """Return the function that opens the exported graph; a query with onnxruntime does not load the others' modules."""
    if runtime == "openvino":
        from retrieve_cli.models.runtimes.bfloat16 import in_openvino

        return partial(in_openvino, precision=precision)
    if runtime == "torch":
        from retrieve_cli.models.runtimes.bfloat16 import in_torch

        return partial(in_torch, architecture=architecture)
    return in_onnxruntime
