"""Texts through sentence-transformers' SparseEncoder, in batches that fit the device; only terms come off it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.encoders.batching import halving
from retrieve_cli.encoders.model_folder import Precision
from retrieve_cli.encoders.packages import require
from retrieve_cli.encoders.splade.splade_folder import TRANSFORMERS, Masked, SpladeFolder
from retrieve_cli.encoders.splade.terms import Pruning
from retrieve_cli.encoders.splade.vocabulary import SpladeTokenizer
from retrieve_cli.encoders.tokenizer import readable
from retrieve_cli.encoders.torch import quiet
from retrieve_cli.errors import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BATCH = {"cpu": 1, "cuda": 512}
"""On a CPU one text at a time: its weights are then the same to the bit whatever stands beside it, and a sync ends with
the bytes of a fresh build."""
_TOKENS = {"cpu": 2048, "cuda": 32768}
"""What a batch holds at most: a token costs a logit for every entry of the vocabulary, so that with BERT's 30,522 these
are 250 MB in float32 and 2 GB in float16."""
_POOLED = 32
"""Tokens of each text that are pooled at once, so that the activation does not take as much memory as the logits."""


class TorchTexts:
    """Sends texts to one of the model's methods; the model loads at the first text."""

    def __init__(
        self,
        method: Callable[[], Any],
        tokenizer: SpladeTokenizer,
        *,
        device: Literal["cpu", "cuda"],
        max_tokens: int,
        batch_size: int | None = None,
    ) -> None:
        self._method = method
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._most, self._tokens = batch_size or _BATCH[device], _TOKENS[device]
        self.truncated = 0

    def __str__(self) -> str:
        return "torch"

    def encode(self, texts: Sequence[str], pruning: Pruning) -> list[TermWeights]:
        """One for each text, the longest first; a text without a token has no term."""
        found = [TermWeights(np.empty(0, np.int32), np.empty(0, np.float32))] * len(texts)
        lengths = np.array(self._tokenizer.counts(texts), np.int64) + self._tokenizer.special_tokens
        self.truncated += int((lengths > self._max_tokens).sum())
        lengths = np.minimum(lengths, self._max_tokens)
        order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
        for places, size in _stretches(order, lengths[order], most=self._most, tokens=self._tokens):
            for place, terms in zip(
                places, self._stretch([texts[place] for place in places], size, pruning), strict=True
            ):
                found[place] = terms
        return found

    def _stretch(self, texts: Sequence[str], size: int, pruning: Pruning) -> list[TermWeights]:
        """Of texts of about the same length, `size` at a time or less."""
        encode, found = self._method(), list[TermWeights]()

        def run(start: int, end: int) -> None:
            batch = [readable(text) for text in texts[start:end]]
            # An empty prompt is one too: without it the model's default prompt would be put in front.
            settings = {"prompt": "", "batch_size": len(batch), "show_progress_bar": False}
            dense = encode(batch, convert_to_tensor=True, convert_to_sparse_tensor=False, **settings)
            found.extend(_taken(dense, pruning))

        halving(len(texts), run, size=size, exhausted=require("torch").OutOfMemoryError, release=_release)
        return found


def load(folder: SpladeFolder, *, device: Literal["cpu", "cuda"], precision: Precision) -> Any:
    """The model as a sentence-transformers SparseEncoder.

    Raises:
        Unavailable: sentence-transformers is not installed, or cannot load it.
    """
    dtype = getattr(require("torch"), precision)
    with quiet():
        try:
            model = require("sentence_transformers").SparseEncoder(
                str(folder.path), device=device, local_files_only=True, model_kwargs={"dtype": dtype}
            )
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise Unavailable(
                f"sentence-transformers cannot load {folder.path}: {error}",
                hint="fetch the model's files again, or name another model",
            ) from error
    routes = [route for route in (folder.document, folder.query) if isinstance(route, Masked)]
    limit = max(route.folder.max_tokens for route in routes)
    for module in model.modules():
        if type(module).__name__ == "SpladePooling":
            module.chunk_size = _POOLED
        elif type(module).__name__ in TRANSFORMERS and hasattr(module, "max_seq_length"):  # DistilBERT's has none
            module.max_seq_length = min(module.max_seq_length or limit, limit)
    return model


def _release() -> None:
    torch = require("torch")
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _stretches(
    order: NDArray[np.int64], lengths: NDArray[np.int64], *, most: int, tokens: int
) -> Iterator[tuple[NDArray[np.int64], int]]:
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
