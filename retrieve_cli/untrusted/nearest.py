"""The known name that is most like a misspelt one, looked for in bounded time."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

_LONGEST = 100
"""Characters of a name that is compared; the time grows with the product of both lengths."""
_MOST = 20_000
"""Names that are compared."""


def nearest(given: str, known: Iterable[str], *, cutoff: float = 0.5) -> str | None:
    """Return the known name that is most like the one given, None if none is alike. Of very many names the first ones
    are compared; names that no person would type are not."""
    from difflib import get_close_matches

    if len(given) > _LONGEST:
        return None
    names = (name for name in islice(known, _MOST) if len(name) <= _LONGEST)
    return next(iter(get_close_matches(given, names, n=1, cutoff=cutoff)), None)
