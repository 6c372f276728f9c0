"""Tokens of a text: the budget of a chunk, and the positions of tokens, between which a long text may be cut."""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from operator import sub

from retrieve_cli.contracts import Json, Tokenizer
from retrieve_cli.errors import UsageError

_HEADER_SHARE = 4
"""A context header takes at most 1/4 of the tokens of a chunk; a longer title is shortened."""

_LEAST_ROOM = 16
"""Minimum tokens for text beside the prefix and the special tokens."""

_CUT_SLACK = 2
"""A text cut out of a longer one may be tokenized differently at its two ends."""


class Budget:
    """Counter of the encoder's input: prefix, header, text and special tokens."""

    def __init__(self, tokenizer: Tokenizer, *, max_tokens: int, size: int | None, prefix: str) -> None:
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.size = max_tokens if size is None else size
        self.prefix = prefix
        self._fixed = tokenizer.special_tokens + (tokenizer.count(prefix) if prefix else 0)
        if not 0 < self.size <= max_tokens:
            raise UsageError(
                f"a chunk size of {self.size} tokens is not between 1 and the encoder's {max_tokens}",
                hint=f"set the chunk size to at most {max_tokens}, or remove the setting",
            )
        if self.size - self._fixed < _LEAST_ROOM:
            raise UsageError(
                f"{self.size} tokens per chunk leave no room for text: "
                f"prefix and special tokens take {self._fixed} of them",
                hint=f"set the chunk size to at least {self._fixed + _LEAST_ROOM}",
            )

    @property
    def card(self) -> Mapping[str, Json]:
        return {"max_tokens": self.max_tokens, "size": self.size, "prefix": self.prefix}

    def tokens(self, embedded: str) -> int:
        """Return the tokens of the whole input of the encoder, counted on the final text."""
        return self.tokenizer.count(self.prefix + embedded) + self.tokenizer.special_tokens

    def room(self, header: str = "") -> int:
        """Return the tokens left for the text of a chunk with this header; at least 1."""
        taken = self._fixed + (self.tokenizer.count(header) if header else 0)
        return max(1, self.size - taken - _CUT_SLACK)

    def may_fit(self, characters: int) -> bool:
        """Return True if a text of this length could fit whole: few tokens are longer than eight characters."""
        return characters <= 8 * self.size

    def shorten(self, header: str) -> str:
        """Return the header, or its beginning if it would exceed its share of the chunk."""
        limit = self.size // _HEADER_SHARE
        if len(header) <= limit:
            return header
        spans = self.tokenizer.spans(header[: 16 * limit])
        if len(spans) <= limit and len(header) <= 16 * limit:
            return header
        kept = header[: spans[min(len(spans), limit) - 3][1]] if len(spans) > 3 else ""
        return kept and f"{kept}…{header[-1]}"


_BLOCK = 65_536
"""Characters that are tokenized at once, so that memory does not grow with the length of a line."""

_LONGEST = 200
"""Characters that count as one token where the tokenizer sees none or a single one: a giant word, a run of blanks."""

_JOINERS = {"\u200d", "\ufe0e", "\ufe0f"}
"""Zero-width joiner and variation selectors: the characters around them are one character to a reader."""

_SPACE = re.compile(r"\s+")
_WIDE_STOPS = "\u3002\uff01\uff1f"
_STOPS = re.compile(rf"(?P<stops>[.!?\u2026{_WIDE_STOPS}]+)[\"'\u201d\u2019\u00bb)\]]*(?P<space>\s*)|\n\s*")
"""A run of stops, or an end of line. A run is consumed whether or not white space follows it: retrying from each of its
stops would take minutes on a page of exclamation marks."""
_WIDE = re.compile(rf"[{_WIDE_STOPS}]+")


