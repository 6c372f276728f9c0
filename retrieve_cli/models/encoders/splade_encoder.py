"""Texts to weighted vocabulary entries by a SPLADE model (Formal et al. 2021, https://arxiv.org/abs/2109.10086).

Passages go through sentence-transformers. Queries do too on a GPU; on a CPU they go through an export of the same model
that needs no torch; queries of an inference-free model are looked up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from retrieve_cli.contracts import Json, TermWeights
from retrieve_cli.models.encoders.splade_folder import TRANSFORMERS, Masked, SpladeFolder, StaticWeights
from retrieve_cli.models.encoders.splade_queries import OnnxQueries, Pruning, runs
from retrieve_cli.models.runtimes.devices import Device, DeviceChoice, choose, precision_on
from retrieve_cli.models.runtimes.model_folder import Precision, broken
from retrieve_cli.models.runtimes.packages import Truncating, once
from retrieve_cli.models.runtimes.tensors import Digests, read, to_float32
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer, readable
from retrieve_cli.models.runtimes.torch_runner import TorchRunner, longest_first
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors

_SECTION = __name__.rpartition(".")[2].partition("_")[0]
"""Section of the settings, for hints: the first word of this file's name, as no file but a retriever's own names it."""
_BATCH = {"cpu": 1, "cuda": 512}
"""On a CPU one text at a time: its weights are then the same to the bit regardless of the other texts, and a sync ends
with the bytes of a fresh build."""
_TOKENS = {"cpu": 2048, "cuda": 32768}
"""Upper limit of a batch: a token costs a logit for every entry of the vocabulary, so that with BERT's 30,522 these
are 250 MB in float32 and 2 GB in float16."""
_POOLED = 32
"""Tokens of each text that are pooled at once, so that the activation does not take as much memory as the logits."""


class TermEncoder(Protocol):
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

    @once
    def card(self) -> Mapping[str, Json]:
        """Everything that decides a text's weights. Device and batch size stay out."""
        document = self._folder.document
        return {
            "name": self._folder.name,
            "revision": self._folder.revision(Digests(self._cache_dir)),
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
    def tokenizer(self) -> ModelTokenizer:
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
    def _query_way(self) -> TermEncoder:
        query = self._folder.query
        if isinstance(query, StaticWeights):
            return StaticQueries(query)
        tokenizer, name = self.tokenizer if query is self._folder.document else _tokenizer(query), self._folder.name
        if self._choice.device == "cpu" and runs(query):
            return OnnxQueries(query, tokenizer, name=name, cache_dir=self._cache_dir, threads=self._threads)
        return self._through_torch("encode_query", query, tokenizer)

    def _through_torch(
        self, method: Literal["encode_query", "encode_document"], route: Masked, tokenizer: ModelTokenizer
    ) -> TorchTexts:
        limit = route.folder.max_tokens
        return TorchTexts(lambda: self._runner, method, tokenizer, max_tokens=limit, batch_size=self._batch_size)

    @once
    def _runner(self) -> TorchRunner:
        precision = precision_on(self._choice.device, self._precision)
        return splade_runner(self._folder, device=self._choice.device, precision=precision)

    @once
    def _choice(self) -> DeviceChoice:
        return choose(self._asked, "torch", section=_SECTION)

    @once
    def _words(self) -> Sequence[str]:
        return self.tokenizer.words(self._folder.document.vocabulary)


def _tokenizer(route: Masked) -> ModelTokenizer:
    return ModelTokenizer.read_or_convert(route.folder.transformer / "tokenizer.json", lowercase=route.folder.lowercase)


def _least(limit: int | None, other: int | None) -> int | None:
    """The smaller limit of the user's and the model's."""
    return min((limit for limit in (limit, other) if limit is not None), default=None)


class TorchTexts(Truncating):
    """Texts through a method of the SparseEncoder, in batches that fit the device; only terms come off it."""

    def __init__(
        self,
        runner: Callable[[], TorchRunner],
        method: Literal["encode_query", "encode_document"],
        tokenizer: ModelTokenizer,
        *,
        max_tokens: int,
        batch_size: int | None = None,
    ) -> None:
        """`runner` gives the model's runner at the first text."""
        self._runner = runner
        self._method = method
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._batch_size = batch_size

    def __str__(self) -> str:
        return "torch"

    def encode(
        self,
        texts: Sequence[str],
        pruning: Pruning,
        done: Callable[[Sequence[int], Sequence[TermWeights]], None] = lambda *_: None,
    ) -> list[TermWeights]:
        """One for each text, the longest first; a text without a token has no term. `done` gets the terms of texts that
        do not share a batch."""
        weighted = [TermWeights(np.empty(0, np.int32), np.empty(0, np.float32))] * len(texts)
        lengths, truncated = self._tokenizer.lengths(texts, max_tokens=self._max_tokens)
        self._count_truncated(truncated)
        order = longest_first(lengths)[: np.count_nonzero(lengths)]
        if not len(order):
            return weighted
        runner = self._runner()
        encode = getattr(runner.model, self._method)

        def run(places: Rows) -> None:
            batch = [readable(texts[place]) for place in places]
            # An empty prompt is one too: without it the model's default prompt would be put in front.
            settings = {"prompt": "", "batch_size": len(batch), "show_progress_bar": False}
            dense = encode(batch, convert_to_tensor=True, convert_to_sparse_tensor=False, **settings)
            for place, terms in zip(places, _taken(dense, pruning), strict=True):
                weighted[place] = terms
            if most == 1:
                done(places.tolist(), [weighted[place] for place in places])

        most, tokens = self._batch_size or _BATCH[runner.device], _TOKENS[runner.device]
        for places, size in _stretches(order, lengths[order], most=most, tokens=tokens):
            runner.run(places, run, size=size)
        return weighted


def splade_runner(folder: SpladeFolder, *, device: Literal["cpu", "cuda"], precision: Precision) -> TorchRunner:
    """The model as a sentence-transformers SparseEncoder, within the folder's limits."""
    routes = [route for route in (folder.document, folder.query) if isinstance(route, Masked)]
    limit = max(route.folder.max_tokens for route in routes)

    def prepare(model: Any) -> None:
        for module in model.modules():
            if type(module).__name__ == "SpladePooling":
                module.chunk_size = _POOLED
            elif type(module).__name__ in TRANSFORMERS and hasattr(module, "max_seq_length"):  # DistilBERT's has none
                module.max_seq_length = min(module.max_seq_length or limit, limit)

    return TorchRunner("SparseEncoder", folder.path, device=device, precision=precision, prepare=prepare)


def _stretches(order: Rows, lengths: Rows, *, most: int, tokens: int) -> Iterator[tuple[Rows, int]]:
    """Cuts descending lengths wherever they have halved: the places of each stretch, and how many make a batch.

    So a batch of long texts and one of short texts take about the same memory, and little of either is padding.
    """
    first = 0
    while first < len(order):
        longest = int(lengths[first])
        last = first + int(np.searchsorted(-lengths[first:], -(longest // 2)))
        yield order[first:last], max(1, min(most, tokens // longest))
        first = last


def _taken(dense: Any, pruning: Pruning) -> Iterator[TermWeights]:
    """The terms of each row of a (n, v) tensor; weights below `min_weight` never leave the device."""
    dense = dense.float()
    rows, terms = ((dense > 0) & (dense >= pruning.min_weight)).nonzero(as_tuple=True)
    weights = dense[rows, terms].cpu().numpy()
    ends = np.searchsorted(rows.cpu().numpy(), np.arange(1, len(dense)))
    columns = terms.cpu().numpy().astype(np.int32)
    for own, values in zip(np.split(columns, ends), np.split(weights, ends), strict=True):
        yield pruning.kept(own, values)


class StaticQueries(Truncating):
    """Queries of an inference-free model: their own tokens, each with the weight that a file gives it.

    Neither torch nor onnxruntime is needed. A token counts once, however often it is written.
    """

    def __init__(self, route: StaticWeights) -> None:
        self._route = route

    def __str__(self) -> str:
        return "looked up, without a model"

    @once
    def tokenizer(self) -> ModelTokenizer:
        return ModelTokenizer.read_or_convert(self._route.tokenizer)

    def encode(self, texts: Sequence[str], pruning: Pruning) -> list[TermWeights]:
        """Each text's terms; a text without a known token has none."""
        tokenized = self.tokenizer.own_ids(texts, max_tokens=self._route.max_tokens)
        self._count_truncated(tokenized.truncated)
        weighted = []
        for ids in tokenized.ids:
            terms = np.unique(np.array(ids, np.int32))
            terms = terms[terms < len(self._weights)]
            weighted.append(pruning.kept(terms, self._weights[terms]))
        return weighted

    @once
    def _weights(self) -> Vectors:
        """(v,) float32, 0 for a token that the file does not name."""
        path = self._route.weights
        if path.suffix == ".safetensors":
            tensors = read([path])
            if "weight" not in tensors or tensors["weight"].ndim != 1:
                raise broken(path, "does not hold weights of tokens")
            return to_float32(tensors["weight"])
        entries = self.tokenizer.entries
        weights = np.zeros(max(entries.values(), default=-1) + 1, np.float32)
        for token, weight in _named(path):
            if token in entries:
                weights[entries[token]] = weight
        return weights


def _named(path: Path) -> Iterator[tuple[str, float]]:
    """Tokens and weights of a JSON object, or of lines such as "lung<tab>5.3"."""
    try:
        text = files.read_text(path, limit=files.MANIFEST)
        if path.suffix == ".json":
            pairs = list(json.loads(text).items())
        else:
            pairs = [line.rsplit(None, 1) for line in text.split("\n") if line.strip()]
        yield from ((token, float(weight)) for token, weight in pairs)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise broken(path, f"does not name tokens with their weights: {error}") from error
