"""Numbered texts in a few arrays: a dictionary of a million ids takes ten times the memory."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.storage.vocabulary import TextBuffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.storage.vocabulary import Vocabulary

_HASH = 0xFFFFFFFF


class TextNumbers:
    """Different texts, numbered from 0 in the order of their arrival: a hash table with linear probing."""

    def __init__(self) -> None:
        self.texts = TextBuffer()
        self._hashes = array("I")
        self._slots = array("i", bytes(4 * 1024))
        """Number of the text in each slot, plus one; 0 for an empty slot."""

    def __len__(self) -> int:
        return len(self.texts)

    def number(self, text: bytes) -> int:
        """Return the number of a text, -1 if it is missing."""
        slots, mask, hashed = self._slots, len(self._slots) - 1, hash(text) & _HASH
        slot = hashed & mask
        while number := slots[slot]:
            if self._hashes[number - 1] == hashed and self.texts[number - 1] == text:
                return number - 1
            slot = (slot + 1) & mask
        return -1

    def add(self, text: bytes) -> None:
        """Add a text that is not in the table yet."""
        self.texts.append(text)
        self._hashes.append(hash(text) & _HASH)
        if 2 * len(self._hashes) > len(self._slots):
            self._slots = array("i", bytes(8 * len(self._slots)))
            for number, hashed in enumerate(self._hashes, 1):
                self._put(number, hashed)
        else:
            self._put(len(self._hashes), self._hashes[-1])

    def _put(self, number: int, hashed: int) -> None:
        slots, mask = self._slots, len(self._slots) - 1
        slot = hashed & mask
        while slots[slot]:
            slot = (slot + 1) & mask
        slots[slot] = number


class TextRows:
    """Rows of different texts in a file."""

    def __init__(self, texts: Vocabulary) -> None:
        self._texts = texts
        self._sizes = np.diff(texts.ends)
        self._numbers: TextNumbers | None = None
        self._looked_up = 0

    def __len__(self) -> int:
        return len(self._texts)

    def row(self, text: bytes) -> int:
        """Return the row of a text, -1 if it is missing: the first few texts are compared with all, then a table is
        built."""
        self._looked_up += 1
        if self._looked_up <= _FEW:
            return self._scan(text)
        if self._numbers is None:
            self._numbers = TextNumbers()
            for number in range(len(self._texts)):
                self._numbers.add(self._texts.raw(number))
        return self._numbers.number(text)

    def _scan(self, text: bytes) -> int:
        rows: NDArray[np.int64] = np.flatnonzero(self._sizes == len(text))
        ends = self._texts.ends
        for place in range(len(text), 0, -1):  # ids differ at their ends more often than at their starts
            rows = rows[self._texts.text[ends[rows + 1] - len(text) + place - 1] == text[place - 1]]
        return int(rows[0]) if len(rows) else -1


_FEW = 64
"""Number of look-ups that compare a text with all others, before a table is built."""
