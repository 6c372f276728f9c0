"""The model's own tokenizer: counts and spans for those who cut text, ids for the encoders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import TokenVectors
from retrieve_cli.encoders.packages import require
from retrieve_cli.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from retrieve_cli.contracts import Terms, Vectors

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Tokenized:
    """Ids of some texts, each with its special tokens and cut to the model's limit, and how many were cut."""

    ids: list[list[int]]
    truncated: int


class ModelTokenizer:
    """A tokenizer.json, with the truncation and the padding that it may prescribe switched off.

    Many models ship a tokenizer.json that cuts and pads to a length which is not the model's.
    """

    def __init__(self, load: Any, *, lowercase: bool = False) -> None:
        """`load` makes the `tokenizers.Tokenizer`; it is called at the first text."""
        self._load = load
        self._lowercase = lowercase

    @classmethod
    def read(cls, path: Path, *, lowercase: bool = False) -> ModelTokenizer:
        """From a tokenizer.json.

        Raises:
            Unavailable: there is none.
        """
        if not path.is_file():
            raise Unavailable(
                f"{path.parent} holds no tokenizer.json, which the onnx encoder needs.",
                hint="set `encoder.kind: torch`, which reads the older vocabulary files too",
            )
        return cls(lambda: parse(path), lowercase=lowercase)

    @property
    def special_tokens(self) -> int:
        return int(self._tokenizer.num_special_tokens_to_add(is_pair=False))

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids of the tokens that are put around a text."""
        return frozenset(self._tokenizer.post_process(self._plain([""])[0]).ids)

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        offsets: list[tuple[int, int]] = self._tokenizer.encode(readable(text), add_special_tokens=False).offsets
        return offsets

    def count(self, text: str) -> int:
        return len(self._plain([text])[0].ids)

    def counts(self, texts: Sequence[str]) -> list[int]:
        """`count` of each text, counted side by side."""
        return [len(encoding.ids) for encoding in self._plain(texts)]

    def ids(self, texts: Sequence[str], *, max_tokens: int) -> Tokenized:
        """Ids of each text with special tokens around it, cut at the end to at most `max_tokens` in all."""
        room = max(0, max_tokens - self.special_tokens)
        found, cut = [], 0
        for encoding in self._plain(texts):
            if len(encoding.ids) > room:
                encoding.truncate(room)
                cut += 1
            found.append(self._tokenizer.post_process(encoding).ids)
        return Tokenized(found, cut)

    def _plain(self, texts: Sequence[str]) -> list[Any]:
        encoded: list[Any] = self._tokenizer.encode_batch_fast(
            [readable(text) for text in texts], add_special_tokens=False
        )
        return encoded

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizer = self._load()
        tokenizer.no_truncation()
        tokenizer.no_padding()
        if self._lowercase:
            normalizers = require("tokenizers").normalizers
            own = [tokenizer.normalizer] if tokenizer.normalizer is not None else []
            tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *own])
        return tokenizer


def readable(text: str) -> str:
    """The text with each lone surrogate, which no tokenizer takes, replaced by one other character."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def parse(path: Path) -> Any:
    tokenizers = require("tokenizers")
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception, also for a file that is not UTF-8
        raise UsageError(f"{path} is not a tokenizer file: {error}.", hint="fetch the model's files again") from error


def content(ids: Terms, hidden: Vectors, special: frozenset[int]) -> TokenVectors:
    """(t,) ids and (t, dim) hidden states without those of special tokens, unless there are no others."""
    kept = np.isin(ids, list(special), invert=True)
    return TokenVectors(ids[kept], hidden[kept]) if kept.any() else TokenVectors(ids, hidden)
