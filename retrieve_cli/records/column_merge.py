"""Merges new values into the vocabulary of older columns: few Python steps for few changes, however large it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.records.column_values import number_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows
    from retrieve_cli.records.column import Flags
    from retrieve_cli.records.columns import Columns


class MergedVocabulary:
    """The vocabulary of older columns without what is no longer used, with new values in their places."""

    def __init__(self, old: Columns, used: Flags, fresh: Sequence[tuple[str, str]]) -> None:
        """`used` tells which of the old values are still there; `fresh` are fields with a value, no two the same."""
        order = sorted(range(len(fresh)), key=lambda code: (fresh[code][0], fresh[code][1].casefold(), fresh[code][1]))
        places = [old.place(*fresh[code]) for code in order]
        at = np.array([place for place, _ in places], np.int64)
        known = np.array([there for _, there in places], np.bool_)
        used[at[known]] = True
        self._old, self._kept = old, np.flatnonzero(used)
        self._new = [fresh[code] for code, (_, there) in zip(order, places, strict=True) if not there]
        self._before = np.searchsorted(self._kept, at[~known])
        """By new value, the kept one that it stands before."""
        self._added = self._before + np.arange(len(self._new))
        steps = np.arange(len(self._kept))
        self.of_old = np.full(len(used), -1, np.int64)
        """By old value, its number now."""
        self.of_old[self._kept] = steps + np.searchsorted(self._before, steps, side="right")
        numbers = np.empty(len(fresh), np.int64)
        numbers[known], numbers[~known] = self.of_old[at[known]], self._added
        self.of_fresh = np.empty(len(fresh), np.int64)
        """By fresh value, its number now."""
        self.of_fresh[order] = numbers
        self._name()

    def _name(self) -> None:
        """Finds the names of fields that are left, and the field of each value."""
        old = self._old
        fields = np.repeat(np.arange(len(old.names)), np.diff(old.arrays["value_starts"]))[self._kept]
        self.names = sorted({old.names[number] for number in np.unique(fields)} | {field for field, _ in self._new})
        position = {name: number for number, name in enumerate(self.names)}
        renumbered = np.array([position.get(name, -1) for name in old.names], np.int64)
        self.fields = np.insert(renumbered[fields], self._before, [position[field] for field, _ in self._new])
        """By value, the place of its field among `names`."""

    @property
    def arrays(self) -> dict[str, Json]:
        """The vocabulary as it is stored."""
        names = [name.encode() for name in self.names]
        words = [value.encode() for _, value in self._new]
        sizes = np.diff(self._old.vocabulary.ends)[self._kept]
        numbered, numbers = self._numbers()
        starts = np.searchsorted(self.fields, np.arange(len(self.names) + 1)).astype(np.int64)
        return {
            "names": np.frombuffer(b"".join(names), np.uint8),
            "name_ends": np.cumsum([0, *map(len, names)], dtype=np.int64),
            "text": np.frombuffer(self._text(sizes, words), np.uint8),
            "ends": np.append(0, np.cumsum(np.insert(sizes, self._before, [len(word) for word in words]))),
            "value_starts": starts,
            "number_starts": np.searchsorted(numbered, starts).astype(np.int64),
            "numbered": numbered,
            "numbers": numbers,
        }

    def _text(self, sizes: Rows, words: Sequence[bytes]) -> bytes:
        """All values as one stretch, the new ones between those that stay."""
        flags = np.zeros(len(self.of_old), np.bool_)
        flags[self._kept] = True
        text = self._old.vocabulary.text[np.repeat(flags, np.diff(self._old.vocabulary.ends))].tobytes()
        cuts = np.append(0, np.cumsum(sizes))[self._before].tolist()
        pieces, done = [], 0
        for cut, word in zip(cuts, words, strict=True):
            pieces += [text[done:cut], word]
            done = cut
        return b"".join([*pieces, text[done:]])

    def _numbers(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Which values are numbers, and what they are."""
        old = self._old.arrays
        numbered = self.of_old[old["numbered"]]
        left = numbered >= 0
        found = [(place, number_of(*word)) for place, word in zip(self._added.tolist(), self._new, strict=True)]
        added = [(place, number) for place, number in found if number is not None]
        places = np.concatenate([numbered[left], np.array([place for place, _ in added], np.int64)])
        numbers = np.concatenate([old["numbers"][left], np.array([number for _, number in added], np.float64)])
        order = np.argsort(places)
        return places[order].astype(np.int32), numbers[order]
