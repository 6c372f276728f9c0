"""A set of rows at one bit per row stands in for an array of bool."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from retrieve_cli.storage import bitmap
from retrieve_cli.storage.bitmap import Bitmap, of_members, total

FLAGS = st.lists(st.booleans(), max_size=60).map(lambda flags: np.array(flags, np.bool_))


def packed(flags: np.ndarray) -> Bitmap:
    made: Bitmap = Bitmap.of(len(flags), lambda first, end: flags[first:end])
    return made


@given(FLAGS)
def test_a_bitmap_is_what_its_array_is(flags: np.ndarray) -> None:
    others = np.random.default_rng(len(flags)).random(len(flags)) < 0.5
    rows = np.flatnonzero(others)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bitmap, "PIECE", 8)
        made = packed(flags)
        assert made[rows].tolist() == flags[rows].tolist()
        assert made[3:20].tolist() == flags[3:20].tolist()
    assert np.asarray(made).tolist() == flags.tolist()
    assert np.asarray(~made).tolist() == (~flags).tolist()
    assert np.asarray(made & packed(others)).tolist() == np.asarray(made & others).tolist() == (flags & others).tolist()
    assert np.asarray(made | packed(others)).tolist() == (flags | others).tolist()
    assert (len(made), made.any(), made.sum()) == (len(flags), flags.any(), flags.sum())
    assert (total(9, made), (~made).sum()) == (total(9, flags), (~flags).sum())
    assert made.nonzero()[0].tolist() == flags.nonzero()[0].tolist()
    assert made.tobytes() == flags.tobytes()
    assert [bool(made[row]) for row in range(len(flags))] == flags.tolist()


@given(FLAGS.filter(len))
def test_the_rows_of_groups_are_those_of_its_array(flags: np.ndarray) -> None:
    sizes = np.random.default_rng(len(flags)).integers(1, 4, len(flags))
    for starts in (np.append(0, np.cumsum(sizes)), np.arange(len(flags) + 1)):
        assert np.asarray(of_members(packed(flags), starts)).tolist() == of_members(flags, starts).tolist()


@pytest.mark.parametrize("row", [-1, 5, 7, 8])
def test_a_row_that_is_not_there_is_an_error(row: int) -> None:
    with pytest.raises(IndexError):
        packed(np.ones(5, np.bool_))[np.array([row])]
