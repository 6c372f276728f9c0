"""Parts as a package outside of the program adds them: a chunker, an encoder, a source and a reranker."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.config.settings import Settings, SourceSetting
from retrieve_cli.contracts import Chunk, Field, Item, ModelCard, Plugin, Record, SourceKind, Tokenizer
from retrieve_cli.models.encoders.hashed import WordTokenizer

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors


class Halves:
    """Cuts every record into two halves."""

    def __init__(self, tokenizer: Tokenizer, settings: Settings) -> None:
        self._tokenizer = tokenizer
        self.card: Mapping[str, Any] = {"strategy": "halves"}

    def chunk(self, record: Record) -> Iterator[Chunk]:
        if "indivisible" in record.text:
            raise KeyError("halves")
        middle = len(record.text) // 2
        for index, (start, end) in enumerate(((0, middle), (middle, len(record.text)))):
            text = record.text[start:end]
            tokens = self._tokenizer.count(text)
            yield Chunk(record.id, index, text, start, end, record.line, record.line, tokens=tokens)


class Letters:
    """Encodes a text as how often it has each letter."""

    truncated = 0
    device = "cpu (it counts letters)"
    tokenizer = WordTokenizer()
    card = ModelCard(family="letters", name="letters-26", revision="0" * 40, dim=26, max_tokens=512, pooling="none")

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        counts = [[text.lower().count(chr(97 + letter)) for letter in range(26)] for text in texts]
        vectors = np.array(counts, np.float32).reshape(len(texts), 26)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(norms > 0, norms, 1)

    encode_passages = encode_queries


class Lines:
    """Each line of a text file is a record."""

    kind: SourceKind = "catalog"

    def __init__(self, entry: SourceSetting, settings: Settings) -> None:
        self._path = Path(str(entry.path))
        self.name = entry.name
        self.card: Mapping[str, Any] = {"kind": "lines"}
        self.origin: Mapping[str, Any] = {"kind": "lines", "name": entry.name, "path": str(self._path.absolute())}

    def fetch(self) -> None:
        pass

    def stamp(self) -> list[int] | None:
        return None

    def scan(self) -> Iterator[Item]:
        for number, line in enumerate(self._path.read_text().splitlines(), 1):
            digest = hashlib.sha1(line.encode(), usedforsecurity=False).digest()
            yield Item(digest, self.name, number, partial(self._read, line, number))

    def _read(self, line: str, number: int) -> list[Record]:
        name, _, text = line.partition(": ")
        if not text:
            raise IndexError("the line has no colon")
        fields = (Field("name", name), Field("text", text))
        return [Record(name, name, line, "catalog", self.name, number, description=text, fields=fields)]


class Shortest:
    """Prefers short passages, whatever is asked."""

    name = "shortest"

    def score(self, query: str, passages: Sequence[str]) -> Vectors:
        return np.array([-len(passage) for passage in passages], np.float32)


CHUNKER = Plugin("chunker", Halves)
ENCODER = Plugin("encoder", lambda settings: Letters())
SOURCE = Plugin("source", Lines)
RERANKER = Plugin("reranker", lambda settings: Shortest())
SEGMENTER = Plugin("segmenter", lambda: lambda run: [run[at : at + 3] for at in range(0, len(run), 3)])
