"""A row's product has the same bits wherever the row lies; and a bound holds for any order of summation."""

from __future__ import annotations

from math import fsum
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from retrieve_cli.numerics import products, rounding_bound

pytestmark = pytest.mark.bits

DIMS = st.integers(1, 40) | st.sampled_from([64, 100, 128, 255, 256, 384, 768, 1023, 1024, 4096, 8193, 20_000])
FLOATS = st.sampled_from([np.float32, np.float64])


def numbers(shape: tuple[int, ...], seed: int, kind: Any = np.float32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def at(offset: int, array: Any) -> Any:
    """A copy of the array that begins so many bytes behind a multiple of 64."""
    memory = np.empty(array.nbytes + 128, np.uint8)
    first = -memory.ctypes.data % 64 + offset
    copy = np.ndarray(array.shape, array.dtype, memory.data, first)
    copy[...] = array
    return copy


@settings(max_examples=150)
@given(dim=DIMS, count=st.integers(1, 70), kind=FLOATS, seed=st.integers(0, 99), data=st.data())
def test_a_row_has_the_same_product_alone_in_any_slice_order_layout_and_alignment(
    dim: int, count: int, kind: Any, seed: int, data: st.DataObject
) -> None:
    count = max(1, min(count, 60_000 // dim))
    rows, vector = numbers((count, dim), seed, kind), numbers((dim,), seed + 1, kind)
    alone = np.concatenate([products(rows[place : place + 1], vector) for place in range(count)]).tobytes()
    offset = data.draw(st.integers(0, 63))
    first = data.draw(st.integers(0, count - 1))
    end = data.draw(st.integers(first + 1, count))
    order = np.random.default_rng(seed).permutation(count)

    assert products(rows, vector).tobytes() == alone
    assert products(at(offset, rows), at(45, vector)).tobytes() == alone
    assert products(np.asfortranarray(rows), vector).tobytes() == alone
    assert products(np.repeat(rows, 2, axis=0)[::2], np.repeat(vector, 3)[::3]).tobytes() == alone
    assert products(np.repeat(rows, 2, axis=1)[:, ::2], vector).tobytes() == alone
    assert products(rows[::-1], vector)[::-1].tobytes() == alone
    assert products(rows[order], vector)[np.argsort(order)].tobytes() == alone
    assert products(at(offset, rows)[first:end], vector).tobytes() == np.frombuffer(alone, kind)[first:end].tobytes()


@settings(max_examples=100)
@given(dim=DIMS, seed=st.integers(0, 99), scale=st.sampled_from([1e-22, 1e-3, 1.0, 1e3, 1e12]))
def test_products_of_any_kernel_lie_within_half_the_bound_of_the_exact_ones(dim: int, seed: int, scale: float) -> None:
    rows, vector = numbers((9, dim), seed) * np.float32(scale), numbers((dim,), seed + 1)
    wide, thin = rows.astype(np.float64), vector.astype(np.float64)
    exact = np.array([fsum(row * thin) for row in wide])

    for found in (products(rows, vector), rows @ vector, np.array([row @ vector for row in rows])):
        for row, value, expected in zip(wide, found, exact, strict=True):
            bound = rounding_bound(dim, norms=float(np.linalg.norm(row) * np.linalg.norm(thin)))
            assert abs(float(value) - expected) <= bound / 2


def test_no_bound_is_known_where_there_are_too_many_terms_or_no_number() -> None:
    assert rounding_bound(2**24, norms=1.0) == float("inf")
    assert np.isnan(rounding_bound(8, norms=float("nan")))


def test_products_of_nothing_are_nothing() -> None:
    assert products(numbers((0, 5), 0), numbers((5,), 1)).shape == (0,)
    assert products(numbers((3, 0), 0), numbers((0,), 1)).tolist() == [0, 0, 0]
