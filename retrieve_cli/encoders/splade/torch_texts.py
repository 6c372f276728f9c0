"""Texts through sentence-transformers' SparseEncoder, in batches that fit the device; only terms come off it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.encoders.model_folder import Precision
from retrieve_cli.encoders.splade.splade_folder import TRANSFORMERS, Masked, SpladeFolder
from retrieve_cli.encoders.splade.vocabulary import Pruning, SpladeTokenizer
from retrieve_cli.encoders.threads import Truncating
from retrieve_cli.encoders.tokenizer import readable
from retrieve_cli.encoders.torch_runner import TorchRunner, longest_first

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows

_BATCH = {"cpu": 1, "cuda": 512}
"""On a CPU one text at a time: its weights are then the same to the bit whatever stands beside it, and a sync ends with
the bytes of a fresh build."""
_TOKENS = {"cpu": 2048, "cuda": 32768}
"""Upper limit of a batch: a token costs a logit for every entry of the vocabulary, so that with BERT's 30,522 these
are 250 MB in float32 and 2 GB in float16."""
_POOLED = 32
"""Tokens of each text that are pooled at once, so that the activation does not take as much memory as the logits."""


class TorchTexts(Truncating):
    """Sends texts to one of the model's methods."""

    def __init__(
        self,
        runner: Callable[[], TorchRunner],
        method: Literal["encode_query", "encode_document"],
        tokenizer: SpladeTokenizer,
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
    """The terms of each row of a (n, v) tensor; what is below `min_weight` never leaves the device."""
    dense = dense.float()
    rows, terms = ((dense > 0) & (dense >= pruning.min_weight)).nonzero(as_tuple=True)
    weights = dense[rows, terms].cpu().numpy()
    ends = np.searchsorted(rows.cpu().numpy(), np.arange(1, len(dense)))
    columns = terms.cpu().numpy().astype(np.int32)
    for own, values in zip(np.split(columns, ends), np.split(weights, ends), strict=True):
        yield pruning.kept(own, values)
