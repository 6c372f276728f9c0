"""Suggestion of a known name for a misspelled one, in bounded time."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

_LONGEST = 100
"""Maximum characters of a compared name; the time grows with the product of both lengths."""
_MOST = 20_000
"""Maximum number of compared names."""


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.55) -> str | None:
    """Return the known name most similar to `name`, None if none is similar. Of very many names only the first ones
    are compared, and very long names are skipped."""
    from difflib import get_close_matches

    if len(name) > _LONGEST:
        return None
    names = (other for other in islice(known, _MOST) if len(other) <= _LONGEST)
    return next(iter(get_close_matches(name, names, n=1, cutoff=cutoff)), None)
