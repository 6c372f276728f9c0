"""The default encoder on a CPU: onnxruntime over mapped weights, NumPy for a short query, and no torch.

Only texts of exactly the same number of tokens share a batch. So nothing is padded, nothing is masked, no work is
spent on padding, and the arithmetic of a text does not depend on its neighbours: its vector is the same to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from retrieve_cli.contracts import ModelCard, TokenVectors
from retrieve_cli.encoders.bert import Architecture, pool, positions, to_unit
from retrieve_cli.encoders.cache import Exported, export_folder, sound
from retrieve_cli.encoders.digests import Digests
from retrieve_cli.encoders.eager import hidden_states
from retrieve_cli.encoders.model_folder import ModelFolder
from retrieve_cli.encoders.packages import require
from retrieve_cli.encoders.tensors import read
from retrieve_cli.encoders.threads import available_cores, spread
from retrieve_cli.encoders.tokenizer import ModelTokenizer, content
from retrieve_cli.errors import Unavailable

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

_SHORT = 64
"""Queries of up to so many tokens go through NumPy: beyond, loading onnxruntime is the smaller cost."""
Keep: TypeAlias = "Callable[[int, Vectors], None]"
"""Takes the (t, dim) hidden states of the text at a place."""


class OnnxEncoder:
    """`contracts.Encoder` for the BERT family on a CPU."""

    def __init__(
        self,
        folder: ModelFolder,
        *,
        cache_dir: Path,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        threads: int | None = None,
        batch_tokens: int = 512,
    ) -> None:
        """`batch_tokens` is what a batch of one thread holds: 512 tokens keep its activations in the L2 cache.

        Raises:
            Unavailable: the model is of a family that this encoder does not know.
        """
        if folder.extras:
            raise Unavailable(
                f"The onnx encoder cannot run this model (it has the modules {', '.join(folder.extras)}).",
                hint="set `encoder.kind: torch`, which runs any sentence-transformers model",
            )
        Architecture.read(folder.config)
        self._folder = folder
        self._cache_dir = cache_dir
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix
        self._threads = threads or available_cores()
        self._batch_tokens = batch_tokens
        self._asked: dict[tuple[int, ...], Vectors] = {}
        """Hidden states of the short queries that were encoded last: who compares words asks for them next."""
        self.truncated = 0
        """How many of the texts encoded so far were longer than the model's limit and lost their end."""

    @cached_property
    def card(self) -> ModelCard:
        digests = Digests(self._cache_dir)
        return self._folder.card(digests, query_prefix=self._query_prefix, passage_prefix=self._passage_prefix)

    @cached_property
    def tokenizer(self) -> ModelTokenizer:
        return ModelTokenizer.read(self._folder.transformer / "tokenizer.json", lowercase=self._folder.lowercase)

    @property
    def device(self) -> str:
        return f"cpu (onnxruntime, {self._threads} {'thread' if self._threads == 1 else 'threads'})"

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32. Which way a query takes depends on its own length only."""
        ids = self._ids(self.card.query_prefix, texts)
        short = [place for place, tokens in enumerate(ids) if len(tokens) <= _SHORT]
        long = [place for place, tokens in enumerate(ids) if len(tokens) > _SHORT]
        vectors = self._empty(len(texts))
        into = self._pooling_into(vectors)
        self._asked = {}

        def keep(place: int, hidden: Vectors) -> None:
            into(place, hidden)
            self._asked[tuple(ids[place])] = hidden

        self._run_singly(ids, short, keep)
        self._run_batches(ids, long, into)
        return vectors

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32. The more texts at once (thousands), the more of them find others of their length."""
        ids = self._ids(self.card.passage_prefix, texts)
        vectors = self._empty(len(texts))
        self._run_batches(ids, range(len(ids)), self._pooling_into(vectors))
        return vectors

    def encode_passages_into(self, texts: Sequence[str], take: Callable[[int, TokenVectors], None]) -> Vectors:
        """What `encode_passages` gives; `take` is handed the tokens of each text by its place, from any thread."""
        ids = self._ids(self.card.passage_prefix, texts)
        vectors = self._empty(len(texts))
        into = self._pooling_into(vectors)

        def keep(place: int, hidden: Vectors) -> None:
            into(place, hidden)
            take(place, self._content(ids[place], hidden))

        self._run_batches(ids, range(len(ids)), keep)
        return vectors

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """The tokens of queries, each cut to the model's limit. They take the ways that `encode_queries` has."""
        ids = self._ids(self.card.query_prefix, texts)
        found: dict[int, TokenVectors] = {}

        def keep(place: int, hidden: Vectors) -> None:
            found[place] = self._content(ids[place], hidden)

        for place, tokens in enumerate(ids):
            if (hidden := self._asked.get(tuple(tokens))) is not None:
                keep(place, hidden)
        new = [place for place in range(len(ids)) if place not in found]
        self._run_singly(ids, [place for place in new if len(ids[place]) <= _SHORT], keep)
        self._run_batches(ids, [place for place in new if len(ids[place]) > _SHORT], keep)
        nothing = TokenVectors(np.empty(0, np.int32), np.empty((0, self._folder.dim), np.float32))
        return [found.get(place, nothing) for place in range(len(texts))]

    def _content(self, ids: Sequence[int], hidden: Vectors) -> TokenVectors:
        return content(np.array(ids, np.int32), hidden, self.tokenizer.special_ids)

    def _ids(self, prefix: str, texts: Sequence[str]) -> list[list[int]]:
        tokenized = self.tokenizer.ids([prefix + text for text in texts], max_tokens=self._folder.max_tokens)
        self.truncated += tokenized.truncated
        return tokenized.ids

    def _empty(self, count: int) -> Vectors:
        return np.zeros((count, self._folder.dim), dtype=np.float32)

    def _run_singly(self, ids: Sequence[Sequence[int]], places: Sequence[int], keep: Keep) -> None:
        """Hidden states of one text at a time, by NumPy."""
        if not places:
            return
        architecture, weights = self._exported.architecture, self._weights

        def run(place: int) -> None:
            if ids[place]:  # a text without a token has no states
                keep(place, hidden_states(architecture, weights, np.array(ids[place], dtype=np.int64)))

        spread(run, places, threads=self._threads)

    def _run_batches(self, ids: Sequence[Sequence[int]], places: Sequence[int], keep: Keep) -> None:
        """Hidden states of texts of one length at a time, by onnxruntime."""
        batches = list(same_length(ids, places, batch_tokens=self._batch_tokens))
        if not batches:
            return
        session, architecture = self._session, self._exported.architecture

        def run(batch: Sequence[int]) -> None:
            tokens = np.array([ids[place] for place in batch], dtype=np.int64)
            inputs = {"ids": tokens, "positions": np.ascontiguousarray(positions(tokens, architecture))}
            (hidden,) = session.run(None, inputs)
            for place, states in zip(batch, hidden, strict=True):
                keep(place, states)

        spread(run, batches, threads=self._threads)

    def _pooling_into(self, vectors: Vectors) -> Keep:
        """What turns a text's hidden states into its row of `vectors`."""

        def keep(place: int, hidden: Vectors) -> None:
            pooled = pool(hidden, self._folder.pooling)
            vectors[place] = to_unit(pooled) if self._folder.normalize else pooled

        return keep

    @cached_property
    def _exported(self) -> Exported:
        return open_exported(self._folder, self._cache_dir)

    @cached_property
    def _weights(self) -> Mapping[str, Vectors]:
        return read([self._exported.weights])

    @cached_property
    def _session(self) -> Any:
        runtime = require("onnxruntime")
        options = runtime.SessionOptions()
        # A product that is split among threads may be summed in another order: whole batches are spread instead.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # Batches come in hundreds of shapes: an arena that grows whenever one does not fit has no bound.
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        options.log_severity_level = 3
        return runtime.InferenceSession(str(self._exported.graph), options, providers=["CPUExecutionProvider"])


