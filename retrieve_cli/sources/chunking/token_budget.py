"""Number of tokens that a chunk may have, and of tokens that it has."""

from __future__ import annotations

from collections.abc import Mapping

from retrieve_cli.contracts import Json, Tokenizer
from retrieve_cli.errors import UsageError

_HEADER_SHARE = 4
"""A context header takes at most 1/4 of the tokens of a chunk; a longer title is shortened."""

_LEAST_ROOM = 16
"""Minimum tokens for text beside the prefix and the special tokens."""

_CUT_SLACK = 2
"""A text cut out of a longer one may be tokenized differently at its two ends."""


class Budget:
    """Counter of the encoder's input: prefix, header, text and special tokens."""

    def __init__(self, tokenizer: Tokenizer, *, max_tokens: int, size: int | None, prefix: str) -> None:
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.size = max_tokens if size is None else size
        self.prefix = prefix
        self._fixed = tokenizer.special_tokens + (tokenizer.count(prefix) if prefix else 0)
        if not 0 < self.size <= max_tokens:
            raise UsageError(
                f"a chunk size of {self.size} tokens is not between 1 and the encoder's {max_tokens}",
                hint=f"set the chunk size to at most {max_tokens}, or remove the setting",
            )
        if self.size - self._fixed < _LEAST_ROOM:
            raise UsageError(
                f"{self.size} tokens per chunk leave no room for text: "
                f"prefix and special tokens take {self._fixed} of them",
                hint=f"set the chunk size to at least {self._fixed + _LEAST_ROOM}",
            )

    @property
    def card(self) -> Mapping[str, Json]:
        return {"max_tokens": self.max_tokens, "size": self.size, "prefix": self.prefix}

    def tokens(self, embedded: str) -> int:
        """Return the tokens of the whole input of the encoder, counted on the final text."""
        return self.tokenizer.count(self.prefix + embedded) + self.tokenizer.special_tokens

    def room(self, header: str = "") -> int:
        """Return the tokens left for the text of a chunk with this header; at least 1."""
        taken = self._fixed + (self.tokenizer.count(header) if header else 0)
        return max(1, self.size - taken - _CUT_SLACK)

    def may_fit(self, characters: int) -> bool:
        """Return True if a text of this length could fit whole: few tokens are longer than eight characters."""
        return characters <= 8 * self.size

    def shorten(self, header: str) -> str:
        """Return the header, or its beginning if it would exceed its share of the chunk."""
        limit = self.size // _HEADER_SHARE
        if len(header) <= limit:
            return header
        spans = self.tokenizer.spans(header[: 16 * limit])
        if len(spans) <= limit and len(header) <= 16 * limit:
            return header
        kept = header[: spans[min(len(spans), limit) - 3][1]] if len(spans) > 3 else ""
        return kept and f"{kept}…{header[-1]}"
