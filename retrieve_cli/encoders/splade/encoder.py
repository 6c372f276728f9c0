"""Texts to weighted vocabulary entries by a SPLADE model (Formal et al. 2021, https://arxiv.org/abs/2109.10086).

Passages go through sentence-transformers. Queries do too on a GPU; on a CPU they go through an export of the same model
that needs no torch, and those of an inference-free model are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from retrieve_cli.contracts import Json, TermWeights
from retrieve_cli.encoders.devices import Choice, Device, choose, precision_on
from retrieve_cli.encoders.digests import Digests
from retrieve_cli.encoders.model_folder import Precision
from retrieve_cli.encoders.splade.onnx_queries import OnnxQueries, runs
from retrieve_cli.encoders.splade.splade_folder import Masked, SpladeFolder, Static
from retrieve_cli.encoders.splade.static import StaticQueries
from retrieve_cli.encoders.splade.torch_texts import TorchTexts, splade_runner
from retrieve_cli.encoders.splade.vocabulary import Pruning, SpladeTokenizer
from retrieve_cli.encoders.threads import once
from retrieve_cli.encoders.torch_runner import TorchRunner

_SECTION = str(__package__).rpartition(".")[2]
"""Section of the settings: named after the folder."""


class Way(Protocol):
    """A way to turn texts into terms. Its string names what runs it, for people."""

    truncated: int

    def encode(self, texts: Sequence[str], pruning: Pruning) -> list[TermWeights]: ...


class SpladeEncoder:
    """`contracts.SparseEncoder` over a masked language model, or over one and the weights of a query's own tokens.

    Passages of different lengths share a batch and are padded, so that a weight may differ in its last bits with its
    neighbours: by 1e-5 in single precision.
    """

    def __init__(
        self,
        folder: SpladeFolder,
        *,
        cache_dir: Path,
        device: Device = "auto",
        precision: Precision | Literal["auto"] = "auto",
        batch_size: int | None = None,
        min_weight: float = 0.0,
        top_terms: int | None = None,
        query_top_terms: int | None = None,
        threads: int | None = None,
    ) -> None:
        """`min_weight` drops lighter terms, `top_terms` and `query_top_terms` keep the heaviest of a text.

        `precision` auto is float16 on a GPU and float32 on a CPU; `batch_size` limits the texts of a batch, beside a
        limit on its tokens; `cache_dir` holds the export and remembers the weights' SHA-1.
        """
        self._folder = folder
        self._cache_dir = cache_dir
        self._asked = device
        self._precision = precision
        self._batch_size = batch_size
        self._threads = threads
        self._passages = Pruning(min_weight, _least(top_terms, folder.top_terms))
        self._queries = Pruning(min_weight, _least(query_top_terms, folder.top_terms))

    @property
    def card(self) -> Mapping[str, Json]:
        """Everything that decides a text's weights. Device and batch size stay out."""
        document = self._folder.document
        return {
            "name": self._folder.name,
            "revision": self._revision,
            "kind": self._folder.kind,
            "vocabulary": document.vocabulary,
            "max_tokens": document.folder.max_tokens,
            "query_prefix": self._folder.query_prompt,
            "passage_prefix": self._folder.passage_prompt,
            "pooling": document.pooling,
            "activation": document.activation,
            "min_weight": self._passages.min_weight,
            "top_terms": self._passages.top_terms,
            "query_top_terms": self._queries.top_terms,
            "precision": precision_on(self._choice.device, self._precision),
        }

    @once
    def tokenizer(self) -> SpladeTokenizer:
        return _tokenizer(self._folder.document)

    @property
    def device(self) -> str:
        return f"{self._choice.reason}; queries: {self._query_way}"

    @property
    def truncated(self) -> int:
        """Number of texts encoded so far that were longer than the model's limit and lost their end."""
        return self._passage_way.truncated + self._query_way.truncated

    def vocabulary(self) -> Sequence[str]:
        """The vocabulary's entries by term id, to name the terms of an explanation."""
        return self._words

    def encode_queries(self, texts: Sequence[str]) -> list[TermWeights]:
        """One for each text; empty where no term of it has a weight."""
        return self._query_way.encode([self._folder.query_prompt + text for text in texts], self._queries)

    def encode_passages(self, texts: Sequence[str]) -> list[TermWeights]:
        """One for each text, the longest texts first through the device, so that its memory fails early or never."""
        return self.encode_passages_gradually(texts, lambda *_: None)

    def encode_passages_gradually(
        self, texts: Sequence[str], done: Callable[[Sequence[int], Sequence[TermWeights]], None]
    ) -> list[TermWeights]:
        """Return what `encode_passages` does; `done` gets the weights of texts that do not share a batch as they
        come."""
        return self._passage_way.encode([self._folder.passage_prompt + text for text in texts], self._passages, done)

    @once
    def _passage_way(self) -> TorchTexts:
        return self._through_torch("encode_document", self._folder.document, self.tokenizer)

    @once
    def _query_way(self) -> Way:
        query = self._folder.query
        if isinstance(query, Static):
            return StaticQueries(query)
        tokenizer = self.tokenizer if query is self._folder.document else _tokenizer(query)
        if self._choice.device == "cpu" and runs(query):
            return OnnxQueries(
                query, tokenizer, name=self._folder.name, cache_dir=self._cache_dir, threads=self._threads
            )
        return self._through_torch("encode_query", query, tokenizer)

    def _through_torch(
        self, method: Literal["encode_query", "encode_document"], route: Masked, tokenizer: SpladeTokenizer
    ) -> TorchTexts:
        limit = route.folder.max_tokens
        return TorchTexts(lambda: self._runner, method, tokenizer, max_tokens=limit, batch_size=self._batch_size)

    @once
    def _runner(self) -> TorchRunner:
        precision = precision_on(self._choice.device, self._precision)
        return splade_runner(self._folder, device=self._choice.device, precision=precision)

    @once
    def _choice(self) -> Choice:
        return choose(self._asked, "torch", section=_SECTION)

    @once
    def _revision(self) -> str:
        return self._folder.revision(Digests(self._cache_dir))

    @once
    def _words(self) -> Sequence[str]:
        return self.tokenizer.words(self._folder.document.vocabulary)


def _tokenizer(route: Masked) -> SpladeTokenizer:
    return SpladeTokenizer.read_or_convert(
        route.folder.transformer / "tokenizer.json", lowercase=route.folder.lowercase
    )


def _least(limit: int | None, other: int | None) -> int | None:
    """The smaller limit of the user's and the model's."""
    return min((limit for limit in (limit, other) if limit is not None), default=None)
