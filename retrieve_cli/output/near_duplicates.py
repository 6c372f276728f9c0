"""Results of different records whose passages have nearly the same words: only the first one is shown.

Words are compared as sets of three in a row (Broder 1997, "On the resemblance and containment of documents"). A result
is compared with the few earlier ones that share its least hashes, so that the time grows with the number of results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

from retrieve_cli.output.compact import passage
from retrieve_cli.search.answer import Result

_WORD = re.compile(r"\w+")
_WORDS, _FEWEST = 2000, 8
"""Words of a passage that are compared, and those without which it is like no other."""
_ALIKE = 0.8
"""Share of what two sets have together that they have in common."""
_LEAST = 16


class Folded(NamedTuple):
    """A result, its place, and the places of later results that it replaces."""

    result: Result
    place: int
    others: list[int]


def folded(results: Sequence[Result]) -> list[Folded]:
    """Return the results in their order, without those that are nearly the same as an earlier one of another record."""
    kept: list[Folded] = []
    sets: list[frozenset[bytes]] = []
    first: dict[bytes, int] = {}
    for place, result in enumerate(results):
        hashes = _hashes(passage(result))
        least = sorted(hashes)[:_LEAST]
        for number in dict.fromkeys(first[each] for each in least if each in first):
            same, others = len(hashes & sets[number]), kept[number].result.doc_id != result.doc_id
            if others and same >= _ALIKE * (len(hashes) + len(sets[number]) - same):
                kept[number].others.append(place)
                break
        else:
            for each in least:
                first.setdefault(each, len(kept))
            kept.append(Folded(result, place, []))
            sets.append(hashes)
    return kept


def _hashes(text: str) -> frozenset[bytes]:
    words = [match.group() for match in islice(_WORD.finditer(text.casefold()), _WORDS)]
    if len(words) < _FEWEST:
        return frozenset()
    threes = zip(words, words[1:], words[2:], strict=False)
    return frozenset(blake2b(" ".join(three).encode("utf-8", "replace"), digest_size=8).digest() for three in threes)
