"""Queries of an inference-free model: their own tokens, each with the weight that a file gives it.

Neither torch nor onnxruntime is needed. A token counts once, however often it is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.encoders.model_folder import broken
from retrieve_cli.encoders.splade.splade_folder import Static
from retrieve_cli.encoders.splade.vocabulary import Pruning, SpladeTokenizer
from retrieve_cli.encoders.tensors import read, to_float32
from retrieve_cli.encoders.threads import Truncating, once
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors


class StaticQueries(Truncating):
    """Looks the tokens of queries up."""

    def __init__(self, route: Static) -> None:
        self._route = route

    def __str__(self) -> str:
        return "looked up, without a model"

    @once
    def tokenizer(self) -> SpladeTokenizer:
        return SpladeTokenizer.read_or_convert(self._route.tokenizer)

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
