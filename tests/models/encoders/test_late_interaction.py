"""Late interaction hit by hit: what was seen of each gives what reading any list of them gives."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from retrieve_cli.contracts import Hit, Query, TokenVectors
from retrieve_cli.models.rerankers.late_interaction import PASSAGES, LateInteraction
from retrieve_cli.storage.token_table import ChunkTokenVectors, TokenTable, pack, width_of

DIM = 12


def table(sizes: list[int], generator: np.random.Generator, dim: int = DIM) -> ChunkTokenVectors:
    """Chunks of so many random tokens."""
    count = sum(sizes)
    packed = pack(TokenVectors(np.arange(count, dtype=np.int32) % 7, random(count, generator, dim)))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    codes, frequencies = packed.codes.reshape(count, width_of(dim)), np.arange(1, 8, dtype=np.int32)
    stored = {"dim": dim, "ids": packed.ids, "codes": codes, "starts": starts, "frequencies": frequencies}
    return ChunkTokenVectors([TokenTable(stored)])


def random(count: int, generator: np.random.Generator, dim: int = DIM) -> np.ndarray:
    return generator.normal(size=(count, dim)).astype(np.float32)


def reader(sizes: list[int], records: list[int], words: int, seed: int, unit: str) -> LateInteraction:
    """Over records of so many chunks, for a query of so many words."""
    generator = np.random.default_rng(seed)
    tokens = table(sizes, generator)
    asked = TokenVectors(np.arange(words, dtype=np.int32) % 9, random(words, generator))
    starts = np.concatenate([[0], np.cumsum(records)]).astype(np.int64)
    vectors = random(len(sizes), generator)
    return LateInteraction(
        tokens=lambda: tokens, encode=lambda _: asked, vectors_of=lambda rows: vectors[rows], starts=starts, unit=unit
    )


@given(st.integers(0, 2**32), st.lists(st.integers(1, 230), min_size=6, max_size=6), st.integers(1, 9), st.data())
def test_what_was_seen_of_each_hit_gives_what_reading_any_list_of_them_gives(
    seed: int, sizes: list[int], words: int, data: st.DataObject
) -> None:
    unit = data.draw(st.sampled_from(["record", "chunk"]))
    hits = [Hit(f"{at}#0", at, at // 2, 0.0) for at in ((0, 2, 4) if unit == "record" else range(6))]
    late = reader(sizes, [2, 2, 2], words, seed, unit)
    seen = dict(zip(hits, late.look(Query("q"), hits), strict=True))
    some = data.draw(st.permutations(hits))[: data.draw(st.integers(1, len(hits)))]
    assert late.scores([seen[hit] for hit in some]) == pytest.approx(late.read(Query("q"), some), abs=1e-6)


def test_what_is_read_beside_a_hit_changes_its_score_and_nothing_that_was_seen_of_it() -> None:
    """The two directions count by the length of all windows: scores of one list cannot be taken for another's."""
    late = reader([3, 200], [1, 1], 4, 0, "record")
    short, long = (Hit(f"{at}#0", at, at, 0.0) for at in range(2))
    (alone,) = late.read(Query("q"), [short])
    beside, _ = late.read(Query("q"), [short, long])
    assert abs(alone - beside) > 0.01
    (seen,) = late.look(Query("q"), [short])
    assert late.scores([seen])[0] == pytest.approx(alone, abs=1e-6)


def test_a_hit_without_tokens_is_last_wherever_it_stands() -> None:
    late = reader([0, 5], [1, 1], 4, 0, "record")
    empty, full = (Hit(f"{at}#0", at, at, 0.0) for at in range(2))
    looks = [*late.look(Query("q"), [empty]), *late.look(Query("q"), [full])]
    assert late.scores(looks) == pytest.approx(late.read(Query("q"), [empty, full]), abs=1e-6)
    assert late.scores(looks)[0] == -1.0
    assert late.scores(looks[:1]).tolist() == [-1.0]


@given(st.integers(0, 2**32), st.lists(st.integers(1, 2 * PASSAGES), min_size=1, max_size=4))
def test_of_a_record_no_more_is_read_than_its_chunks_nearest_to_the_query(seed: int, records: list[int]) -> None:
    chunks = sum(records)
    late = reader([4] * chunks, records, 3, seed, "record")
    starts = np.concatenate([[0], np.cumsum(records)])
    hits = [Hit(f"{at}#0", int(starts[at]), at, 0.0) for at in range(len(records))]
    near = late._vectors_of(np.arange(chunks)) @ late._encode("q").vectors.mean(0)
    read = [
        sorted(range(start, start + count), key=lambda row: -near[row])[:PASSAGES]
        for start, count in zip(starts.tolist(), records, strict=False)
    ]
    by_chunk = reader([4] * chunks, records, 3, seed, "chunk")
    rows = [row for rows in read for row in rows]
    scores = by_chunk.read(Query("q"), [Hit(f"{row}", row, 0, 0.0) for row in rows])
    found = dict(zip(rows, scores, strict=True))
    assert late.read(Query("q"), hits) == pytest.approx([max(found[row] for row in rows) for rows in read], abs=1e-5)


def test_of_a_record_no_chunk_is_read_that_a_filter_leaves_out() -> None:
    late, by_chunk = (reader([4] * 12, [12], 3, 5, unit) for unit in ("record", "chunk"))
    (hit,) = (Hit("0#0", 0, 0, 0.0),)
    chunks = np.isin(np.arange(12), [3, 8])
    alone = by_chunk.read(Query("q"), [Hit("3", 3, 0, 0.0), Hit("8", 8, 0, 0.0)])
    assert late.read(Query("q", chunks=chunks), [hit]) == pytest.approx([max(alone)])
    (look,) = late.look(Query("q", chunks=chunks), [hit])
    assert late.scores([look]) == pytest.approx([max(alone)])
