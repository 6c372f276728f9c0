"""Batches that shrink when the device's memory does not hold them."""

from __future__ import annotations

from collections.abc import Callable

_CALM = 8
"""Batches in a row that must succeed before a larger one is tried again."""


def halving(
    count: int,
    run: Callable[[int, int], None],
    *,
    size: int,
    exhausted: type[BaseException] | tuple[type[BaseException], ...],
    release: Callable[[], None] = lambda: None,
) -> None:
    """Call `run(start, end)` over 0..count in order, `size` at a time, or less where that raises `exhausted`.

    A batch that failed is halved until it succeeds; after eight successes in a row the size doubles again, up to
    `size`. `release` is called after each failure, to give the device's memory back.

    Raises:
        BaseException: whatever `exhausted` names, where not even a batch of one succeeds.
    """
    start, current, calm = 0, size, 0
    while start < count:
        end = min(start + current, count)
        try:
            run(start, end)
        except exhausted:
            if end - start == 1:
                raise
            current, calm = (end - start) // 2, 0
            release()
            continue
        start, calm = end, calm + 1
        if current < size and calm >= _CALM:
            current, calm = min(size, current * 2), 0
