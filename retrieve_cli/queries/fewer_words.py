"""Broader texts for a query that found too little: its first content words."""

from __future__ import annotations

from collections.abc import Sequence

_WORDS = (3, 2)
"""Content words of the first and of the second retry."""


def broader(words: Sequence[str], *, most: int) -> list[str]:
    """At most `most` texts, each broader than the one before: the first three `words`, then the first two.

    `words` are those of the query that say something, in order. A text with all of them is no broader, and is left out.
    """
    return [" ".join(words[:count]) for count in _WORDS if count < len(words)][:most]