def open_exported(folder: ModelFolder, cache_dir: Path) -> Exported:
    """The model's place in the cache, written now if it is absent, damaged or of an older format.

    It is written into a scratch folder and renamed, so that two exporters at once, or one that is killed, do no harm.

    Raises:
        Unavailable: the model is of a family that this encoder does not know, or the cache cannot be written.
    """
    architecture = Architecture.read(folder.config)
    digests = Digests(cache_dir)
    revision = folder.revision(digests)
    target = export_folder(cache_dir, folder.name, revision)
    if not sound(target, revision, digests):
        from retrieve_cli.encoders.export import publish  # a query finds the export there already

        try:
            publish(folder, architecture, target, revision=revision, digests=digests)
        except OSError as error:
            raise Unavailable(
                f"The model cache {cache_dir} cannot be written: {error.strerror or error}.",
                hint="choose a folder that can be written as the model cache, or make room on its disk",
            ) from error
    return Exported(target, architecture)


def same_length(ids: Sequence[Sequence[int]], places: Sequence[int], *, batch_tokens: int) -> Iterator[Sequence[int]]:
    """Places of texts with the same number of tokens, longest first, in batches of at most `batch_tokens` (or one).

    A text without a token is in none.
    """
    by_length: dict[int, list[int]] = {}
    for place in places:
        by_length.setdefault(len(ids[place]), []).append(place)
    by_length.pop(0, None)
    for length, alike in sorted(by_length.items(), reverse=True):
        step = max(1, batch_tokens // length)
        for start in range(0, len(alike), step):
            yield alike[start : start + step]
