"""The NumPy pass: its formulas, and the company it keeps with OpenBLAS."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, strategies as st

from retrieve_cli.models.runtimes.bert import gelu, pool, to_unit


@given(st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=50))
def test_gelu_is_x_times_the_normal_distribution(values: list[float]) -> None:
    expected = [value * 0.5 * math.erfc(-value / math.sqrt(2)) for value in values]
    assert np.allclose(gelu(np.array(values, dtype=np.float32)), expected, atol=1e-6, rtol=1e-6)


def test_zero_vector_stays_zero() -> None:
    assert to_unit(np.zeros(3, dtype=np.float32)).tolist() == [0, 0, 0]


def test_pooling_takes_what_its_name_says() -> None:
    hidden = np.array([[1, 5], [3, 1], [2, 0]], dtype=np.float32)
    assert pool(hidden, "mean").tolist() == [2, 2]
    assert pool(hidden, "cls").tolist() == [1, 5]
    assert pool(hidden, "max").tolist() == [3, 5]
    assert pool(hidden, "lasttoken").tolist() == [2, 0]
