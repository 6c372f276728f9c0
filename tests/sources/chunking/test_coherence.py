from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from retrieve_cli.contracts import Record, Tokenizer
from retrieve_cli.sources.chunking.coherence import Coherence
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


@pytest.mark.parametrize("chunker", [SectionChunker, WindowChunker])
def test_a_long_block_is_cut_where_its_subject_changes(
    words: Tokenizer, record: Make, chunker: type[SectionChunker | WindowChunker]
) -> None:
    made = record(CATS * 9 + STARS * 5, kind="text")
    plain = list(chunker(words, max_tokens=110).chunk(made))
    coherent = list(chunker(words, max_tokens=110, coherence=Coherence(encode)).chunk(made))
    assert any("cat" in chunk.text and "star" in chunk.text for chunk in plain)
    assert not any("cat" in chunk.text and "star" in chunk.text for chunk in coherent)
