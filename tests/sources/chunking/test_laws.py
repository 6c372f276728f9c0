"""What no text may break: nothing is lost, nothing is too long, every chunk is a stretch of its record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from profiles import examples

from retrieve_cli.contracts import Chunk, Record, Tokenizer
from retrieve_cli.frozen import replace
from retrieve_cli.sources.chunking.coherence import Coherence
from retrieve_cli.sources.chunking.markers import LABELS, Markers
from retrieve_cli.sources.chunking.section import SectionChunker
from retrieve_cli.sources.chunking.window import WindowChunker

WORDS = "the cell membrane was segmented. Methods: RESULTS Results. We found; (n = 3)".split()
TITLES = ["Title\n=====", "Part\n---", "## Methods", "2. Results", "**Discussion**", "#", "####### seven"]
CAPTIONS = ["*Seen from above.*", "**Figure 1. A cell.**", "Fig. 2: another", "Dosage: one.", "the cell"]
MARKS = ["snake_case", "https://a.b/c?d=e", "**bold**", "`code`", "\t", "\x00", "\x07", "\u200b", "a" * 32]
SCRIPTS = ["na\u00efve", "日本語。", "שלום", "עולם", "e\u0301e\u0301", "👩\u200d👩\u200d👧", "👍🏽"]
PROSE = st.lists(st.sampled_from([*WORDS, *MARKS, *SCRIPTS]), max_size=60).map(" ".join)
WORD = st.text(st.characters(codec="utf-8"), max_size=12)
LINE = st.one_of(
    PROSE,
    PROSE.map(lambda text: "# " + text[:40]),
    PROSE.map(lambda text: "#### " + text[:300]),
    st.sampled_from(TITLES),
    st.sampled_from(["![a cell](cell.png)", *CAPTIONS]),
    st.sampled_from(["```python\nif x:\n    # no heading\n```", "~~~\nopen", "```", "    code", "<!-- note -->"]),
    st.integers(0, 20).map(lambda rows: "| a | b |\n|---|:-:|" + "\n| one two | three |" * rows),
    st.integers(1, 12).map(lambda items: "\n".join(f"{'  ' * (at % 3)}- item {at} of many" for at in range(items))),
    st.integers(1, 9).map(lambda items: "\n\n".join(f"{at}. step\n\n   more of it" for at in range(items))),
    PROSE.map(lambda text: "> " + text),
    st.integers(1, 400).map(lambda length: "x" * length),
    st.integers(1, 60).map(lambda length: "語" * length),
    WORD,
)
TEXT = st.tuples(st.lists(LINE, max_size=14), st.sampled_from(["\n", "\n\n", "\r\n", "\r\n\r\n", " \n\t\n"])).map(
    lambda parts: parts[1].join(parts[0])
)
NAME = st.sampled_from(["Guide", "", "A giant name " * 40, "the cell", "語" * 100, "a: b > c"])
KIND = st.sampled_from(["markdown", "text", "catalog"])
PREFIX = st.sampled_from(["", "Represent the passage: "])

LAWS = settings(max_examples=examples(1), suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])


def _letters(sentences: Iterable[str]) -> np.ndarray:
    """Shares of a few letters: a stand-in for sentence vectors."""
    return np.array([[text.count(letter) + 0.01 for letter in "aeiou"] for text in sentences], dtype=np.float32)


Cut = Callable[..., Iterable[Chunk]]
Check = Callable[..., list[Chunk]]


def _section(record: Record, tokenizer: Tokenizer, **options: Any) -> Iterable[Chunk]:
    return SectionChunker(tokenizer, **options).chunk(record)


def _imrad(record: Record, tokenizer: Tokenizer, **options: Any) -> Iterable[Chunk]:
    return _section(record, tokenizer, markers=Markers("imrad", LABELS["imrad"]), **options)


def _labelled(record: Record, tokenizer: Tokenizer, **options: Any) -> Iterable[Chunk]:
    """By the labels of drug labels and a title, which the record lists."""
    titled = replace(record, metadata={"section_titles": ["the cell", "Methods"]})
    return _section(titled, tokenizer, markers=Markers("drug_label", LABELS["drug_label"]), **options)


def _window(record: Record, tokenizer: Tokenizer, *, size: int, **options: Any) -> Iterable[Chunk]:
    return WindowChunker(tokenizer, size=size, overlap=size // 5, **options).chunk(record)


def _coherent(record: Record, tokenizer: Tokenizer, **options: Any) -> Iterable[Chunk]:
    return _section(record, tokenizer, coherence=Coherence(_letters), **options)


def _coherent_window(record: Record, tokenizer: Tokenizer, **options: Any) -> Iterable[Chunk]:
    return _window(record, tokenizer, coherence=Coherence(_letters), **options)


@pytest.mark.parametrize("cut", [_section, _imrad, _labelled, _window, _coherent, _coherent_window])
@LAWS
@given(text=TEXT, name=NAME, kind=KIND, prefix=PREFIX, max_tokens=st.integers(30, 90))
def test_chunks_of_word_tokens_keep_the_laws(
    words: Tokenizer,
    lawful: Check,
    cut: Cut,
    text: str,
    name: str,
    kind: str,
    prefix: str,
    max_tokens: int,
) -> None:
    record = Record(id="r", name=name, text=text, kind=kind, source="s", line=7)
    chunks = cut(record, words, max_tokens=max_tokens, size=max_tokens - 3, prefix=prefix)
    lawful(record, chunks, words, max_tokens=max_tokens, prefix=prefix)


@pytest.mark.parametrize("cut", [_section, _imrad, _window])
@LAWS
@given(text=TEXT, name=NAME, kind=KIND, prefix=PREFIX, size=st.integers(30, 60))
def test_chunks_of_minilm_tokens_keep_the_laws(
    minilm: Tokenizer, lawful: Check, cut: Cut, text: str, name: str, kind: str, prefix: str, size: int
) -> None:
    record = Record(id="r", name=name, text=text, kind=kind, source="s")
    chunks = cut(record, minilm, max_tokens=60, size=size, prefix=prefix)
    lawful(record, chunks, minilm, max_tokens=60, prefix=prefix)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \r\n\t ",
        "\x00" * 5_000,
        "x" * 100_000,
        "語" * 5_000,
        "e\u0301" * 2_000,
        "👩‍👩‍👧" * 500,
        "a\r\nb\r\n" * 2_000,
        "\n" * 5_000 + "end",
        "```\n# never closed\n" + "line of code\n" * 500,
        "| head | row |\n|---|---|",
        "#" * 3_000,
        "# " + "long heading " * 2_000 + "\n\ntext",
        "- " * 3_000,
        "> " * 3_000,
        "|" * 3_000 + "\n" + "|-" * 3_000,
        "\ufeff# Byte order mark\n\ntext",
    ],
    ids=lambda text: repr(text[:12]),
)
@pytest.mark.parametrize("cut", [_section, _imrad, _window])
def test_strange_texts_keep_the_laws(minilm: Tokenizer, words: Tokenizer, lawful: Check, cut: Cut, text: str) -> None:
    for tokenizer in (words, minilm):
        record = Record(id="r", name="Guide", text=text, kind="text", source="s")
        lawful(record, cut(record, tokenizer, max_tokens=64, size=64), tokenizer, max_tokens=64)


class ByteTokenizer:
    """Every byte of every letter is a token: several of them lie over one character."""

    special_tokens = 2

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(at, at + 1) for at, letter in enumerate(text) for _ in letter.encode() if not letter.isspace()]

    def count(self, text: str) -> int:
        return len(self.spans(text))


@pytest.mark.parametrize("cut", [_section, _window])
@LAWS
@given(text=TEXT, name=NAME)
def test_chunks_of_byte_tokens_keep_the_laws(lawful: Check, cut: Cut, text: str, name: str) -> None:
    record = Record(id="r", name=name, text=text, kind="markdown", source="s")
    chunks = cut(record, ByteTokenizer(), max_tokens=40, size=40)
    lawful(record, chunks, ByteTokenizer(), max_tokens=40)
