"""Query relaxation: the first content words of a query that has too few results."""

from __future__ import annotations

from collections.abc import Sequence

_WORDS = (3, 2)
"""Content words of the first and of the second retry."""


def broader(words: Sequence[str], *, most: int) -> list[str]:
    """Return at most `most` texts, each broader than the one before: the first three `words`, then the first two.

    `words` are the content words of the query, in order. A text with all of them is not broader, and is skipped.
    """
    return [" ".join(words[:count]) for count in _WORDS if count < len(words)][:most]
