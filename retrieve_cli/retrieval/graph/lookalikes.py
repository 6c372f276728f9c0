"""Names that are spelt like others but for one letter: a typing error rather than something new.

Two names that differ by a letter, one that is missing or another in its place, or by two neighbours in each other's
place, are the same once a letter of each is left out. Digits are never left out: numbers that differ mean different
things.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

_LEAST = 6
"""Letters of a name in which one can be wrong: short names and accession numbers are alike by chance."""
_LONGEST = 64
"""Characters of a name that is compared."""
_MOST = 10_000
"""Names that are compared."""


class Lookalikes:
    """Names of which others may be misspellings: of very many the first ones."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[str, str] = {}
        """The name, by each variant of its folded form with one letter removed."""
        for name in islice(names, _MOST):
            for part in _parts(name):
                self._names.setdefault(part, name)

    def of(self, name: str) -> str | None:
        """Return the name that another one looks like; None if it looks like no other name."""
        return next((self._names[part] for part in _parts(name) if part in self._names), None)


def _parts(name: str) -> Iterator[str]:
    """A folded name, and its variants with one character removed that is not a digit."""
    folded = name.casefold()
    if len(folded) > _LONGEST or sum(letter.isalpha() for letter in folded) < _LEAST:
        return
    yield folded
    for at, letter in enumerate(folded):
        if not letter.isdigit():
            yield folded[:at] + folded[at + 1 :]
