"""Laws of searches that hold for every kind of index, and what their tests draw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings, strategies as st

from retrieve_cli.storage import pickles

shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def unit_vectors(count: int, dim: int, seed: int = 0) -> Any:
    """Return (count, dim) float32, rows of L2 norm 1."""
    vectors = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def split(data: st.DataObject, rows: int) -> Any:
    """Draw starts of groups that cover the rows."""
    cuts = data.draw(st.sets(st.integers(1, rows - 1)) if rows > 1 else st.just(set()))
    return np.array([0, *sorted(cuts), rows], np.int64)


def best(scores: Any, depth: int, *, every: bool = False) -> Any:
    """Return rows by their scores, ties in row order; those with a score of 0 only if `every` row can be listed."""
    listed = np.arange(len(scores)) if every else np.flatnonzero(scores)
    return listed[np.argsort(-scores[listed], kind="stable")][:depth]


def check_groups(index: Any, query: Any, scores: Any, data: st.DataObject, *, every: bool = False) -> None:
    """Check that any groups of rows have the highest of the rows' scores, in a search and when asked for."""
    starts, depth = split(data, len(scores)), data.draw(st.integers(1, 20))
    highest = np.array([part.max() for part in np.split(scores, starts[1:-1])])

    (found,) = index.search([query], depth=depth, starts=starts)

    expected = best(highest, depth, every=every)
    assert found.rows.tolist() == expected.tolist()
    assert found.scores.tolist() == highest[expected].tolist()
    asked = np.array(data.draw(st.lists(st.integers(0, len(highest) - 1), max_size=5)), np.int64)
    assert index.score(query, asked, starts=starts).tolist() == highest[asked].tolist()


def check_batch(index: Any, queries: Sequence[Any], depth: int) -> None:
    """Check that queries of a batch are answered as they are one by one, bit by bit."""
    for query, together in zip(queries, index.search(queries, depth=depth), strict=True):
        (alone,) = index.search([query], depth=depth)
        assert alone.rows.tobytes() == together.rows.tobytes()
        assert alone.scores.tobytes() == together.scores.tobytes()
        assert (alone.mean, alone.deviation) == (together.mean, together.deviation)


def without(part: str, path: Path) -> dict[str, Any]:
    """Read the file of an index, and leave out one of its parts."""
    return {name: value for name, value in pickles.load(path).items() if name != part}