class TokenMap:
    """Character spans of the tokens of `text[start:]`; the text is tokenized once, block by block."""

    def __init__(self, tokenizer: Tokenizer, text: str, start: int = 0) -> None:
        self.text = text
        self._starts = array("q")
        self._ends = array("q")
        for first, last in _blocks(text, start):
            spans = tokenizer.spans(text[first:last])
            starts, ends = [first + begin for begin, _ in spans], [first + end for _, end in spans]
            bounds = [first, *starts, last]
            if max(map(sub, bounds[1:], bounds)) > _LONGEST:
                starts, ends = _evened(starts, ends, first, last)
            self._starts.extend(starts)
            self._ends.extend(ends)

    def index(self, position: int) -> int:
        """Return the first token that starts at or after `position`."""
        return bisect_left(self._starts, position)

    def count(self, start: int, end: int) -> int:
        """Return the number of tokens that start within `text[start:end]`."""
        return self.index(end) - self.index(start)

    def windows(self, start: int, end: int, *, room: int, overlap: int = 0) -> Iterator[tuple[int, int]]:
        """Yield spans of at most `room` tokens that cover `text[start:end]` and share about `overlap` tokens."""
        while self.count(start, end) > room:
            stop = self._stop(start, end, room)
            if stop >= end:
                break
            yield start, stop
            start = self.back(stop, start, overlap)
        yield start, end

    def back(self, stop: int, start: int, overlap: int) -> int:
        """Return the start of the window after `stop`: `overlap` tokens before it, at a word if possible."""
        if not overlap:
            return stop
        position = self._starts[max(self.index(stop) - overlap, self.index(start))]
        if position <= start:
            return stop
        if self.text[position - 1].isspace():
            return position
        word = _SPACE.search(self.text, position, stop)
        if word and word.end() < stop:
            return word.end()
        return position if self._between(position) else stop

    def middle(self, start: int, end: int) -> int:
        """Return a place to cut `text[start:end]` near its middle; `end` if no place is suitable."""
        half = self.count(start, end) // 2
        stop = self._stop(start, end, half) if half else end
        middle = (start + end) // 2
        if stop < end or middle == start:
            return stop
        near = range(middle, max(start, middle - 64), -1)  # the text is one token: a cut between two characters
        return next((position for position in near if not _joined(self.text, position)), middle)

    def _stop(self, start: int, end: int, room: int) -> int:
        """Return the best end of a window from `start`: after a sentence, a word, or at least between two tokens."""
        first = self.index(start)
        highest = self._starts[first + room]
        lowest = self._starts[first + max(1, room * 3 // 4)]
        words = (match.end() for match in _SPACE.finditer(self.text, lowest, highest))
        for ends in (_sentence_ends(self.text, lowest, highest), words):
            for stop in reversed(list(ends)):
                if start < stop <= highest and self._between(stop):
                    return stop
        before, behind = range(first + room, first, -1), range(first + room, self.index(end))
        starts = (self._starts[token] for token in chain(before, behind))
        return next((stop for stop in starts if stop > start and self._between(stop)), end)

    def _between(self, position: int) -> bool:
        """Return True if neither a token nor a combined character spans `position`."""
        token = self.index(position)
        return (token == 0 or self._ends[token - 1] <= position) and not _joined(self.text, position)


def _sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the ends of sentences: after stops and the following white space, after wide stops, after line ends."""
    for match in _STOPS.finditer(text, start, end):
        if match["stops"] is None or match["space"]:
            yield match.end()
        else:
            yield from (wide.end() for wide in _WIDE.finditer(text, *match.span("stops")))


def _evened(starts: Sequence[int], ends: Sequence[int], first: int, last: int) -> tuple[list[int], list[int]]:
    """Return the starts and ends of the tokens; a token or gap longer than `_LONGEST` characters is divided."""
    even: list[tuple[int, int]] = []
    for (begin, end), following in pairwise([(first, first), *zip(starts, ends, strict=True), (last, last)]):
        bounds = [*range(begin, following[0], _LONGEST), following[0]]
        if len(bounds) > 2:
            even.extend(pairwise(bounds))
        elif begin < end:
            even.append((begin, end))
    return [begin for begin, _ in even], [end for _, end in even]


def _blocks(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield spans of bounded size that cover `text[start:]`, divided before white space if possible."""
    while start < len(text):
        end = min(start + _BLOCK, len(text))
        if end < len(text):
            spaces = (place for place in range(end, (start + end) // 2, -1) if text[place].isspace())
            between = (place for place in range(end, end - 64, -1) if not _joined(text, place))
            end = next(chain(spaces, between), end)
        yield start, end
        start = end


def _joined(text: str, position: int) -> bool:
    """Return True if `position` is inside a combined character: combining marks, joined or tinted emoji."""
    if not 0 < position < len(text):
        return False
    left, right = text[position - 1], text[position]
    return (
        unicodedata.combining(right) != 0
        or right in _JOINERS
        or left == "\u200d"
        or "\U0001f3fb" <= right <= "\U0001f3ff"
    )
