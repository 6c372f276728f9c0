"""The model's own tokenizer: counts and spans for those who cut text, ids for the encoders."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from retrieve_cli.contracts import TokenVectors
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.runtimes import word_pieces
from retrieve_cli.models.runtimes.packages import require
from retrieve_cli.models.runtimes.threads import once

if TYPE_CHECKING:
    from pathlib import Path

    from retrieve_cli.contracts import Rows, Terms, Vectors
    from retrieve_cli.models.runtimes.word_pieces import WordPieces

_FEW = 8
"""Texts that are worth no loading of the library."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class Tokenized(Frozen):
    """Ids of some texts, each with its special tokens and cut to the model's limit, and how many were cut."""

    ids: list[list[int]]
    truncated: int


class ModelTokenizer:
    """A tokenizer.json, with the truncation and the padding that it may prescribe switched off.

    Many models ship a tokenizer.json that cuts and pads to a length which is not the model's.
    """

    def __init__(
        self, load: Any, *, lowercase: bool = False, pieces: Callable[[], WordPieces | None] = lambda: None
    ) -> None:
        """`load` makes the `tokenizers.Tokenizer`; it is called at the first text. `pieces` reads its word pieces, if
        it is one that has them: they do for a few short texts without it."""
        self._load = load
        self._lowercase = lowercase
        self._read_pieces = pieces

    @classmethod
    def read(cls, path: Path, *, lowercase: bool = False) -> Self:
        """Read a tokenizer.json. Raises: Unavailable: the file does not exist."""
        if not path.is_file():
            raise Unavailable(
                f"{path.parent} does not hold a tokenizer.json, which the onnx encoder needs.",
                hint="set `encoder.kind: torch`, which reads the older vocabulary files too",
            )
        pieces = partial(word_pieces.read, path, lowercase=lowercase)
        return cls(lambda: parse(path), lowercase=lowercase, pieces=pieces)

    @classmethod
    def read_or_convert(cls, path: Path, *, lowercase: bool = False) -> Self:
        """Read a tokenizer.json or, without one, the older vocabulary files beside it (by transformers)."""
        if path.is_file():
            return cls.read(path, lowercase=lowercase)
        return cls(lambda: _convert(path.parent), lowercase=lowercase)

    @property
    def special_tokens(self) -> int:
        if (pieces := self._quick) is not None:
            return len(pieces.before) + len(pieces.after)
        return int(self._tokenizer.num_special_tokens_to_add(is_pair=False))

    @once
    def special_ids(self) -> frozenset[int]:
        """Ids of the tokens that are put around a text."""
        if (pieces := self._quick) is not None:
            return frozenset((*pieces.before, *pieces.after))
        return frozenset(self._tokenizer.post_process(self._plain([""])[0]).ids)

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        offsets: list[tuple[int, int]] = self._tokenizer.encode(readable(text), add_special_tokens=False).offsets
        return offsets

    def count(self, text: str) -> int:
        return len(self._plain([text])[0].ids)

    def counts(self, texts: Sequence[str]) -> list[int]:
        """`count` of each text, counted side by side."""
        return [len(encoding.ids) for encoding in self._plain(texts)]

    def lengths(self, texts: Sequence[str], *, max_tokens: int) -> tuple[Rows, int]:
        """(n,) tokens of each text, special tokens included, at most `max_tokens`; and how many texts are longer."""
        lengths = np.array(self.counts(texts), np.int64) + self.special_tokens
        return np.minimum(lengths, max_tokens), int((lengths > max_tokens).sum())

    def ids(self, texts: Sequence[str], *, max_tokens: int) -> Tokenized:
        """Ids of each text with special tokens around it, cut at the end to at most `max_tokens` in all."""
        room = max(0, max_tokens - self.special_tokens)
        if (quick := self._of_few(texts, room)) is not None:
            return quick
        ids_of_texts, cut = [], 0
        for encoding in self._plain(texts):
            if len(encoding.ids) > room:
                encoding.truncate(room)
                cut += 1
            ids_of_texts.append(self._tokenizer.post_process(encoding).ids)
        return Tokenized(ids_of_texts, cut)

    @once
    def entries(self) -> dict[str, int]:
        """Ids by entry of the vocabulary, special tokens included."""
        known: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        return known

    def words(self, size: int) -> list[str]:
        """Entries of the vocabulary by id, the empty string where the tokenizer knows none."""
        words = [""] * size
        for entry, number in self.entries.items():
            if number < size:
                words[number] = entry
        return words

    def own_ids(self, texts: Sequence[str], *, max_tokens: int) -> Tokenized:
        """Ids of each text without special tokens around it, cut at the end to at most `max_tokens`."""
        ids = [encoding.ids for encoding in self._plain(texts)]
        return Tokenized([each[:max_tokens] for each in ids], sum(len(each) > max_tokens for each in ids))

    def _of_few(self, texts: Sequence[str], room: int) -> Tokenized | None:
        """`ids` of a few short texts without the library; None if they are for the library, or it is loaded already."""
        pieces = self._quick if len(texts) <= _FEW else None
        if pieces is None:
            return None
        encoded = [ids for text in texts if (ids := pieces.ids(text)) is not None]
        if len(encoded) < len(texts):
            return None
        return Tokenized(
            [[*pieces.before, *ids[:room], *pieces.after] for ids in encoded], sum(len(ids) > room for ids in encoded)
        )

    @property
    def _quick(self) -> WordPieces | None:
        return None if "_tokenizer" in self.__dict__ else self._pieces

    @once
    def _pieces(self) -> WordPieces | None:
        return self._read_pieces()

    def _plain(self, texts: Sequence[str]) -> list[Any]:
        encoded: list[Any] = self._tokenizer.encode_batch_fast(
            [readable(text) for text in texts], add_special_tokens=False
        )
        return encoded

    @once
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


def _convert(folder: Path) -> Any:
    auto = require("transformers").AutoTokenizer
    return auto.from_pretrained(str(folder), local_files_only=True).backend_tokenizer


def parse(path: Path) -> Any:
    tokenizers = require("tokenizers")
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception, also for a file that is not UTF-8
        raise UsageError(f"{path} is not a tokenizer file: {error}.", hint="fetch the model's files again") from error


def content(ids: Terms, hidden: Vectors, special: frozenset[int]) -> TokenVectors:
    """(t,) ids and (t, dim) hidden states without special tokens, unless there are no other tokens."""
    kept = np.isin(ids, list(special), invert=True)
    return TokenVectors(ids[kept], hidden[kept]) if kept.any() else TokenVectors(ids, hidden)
