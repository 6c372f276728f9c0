"""Postings of new rows and of kept ones, merged a stretch at a time: what sorting all of them at once would give."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, strategies as st

from retrieve_cli.storage import postings
from retrieve_cli.storage.postings import PostingsWriter, PostingTable, kept_by_group, kept_values

GROUPS = 6
row = st.dictionaries(st.integers(0, GROUPS - 1), st.integers(1, 99), max_size=4)
plans = st.lists(st.one_of(row, st.integers(0, 7)), max_size=12)


def table(rows: list[dict[int, int]]) -> PostingTable:
    """What an older index of these rows holds."""
    found = sorted((group, number, value) for number, row in enumerate(rows) for group, value in row.items())
    starts = np.searchsorted([group for group, _, _ in found], np.arange(GROUPS + 1))
    columns = np.array(found, np.int32).reshape(-1, 3)
    return PostingTable(starts, columns[:, 1].copy(), columns[:, 2].astype(np.float32), len(rows))


@given(old=st.lists(row, min_size=8, max_size=8), plan=plans, once=st.booleans(), block=st.sampled_from([1, 3, 1000]))
def test_kept_rows_in_any_order_and_new_ones_are_merged(
    old: list[dict[int, int]], plan: list[dict[int, int] | int], once: bool, block: int
) -> None:
    if once:  # no row is kept twice, and those that are stay in order
        kept = iter(sorted({each for each in plan if isinstance(each, int)}))
        plan = [each if not isinstance(each, int) else next(kept, {}) for each in plan]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "_BLOCK", block)
        writer, older = PostingsWriter("f"), table(old)
        for each in plan:
            if isinstance(each, int):
                writer.keep_all(range(each, each + 1))
            else:
                writer.add(each.keys(), each.values())
        origins = writer.origins(len(old))
        counts = kept_by_group(older, origins)
        names = np.where(counts > 0, np.arange(GROUPS), -1)
        counts = counts + writer.added_by_term(GROUPS)
        merged = list(writer.merged(older, origins, counts, old_groups=names, groups=np.arange(GROUPS)))
    rows = [old[each] if isinstance(each, int) else each for each in plan]
    wanted = sorted((group, number, value) for number, row in enumerate(rows) for group, value in row.items())
    assert counts.tolist() == [sum(group == each for each, _, _ in wanted) for group in range(GROUPS)]
    assert [number for part in merged for number in part.rows.tolist()] == [number for _, number, _ in wanted]
    assert [value for part in merged for value in part.values.tolist()] == [value for _, _, value in wanted]
    assert {part.rows.dtype for part in merged} <= {np.dtype(np.int32)}


@given(old=st.lists(row, max_size=8), kept=st.sets(st.integers(0, 7)))
def test_the_values_that_kept_rows_have_are_used(old: list[dict[int, int]], kept: set[int]) -> None:
    writer, rows = PostingsWriter("f"), [number for number in sorted(kept) if number < len(old)]
    for number in rows:
        writer.keep(number)
    older = table(old)
    whole = PostingTable(older.starts, older.rows, older.values.astype(np.int32), older.length)
    used = kept_values(whole, writer.origins(len(old)), 100)
    assert set(np.flatnonzero(used).tolist()) == {value for number in rows for value in old[number].values()}


def test_merging_takes_little_memory_beside_what_was_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "_BLOCK", 1 << 14)
    writer = PostingsWriter("f")
    for number in range(20_000):
        writer.add(range(number % 50, 5000, 100), [1.0] * 50)
    origins, nothing = writer.origins(0), PostingTable(np.zeros(1, np.int64), *[np.empty(0, np.int32)] * 2, 0)
    counts = writer.added_by_term(5000)
    total = int(counts.sum())
    tracemalloc.start()
    merged = writer.merged(nothing, origins, counts, old_groups=np.empty(0, np.int64), groups=np.arange(5000))
    assert sum(len(block.rows) for block in merged) == total == 1_000_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * total, "a row of four bytes a posting, and what a stretch of them needs"
