"""The words of a query: those in the place of misspelled ones, and those that are searched for beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from retrieve_cli.errors import quoted
from retrieve_cli.frozen import Frozen

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Mask


class Worded(str):
    """The text of a query with words that it is also searched for. To an index that does not know them it is a text."""

    __slots__ = ("beside", "own")
    beside: tuple[tuple[str, float], ...]
    """Words, each with its weight; a word of the text has 1."""
    own: Mask | None
    """Rows in whose languages it is read, (rows,) bool; None: all."""

    @classmethod
    def of(cls, text: str, beside: tuple[tuple[str, float], ...], own: Mask | None = None) -> str:
        """Return a text with such words or rows, if there are any."""
        if not beside and own is None:
            return text
        worded = cls(text)
        worded.beside, worded.own = beside, own
        return worded


class Correction(Frozen):
    """A word of a query that no record has, and the word in its place."""

    word: str
    to: str
    """The same word, if it stays and others are searched for beside it."""
    others: tuple[tuple[str, float], ...] = ()
    """Further words that are searched for, with weights below 1."""

    @property
    def searched(self) -> tuple[str, ...]:
        """The words that are searched for, the best one first."""
        return (*([self.to] if self.to != self.word else []), *(word for word, _ in self.others))

    @property
    def notice(self) -> str:
        """The sentence on it in an answer."""
        searched = f"searched for {', '.join(self.searched)} (unless --exact-words)"
        return f"no record has the word {quoted(self.word)}: {searched}"


class Spelling(Protocol):
    """Corrections of words that no record has to words that some record has."""

    def of(self, own: Mask) -> Spelling:
        """Return the same for some records, (records,) bool: the words of others do not exist."""

    def corrected(self, text: str) -> tuple[str, tuple[Correction, ...]]:
        """Return a text with its misspelled words replaced, and the corrections."""
