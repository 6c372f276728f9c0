"""The tokenizer of a SPLADE model, which also knows its vocabulary's entries by their ids."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from retrieve_cli.encoders.packages import require
from retrieve_cli.encoders.tokenizer import ModelTokenizer, Tokenized


class SpladeTokenizer(ModelTokenizer):
    """`ModelTokenizer`, and the entries of its vocabulary."""

    @classmethod
    def of(cls, path: Path, *, lowercase: bool = False) -> SpladeTokenizer:
        """From a tokenizer.json, or, where there is none, from the older vocabulary files beside it."""
        if path.is_file():
            return cast("SpladeTokenizer", cls.read(path, lowercase=lowercase))
        return cls(lambda: _convert(path.parent), lowercase=lowercase)

    @cached_property
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


def _convert(path: Path) -> Any:
    return require("transformers").AutoTokenizer.from_pretrained(str(path), local_files_only=True).backend_tokenizer
