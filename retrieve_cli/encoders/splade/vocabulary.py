"""The tokenizer of a SPLADE model, which also knows its vocabulary's entries by their ids."""

from __future__ import annotations

from collections.abc import Sequence

from retrieve_cli.encoders.threads import once
from retrieve_cli.encoders.tokenizer import ModelTokenizer, Tokenized


class SpladeTokenizer(ModelTokenizer):
    """`ModelTokenizer`, and the entries of its vocabulary."""

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
