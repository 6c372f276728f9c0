"""Numbers with the noun that they count: a catalog holds records, a folder documents."""

from __future__ import annotations

from collections.abc import Iterable


def noun(kinds: Iterable[str]) -> str:
    """Return the word for what sources of these kinds hold: `document`, `record`, or `records and documents`."""
    folders = {kind == "docs" for kind in kinds}
    return "records and documents" if len(folders) > 1 else "document" if True in folders else "record"


def counted(number: int, word: str) -> str:
    """Return a number with its noun: `1 chunk`, `1,995 chunks`."""
    return f"{number:,} {word}{'' if number == 1 or word.endswith('s') else 's'}"
