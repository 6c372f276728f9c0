from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from retrieve_cli.contracts import Record, Tokenizer
from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.sources.chunking.window import WindowChunker

Make = Callable[..., Record]

SENTENCE = "The quick brown fox jumps over the lazy dog again. "


def test_windows_end_behind_sentences(words: Tokenizer, record: Make) -> None:
    chunks = list(WindowChunker(words, max_tokens=64).chunk(record(SENTENCE * 50, kind="text")))
    assert len(chunks) > 5
    assert all(chunk.text.endswith("again.") for chunk in chunks)


def test_windows_end_behind_words_where_there_is_no_sentence(words: Tokenizer, record: Make) -> None:
    text = "interesting " * 200
    chunks = list(WindowChunker(words, max_tokens=64).chunk(record(text, kind="text")))
    assert {word for chunk in chunks for word in chunk.text.split()} == {"interesting"}


@pytest.mark.parametrize("overlap", [8, 20, 28])
def test_windows_share_about_the_overlap_asked_for(words: Tokenizer, record: Make, overlap: int) -> None:
    made = record(SENTENCE * 50, kind="text")
    chunks = list(WindowChunker(words, max_tokens=64, overlap=overlap).chunk(made))
    shared = [words.count(made.text[after.start : before.end]) for before, after in pairwise(chunks)]
    assert all(overlap - 2 <= tokens <= overlap for tokens in shared)


@pytest.mark.parametrize("unit", ["e\u0301", "👍🏽", "👩‍👩‍👧"])
def test_no_window_begins_inside_a_combined_character(words: Tokenizer, record: Make, unit: str) -> None:
    chunks = list(WindowChunker(words, max_tokens=32, overlap=8).chunk(record(unit * 300, kind="text")))
    assert len(chunks) > 3
    assert all(chunk.text.startswith(unit) and chunk.text.endswith(unit) for chunk in chunks)


def test_a_line_of_ten_megabytes_is_cut_in_bounded_time(record: Make) -> None:
    class Bounded:
        special_tokens = 2
        longest = total = 0

        def count(self, text: str) -> int:
            return len(self.spans(text))

        def spans(self, text: str) -> list[tuple[int, int]]:
            self.longest = max(self.longest, len(text))
            self.total += len(text)
            return [(at, at + 99) for at in range(0, len(text) - 99, 100)]

    bounded, made = Bounded(), record(("x" * 99 + " ") * 100_000, kind="text")
    chunks = list(WindowChunker(bounded, max_tokens=256).chunk(made))
    assert bounded.total < 10 * len(made.text), "each character is counted a few times"
    assert len(chunks) > 300
    assert bounded.longest < 70_000


def test_tokens_that_change_when_cut_do_not_make_a_chunk_too_long(record: Make) -> None:
    class Spiteful:
        """Counts twice the tokens that it shows in any text but the longest."""

        special_tokens = 2

        def count(self, text: str) -> int:
            return 2 * len(text.split())

        def spans(self, text: str) -> list[tuple[int, int]]:
            return [(at, at + 1) for at in range(0, len(text), 2)]

    chunks = list(WindowChunker(Spiteful(), max_tokens=32).chunk(record("a " * 500, name="", kind="text")))
    assert sum(len(chunk.text.split()) for chunk in chunks) == 500
    assert all(chunk.tokens <= 32 for chunk in chunks)


def test_a_character_that_no_chunk_can_hold_is_an_error_not_a_cut_input(record: Make) -> None:
    class Huge:
        special_tokens = 2

        def count(self, text: str) -> int:
            return 100 * len(text)

        def spans(self, text: str) -> list[tuple[int, int]]:
            return [(at, at + 1) for at in range(len(text))]

    with pytest.raises(RetrieveError, match="character 0 of `r`"):
        list(WindowChunker(Huge(), max_tokens=32).chunk(record("abc", name="", kind="text")))


def test_an_overlap_above_half_a_window_is_refused(words: Tokenizer) -> None:
    with pytest.raises(UsageError, match="overlap of 40"):
        WindowChunker(words, max_tokens=64, overlap=40)
