"""WordPiece over plain ASCII: the ids that the `tokenizers` library gives, without loading it for one short query.

The library takes 20 ms to load and to index a vocabulary of 30,000 words; reading the same file as JSON takes 3. Only
the tokenizer of BERT is read, and only printable ASCII, where its normalisation is lower case or nothing. All other
texts are for the library. tests/models/encoders/test_word_pieces.py holds both to the same ids.

Schuster and Nakajima 2012 (WordPiece), Devlin et al. 2019 (BERT).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeGuard

import orjson

from retrieve_cli.frozen import Frozen
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from pathlib import Path

    from retrieve_cli.contracts import Json

_LARGEST = 4 * files.MB
"""Bytes of a tokenizer.json that is read here; a vocabulary of 120,000 words has two."""
_LONGEST = 2_000
"""Characters of a text; the library is quicker with long ones."""
_SWITCHES = ("clean_text", "handle_chinese_chars", "strip_accents")
"""Switches of the normaliser of BERT that change no printable ASCII, however they are set."""
_ID = 2**31


class WordPieces(Frozen):
    """A vocabulary of word pieces, and the special tokens around a text."""

    vocabulary: Mapping[str, int]
    unknown: int
    prefix: str
    """Prefix of a piece that continues a word."""
    longest: int
    """Characters of a word; a longer one is unknown."""
    lowercase: bool
    added: tuple[str, ...]
    """Texts in lower case that are tokens everywhere; a text that has one is for the library."""
    before: tuple[int, ...]
    after: tuple[int, ...]
    """Ids around a text."""

    def ids(self, text: str) -> list[int] | None:
        """Return the ids of a text without those around it; None if it is not short, not printable ASCII, or the
        vocabulary has no sound id for a piece of it."""
        if len(text) > _LONGEST or not (text.isascii() and text.isprintable()):
            return None
        lower = text.lower()
        if any(token in lower for token in self.added):
            return None
        ids: list[int] = []
        for word in re.findall(r"[0-9A-Za-z]+|[^0-9A-Za-z ]", lower if self.lowercase else text):
            ids += self._pieces(word)
        return ids if _are_ids(ids) else None

    def _pieces(self, word: str) -> Sequence[int]:
        """The longest piece that a word begins with, then the longest of the rest."""
        if len(word) > self.longest:
            return [self.unknown]
        pieces, start = [], 0
        while start < len(word):
            prefix = self.prefix if start else ""
            for end in range(len(word), start, -1):
                piece = self.vocabulary.get(prefix + word[start:end])
                if piece is not None:
                    break
            else:
                return [self.unknown]
            pieces.append(piece)
            start = end
        return pieces


def read(path: Path, *, lowercase: bool) -> WordPieces | None:
    """Return the word pieces of a tokenizer.json; None if it is not the tokenizer of BERT, or cannot be read.

    With `lowercase` texts are in lower case before the tokenizer's own normalisation.
    """
    try:
        content = files.read_bytes(path, limit=_LARGEST)
        if b'"BertPreTokenizer"' not in content:
            return None
        return _word_pieces(orjson.loads(content), lowercase)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # the library says what is wrong with it


def _word_pieces(parsed: Json, lowercase: bool) -> WordPieces | None:
    normalizer, model = parsed["normalizer"], parsed["model"]
    around = _around(parsed["post_processor"])
    switches = [normalizer["lowercase"], *(normalizer[switch] for switch in _SWITCHES if switch != "strip_accents")]
    vocabulary, longest = model["vocab"], model["max_input_chars_per_word"]
    if (
        around is None
        or normalizer["type"] != "BertNormalizer"
        or not all(isinstance(switch, bool) for switch in switches)
        or normalizer["strip_accents"] not in (None, True, False)
        or set(normalizer) != {"type", "lowercase", *_SWITCHES}
        or parsed["pre_tokenizer"] != {"type": "BertPreTokenizer"}
        or model["type"] != "WordPiece"
        or not isinstance(model["continuing_subword_prefix"], str)
        or not (isinstance(longest, int) and longest >= 0)
        or not _are_ids([vocabulary[model["unk_token"]]])
        or not all(_plain(token) for token in parsed["added_tokens"])
    ):
        return None
    return WordPieces(
        vocabulary,
        unknown=vocabulary[model["unk_token"]],
        prefix=model["continuing_subword_prefix"],
        longest=longest,
        lowercase=lowercase or normalizer["lowercase"],
        added=tuple(token["content"].lower() for token in parsed["added_tokens"]),
        before=around[0],
        after=around[1],
    )


def _around(processor: Json) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The ids before and after a text; None if it is not one text between special tokens."""
    if processor["type"] == "BertProcessing":
        sides = [[processor["cls"][1]], [processor["sep"][1]]]
    elif processor["type"] == "TemplateProcessing":
        sides = [[]]
        for part in processor["single"]:
            (kind, value), *others = part.items()
            if others or (kind == "Sequence" and (value["id"] != "A" or len(sides) > 1)):
                return None
            if kind == "Sequence":
                sides.append([])
            else:
                sides[-1] += processor["special_tokens"][value["id"]]["ids"]
    else:
        return None
    if len(sides) != 2 or not _are_ids([*sides[0], *sides[1]]):
        return None
    return tuple(sides[0]), tuple(sides[1])


def _are_ids(values: Sequence[Json]) -> TypeGuard[Sequence[int]]:
    return set(map(type, values)) <= {int} and all(0 <= value < _ID for value in values)


def _plain(token: Json) -> bool:
    """Return True if a token is found by its exact text, or in lower case."""
    content = token["content"]
    return bool(content) and content.isascii() and content.isprintable()
