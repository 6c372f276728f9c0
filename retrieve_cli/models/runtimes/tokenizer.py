"""The model's own tokenizer: counts and spans for those who cut text, ids for the encoders."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeGuard

import numpy as np
import orjson

from retrieve_cli.contracts import TokenVectors
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.runtimes.packages import once, require
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from pathlib import Path

    from retrieve_cli.contracts import Json, Rows, Terms, Vectors

_FEW = 8
"""Texts that are worth no loading of the library."""
_UNKNOWN, _BLANKS = ("[UNK]", "<unk>"), 16
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
            message = f"{path.parent} does not hold a tokenizer.json, which the onnx encoder needs."
            raise Unavailable(message, hint="set `encoder.kind: torch`, which reads the older vocabulary files too")
        pieces = partial(read_word_pieces, path, lowercase=lowercase)
        return cls(lambda: parse(path), lowercase=lowercase, pieces=pieces)

    @classmethod
    def read_or_convert(cls, path: Path, *, lowercase: bool = False) -> Self:
        """Read a tokenizer.json or, without one, the older vocabulary files beside it (by transformers)."""
        if path.is_file():
            return cls.read(path, lowercase=lowercase)

        def convert() -> Any:
            auto = require("transformers").AutoTokenizer
            return auto.from_pretrained(str(path.parent), local_files_only=True).backend_tokenizer

        return cls(convert, lowercase=lowercase)

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

    def most(self, text: str) -> int:
        """Return the number of tokens of a text, each unknown one as the bytes of its characters, of which a model with
        another vocabulary makes no more tokens; and at least one for 16 characters, as blanks are not counted here."""
        text = readable(text)
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        unknown = {self.entries.get(name) for name in _UNKNOWN}
        pairs = zip(encoding.ids, encoding.offsets, strict=True)
        tokens = sum(len(text[slice(*places)].encode()) if token in unknown else 1 for token, places in pairs)
        return max(tokens, len(text) // _BLANKS)

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
        whole = [[*pieces.before, *ids[:room], *pieces.after] for ids in encoded]
        return Tokenized(whole, sum(len(ids) > room for ids in encoded))

    @property
    def _quick(self) -> WordPieces | None:
        return None if "_tokenizer" in self.__dict__ else self._pieces

    @once
    def _pieces(self) -> WordPieces | None:
        return self._read_pieces()

    def _plain(self, texts: Sequence[str]) -> list[Any]:
        plain = [readable(text) for text in texts]
        encoded: list[Any] = self._tokenizer.encode_batch_fast(plain, add_special_tokens=False)
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


_LARGEST = 4 * files.MB
"""Bytes of a tokenizer.json that is read here; a vocabulary of 120,000 words has two."""
_LONGEST = 2_000
"""Characters of a text; the library is quicker with long ones."""
_SWITCHES = ("clean_text", "handle_chinese_chars", "strip_accents")
"""Switches of the normaliser of BERT that change no printable ASCII, however they are set."""
_ID = 2**31


class WordPieces(Frozen):
    """WordPiece over plain ASCII: the ids that the `tokenizers` library gives, without loading it for one short query.

    The library takes 20 ms to load and to index a vocabulary of 30,000 words; reading the same file as JSON takes 3.
    Only the tokenizer of BERT is read, and only printable ASCII, where its normalisation is lower case or nothing. All
    other texts are for the library. tests/models/encoders/test_word_pieces.py holds both to the same ids.

    Schuster and Nakajima 2012 (WordPiece), Devlin et al. 2019 (BERT).
    """

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


def read_word_pieces(path: Path, *, lowercase: bool) -> WordPieces | None:
    """Return the word pieces of a tokenizer.json; None if it is not the tokenizer of BERT, or cannot be read.

    With `lowercase` texts are in lower case before the tokenizer's own normalisation.
    """
    try:
        content = files.read_bytes(path, limit=_LARGEST)
        if b'"BertPreTokenizer"' not in content:
            return None
        return _word_pieces(orjson.loads(content), lowercase)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # the library reports the fault


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
