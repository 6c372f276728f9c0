from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from retrieve_cli.contracts import Record, Tokenizer
from retrieve_cli.sources.chunking.coherence import Coherence, depth_scores, gap_similarity
from retrieve_cli.sources.chunking.section import SectionChunker
from retrieve_cli.sources.chunking.window import WindowChunker

Make = Callable[..., Record]

CATS = "The cat sleeps on the mat of the house. "
STARS = "A star burns gas in the dark of the sky. "


def encode(sentences: Sequence[str]) -> NDArray[np.float32]:
    """Two subjects, at right angles."""
    return np.array([[1, 0] if "cat" in sentence else [0, 1] for sentence in sentences], dtype=np.float32)


def test_the_deepest_drop_is_where_the_subject_changes() -> None:
    drops = Coherence(encode).drops([CATS] * 5 + [STARS] * 5)
    assert drops.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_a_text_of_one_subject_has_no_drop() -> None:
    assert not Coherence(encode).drops([CATS] * 9).any()


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_sentences_have_no_drop(count: int) -> None:
    assert Coherence(encode).drops([CATS] * count).tolist() == [0.0] * max(0, count - 1)


@given(st.lists(st.floats(-1, 1, width=16), min_size=1, max_size=30))
def test_depth_is_the_climb_to_the_peaks_on_both_sides(similarity: list[float]) -> None:
    depths = depth_scores(np.array(similarity))
    for gap, depth in enumerate(depths):
        left = right = gap
        while left > 0 and similarity[left - 1] >= similarity[left]:
            left -= 1
        while right < len(similarity) - 1 and similarity[right + 1] >= similarity[right]:
            right += 1
        assert depth == pytest.approx(similarity[left] + similarity[right] - 2 * similarity[gap])


@given(st.integers(2, 12), st.integers(1, 4))
def test_gaps_are_compared_by_the_mean_vectors_around_them(sentences: int, block: int) -> None:
    vectors = np.random.default_rng(sentences).normal(size=(sentences, 5)).astype(np.float32)
    for gap, similarity in enumerate(gap_similarity(vectors, block), start=1):
        before, behind = vectors[max(0, gap - block) : gap].mean(axis=0), vectors[gap : gap + block].mean(axis=0)
        cosine = before @ behind / (np.linalg.norm(before) * np.linalg.norm(behind))
        assert similarity == pytest.approx(cosine, abs=1e-5)


@pytest.mark.parametrize("chunker", [SectionChunker, WindowChunker])
def test_a_long_block_is_cut_where_its_subject_changes(
    words: Tokenizer, record: Make, chunker: type[SectionChunker | WindowChunker]
) -> None:
    made = record(CATS * 9 + STARS * 5, kind="text")
    plain = list(chunker(words, max_tokens=110).chunk(made))
    coherent = list(chunker(words, max_tokens=110, coherence=Coherence(encode)).chunk(made))
    assert any("cat" in chunk.text and "star" in chunk.text for chunk in plain)
    assert not any("cat" in chunk.text and "star" in chunk.text for chunk in coherent)


def test_coherence_is_on_the_card(words: Tokenizer) -> None:
    plain = SectionChunker(words, max_tokens=64).card
    coherent = SectionChunker(words, max_tokens=64, coherence=Coherence(encode, block=3)).card
    assert (plain["coherence"], coherent["coherence"]) == (None, {"block": 3})
