"""What late interaction sees of a hit has the same bits whichever other hits are looked at, and however it is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from retrieve_cli.contracts import Hit, Query, TokenVectors
from retrieve_cli.models.rerankers.late_interaction import LateInteraction
from retrieve_cli.storage.token_table import TokenTable, UnitVectors, pack, unpack, width_of

pytestmark = pytest.mark.bits

CHUNKS = 6
"""Of each record: more than are read, so that the nearest ones are chosen."""


def reader(sizes: list[int], *, words: int, dim: int, seed: int, unit: Any) -> LateInteraction:
    """Over chunks of so many tokens, six to a record, for a query of so many words."""
    generator = np.random.default_rng(seed)

    def numbers(count: int) -> Any:
        return generator.standard_normal((count, dim)).astype(np.float32)

    count = sum(sizes)
    packed = pack(TokenVectors(np.arange(count, dtype=np.int32) % 7, numbers(count)))
    table = TokenTable(
        {
            "dim": dim,
            "ids": packed.ids,
            "codes": packed.codes.reshape(count, width_of(dim)),
            "starts": np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            "frequencies": np.arange(1, 8, dtype=np.int32),
        }
    )
    asked, vectors = TokenVectors(np.arange(words, dtype=np.int32) % 9, numbers(words)), numbers(len(sizes))
    return LateInteraction(
        tokens=lambda: table,
        encode=lambda _: asked,
        vectors_of=lambda rows: vectors[rows],
        starts=np.arange(0, len(sizes) + 1, CHUNKS),
        unit=unit,
    )


@pytest.mark.parametrize("dim", [12, 33, 128, 384])
@pytest.mark.parametrize("unit", ["record", "chunk"])
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(1, 130), min_size=18, max_size=18),
    words=st.integers(1, 12),
    data=st.data(),
)
def test_what_is_seen_of_a_hit_does_not_depend_on_the_hits_beside_it(
    unit: str, dim: int, seed: int, sizes: list[int], words: int, data: st.DataObject
) -> None:
    rows = range(0, 18, CHUNKS) if unit == "record" else range(18)
    hits = [Hit(f"{row}#0", row, row // CHUNKS, 0.0) for row in rows]
    late, query = reader(sizes, words=words, dim=dim, seed=seed, unit=unit), Query("q")
    seen = dict(zip(hits, late.look(query, hits), strict=True))
    some = data.draw(st.permutations(hits))[: data.draw(st.integers(1, len(hits)))]

    for hit, again in zip(some, late.look(query, some), strict=True):
        assert (again.met.tobytes(), again.covered.tobytes()) == (seen[hit].met.tobytes(), seen[hit].covered.tobytes())
    assert late.scores([seen[hit] for hit in some]).tobytes() == late.read(query, some).tobytes()


def formula(codes: Any, dim: int) -> Any:
    """All rows at once: the level of each number, divided by the length of its row."""
    levels = np.array([-1.510, -0.4528, 0.4528, 1.510], np.float32)[(codes[:, :, None] >> np.arange(0, 8, 2)) & 3]
    vectors = np.ascontiguousarray(levels.reshape(len(codes), 4 * width_of(dim))[:, :dim])
    return vectors / np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]


@pytest.mark.parametrize("dim", [1, 12, 33, 128, 384])
@given(seed=st.integers(0, 99), sizes=st.lists(st.integers(0, 70), min_size=1, max_size=6), words=st.integers(1, 9))
def test_rows_that_are_unpacked_where_they_are_read_have_the_bits_of_those_unpacked_at_once(
    dim: int, seed: int, sizes: list[int], words: int
) -> None:
    """Their products too: BLAS must find them lying as it would find the others."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, 256, (sum(sizes), width_of(dim)), np.uint8)
    asked = generator.standard_normal((words, dim)).astype(np.float32)
    expected, read, first = formula(codes, dim), UnitVectors(codes, dim), 0

    assert unpack(codes, dim).tobytes() == expected.tobytes()
    for end in np.cumsum(sizes).tolist():
        rows, others = read[first:end], expected[first:end]
        assert rows.tobytes() == others.tobytes()
        assert (asked @ rows.T).tobytes() == (asked @ others.T).tobytes()
        first = end
