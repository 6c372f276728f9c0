"""How many tokens a chunk may have, and how many it has."""

from __future__ import annotations

from collections.abc import Mapping

from retrieve_cli.contracts import Json, Tokenizer
from retrieve_cli.errors import UsageError

_HEADER_SHARE = 4
"""A context header takes at most one token in this many of a chunk; a giant title is cut short."""

_LEAST_ROOM = 16
"""Tokens that must remain for text beside the prefix and the special tokens."""

_CUT_SLACK = 2
"""A text cut out of a longer one may have other tokens at its two ends than it had inside."""


class Budget:
    """Counts what the encoder will be given: prefix, header, text and special tokens."""

    def __init__(self, tokenizer: Tokenizer, *, max_tokens: int, size: int | None, prefix: str) -> None:
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.size = max_tokens if size is None else size
        self.prefix = prefix
        self._fixed = tokenizer.special_tokens + (tokenizer.count(prefix) if prefix else 0)
        if not 0 < self.size <= max_tokens:
            raise UsageError(
                f"a chunk size of {self.size} tokens is not between 1 and the encoder's {max_tokens}",
                hint=f"set the chunk size to at most {max_tokens}, or leave it out",
            )
        if self.size - self._fixed < _LEAST_ROOM:
            raise UsageError(
                f"{self.size} tokens a chunk leave no room for text: "
                f"prefix and special tokens take {self._fixed} of them",
                hint=f"set the chunk size to at least {self._fixed + _LEAST_ROOM}",
            )

    @property
    def card(self) -> Mapping[str, Json]:
        return {"max_tokens": self.max_tokens, "size": self.size, "prefix": self.prefix}

    def tokens(self, embedded: str) -> int:
        """Tokens of the whole input of the encoder, measured on the very text."""
        return self.tokenizer.count(self.prefix + embedded) + self.tokenizer.special_tokens

    def room(self, header: str = "") -> int:
        """Tokens of text that are wished for in a chunk with this header; at least 1."""
        taken = self._fixed + (self.tokenizer.count(header) if header else 0)
        return max(1, self.size - taken - _CUT_SLACK)

    def may_fit(self, characters: int) -> bool:
        """Whether a text of so many characters is worth counting as a whole: few tokens are longer than eight."""
        return characters <= 8 * self.size

    def shorten(self, header: str) -> str:
        """The header, or its beginning where it would take more than its share of the chunk."""
        limit = self.size // _HEADER_SHARE
        if len(header) <= limit:
            return header
        spans = self.tokenizer.spans(header[: 16 * limit])
        if len(spans) <= limit and len(header) <= 16 * limit:
            return header
        kept = header[: spans[min(len(spans), limit) - 3][1]] if len(spans) > 3 else ""
        return kept and f"{kept}…{header[-1]}"
