"""Texts of a file in one stretch of UTF-8, in order or not: opening decodes none of them."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING

from retrieve_cli.errors import IndexCorrupt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows


class Vocabulary:
    """Texts in one stretch of UTF-8; each is decoded when it is asked for."""

    def __init__(self, text: NDArray[np.uint8], ends: Rows) -> None:
        """`ends` has one entry more than there are texts, the first of them 0."""
        self.text = text
        self.ends = ends

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, number: int) -> str:
        try:
            return self.text[self.ends[number] : self.ends[number + 1]].tobytes().decode()
        except UnicodeDecodeError as error:
            raise _damaged(error) from error

    def folded(self, number: int) -> str:
        """A text as it is compared."""
        return self[number].casefold()

    def all_folded(self, span: range) -> list[str]:
        """The texts of `span` as they are compared, decoded in one go."""
        ends = self.ends[span.start : span.stop + 1].tolist()
        text = self.text[ends[0] : ends[-1]].tobytes()
        try:
            return [text[start - ends[0] : end - ends[0]].decode().casefold() for start, end in pairwise(ends)]
        except UnicodeDecodeError as error:
            raise _damaged(error) from error

    def place(self, span: range, value: str) -> int:
        """Where a value stands, or would stand, among those of `span`, which are in order."""
        wanted = (value.casefold(), value)
        return span.start + bisect_left(span, wanted, key=lambda number: (self.folded(number), self[number]))


def _damaged(error: UnicodeDecodeError) -> IndexCorrupt:
    return IndexCorrupt(f"columns.pkl is damaged ({error})", hint="retrieve inspect verify")
