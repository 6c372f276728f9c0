"""Text of a document with its blocks, pages and the places of its words; words divided at line ends are joined."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, chain

from retrieve_cli.contracts.layout import Block, Kind, Words
from retrieve_cli.sources.formats.pdf.headings import PageLines
from retrieve_cli.sources.formats.pdf.lines import Line
from retrieve_cli.sources.formats.pdf.page import PageText
from retrieve_cli.sources.formats.pdf.paragraphs import BULLET, Draft

_LETTERS = re.compile(r"[^\W\d_]+")
_HYPHENS = ("-", "\u2010", "\xad")


_WIDEST_INDENT = 40
"""Spaces at the beginning of a line of code, and between two of its words, at most."""


class PdfTextWriter:
    """Writes blocks one after the other, with a blank line between them."""

    def __init__(self, source: Sequence[PageText]) -> None:
        self.blocks: list[Block] = []
        self.length = 0
        self._pieces: list[str] = []
        self._source = source
        self._starts, self._ends, self._pages = array("I"), array("I"), array("I")
        self._boxes = array("f")
        self.extents: dict[int, tuple[int, int]] = {}
        """First character of each page with text, and the one after its last."""

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def _put(self, piece: str) -> None:
        self._pieces.append(piece)
        self.length += len(piece)

    @property
    def words(self) -> Words:
        return Words.of(self._starts, self._ends, self._pages, self._boxes)

    def write(self, draft: Draft) -> None:
        """Write a block."""
        start = self._begin()
        if draft.kind == "table":
            item, line = draft.lines[0]
            self._table(item.page, line.table)
        elif draft.kind == "code":
            self._code(draft)
        else:
            self._flow(draft)
        self._end(start, draft.kind, draft.level)

    def write_plain(self, page: int, paragraphs: Iterable[str]) -> None:
        """Write paragraphs of a page whose words have no places."""
        for paragraph in paragraphs:
            start = self._begin()
            self._put(paragraph)
            self._extend(page, start)
            self._end(start, "paragraph", 0)

    def _begin(self) -> int:
        if self.length:
            self._put("\n\n")
        return self.length

    def _end(self, start: int, kind: Kind, level: int) -> None:
        if self.length > start:
            self.blocks.append(Block(start, self.length, kind, level))

    def _extend(self, page: int, start: int) -> None:
        """Add the text written from `start` on to the text of a page."""
        self.extents[page] = (self.extents.get(page, (start, 0))[0], self.length)

    def _word(self, page: PageText, number: int, text: str) -> None:
        """Write a word of a page, as `text`."""
        self._starts.append(self.length)
        self._put(text)
        self._ends.append(self.length)
        self._pages.append(page.index)
        self._boxes.frombytes(page.words.boxes[number].tobytes())
        self._extend(page.index, self.length - len(text))

    def _run(self, page: PageText, first: int, last: int) -> None:
        """Write the words from `first` to `last - 1` of a page with spaces between them."""
        if first >= last:
            return
        texts = page.words.texts[first:last]
        start = self.length
        starts = list(accumulate([len(text) + 1 for text in texts], initial=start))
        self._starts.extend(starts[:-1])
        self._ends.extend([following - 1 for following in starts[1:]])
        self._put(" ".join(texts))
        self._pages.extend([page.index] * (last - first))
        self._boxes.frombytes(page.words.boxes[first:last].tobytes())
        self._extend(page.index, start)

    def _flow(self, draft: Draft) -> None:
        """Write lines as one paragraph, or as items on separate lines."""
        begins = set(draft.items)
        outer = draft.lines[0][1].x0
        hyphenated = False
        for number, (item, line) in enumerate(draft.lines):
            tokens = line.tokens()
            if number in begins:
                self._put("\n" * (number > 0))
                tokens = self._mark(item.page, line, tokens, outer)
                hyphenated = False
            elif number and not hyphenated:
                self._put(" ")
            last = number + 1 == len(draft.lines) or number + 1 in begins
            following = "" if last else draft.lines[number + 1][0].words(draft.lines[number + 1][1])[0]
            hyphenated = self._line(item.page, tokens, following)

    def _mark(self, page: PageText, line: Line, tokens: list[list[int]], outer: float) -> list[list[int]]:
        """Write the mark of a list item; return the other tokens of its line."""
        first = "".join(page.words.texts[number] for number in tokens[0])
        inset = line.x0 - outer
        self._put("  " if 0.8 * line.size < inset < line.right - line.left and not line.rtl else "")
        if first[:-1].isdigit():
            return tokens
        self._word(page, tokens[0][0], "-")
        rest = BULLET.sub("", first) if BULLET.match(first) else first
        if rest not in {"", "-", "–", "—", "*", "+"}:
            self._put(" ")
            self._word(page, tokens[0][0], rest)
        self._put(" " * (len(tokens) > 1))
        return tokens[1:]

    def _line(self, page: PageText, tokens: Sequence[Sequence[int]], following: str) -> bool:
        """Write the words of a line; return True if the last one goes on in the next line."""
        if not tokens:
            return False
        *others, last = tokens
        first = tokens[0][0]
        if others == [[number] for number in range(first, first + len(others))]:
            self._run(page, first, first + len(others))
        else:
            for position, token in enumerate(others):
                self._put(" " * (position > 0))
                for number in token:
                    self._word(page, number, page.words.texts[number])
        self._put(" " * bool(others))
        for number in last[:-1]:
            self._word(page, number, page.words.texts[number])
        text = page.words.texts[last[-1]]
        hyphenated = text.endswith(_HYPHENS) and len(text) > 1 and (text[-1] == "\xad" or text[-2].isalnum())
        goes_on = bool(following) and hyphenated
        if goes_on and self._loses_hyphen(text, following):
            text = text[:-1]
        self._word(page, last[-1], text.replace("\xad", "-"))
        return goes_on

    def _loses_hyphen(self, word: str, following: str) -> bool:
        """Return True if the hyphen of a word is only there because its line ends."""
        if word[-1] == "\xad":
            return True
        stem, rest = _LETTERS.match(word[-2::-1]), _LETTERS.match(following)
        if not (stem and rest and rest[0][0].islower()):
            return False
        halves = stem[0][::-1].casefold(), rest[0].casefold()
        return "".join(halves) in self._stems or self._stems[halves[0]] < 1 or self._stems[halves[1]] < 2

    @cached_property
    def _stems(self) -> Counter[str]:
        """Counts of the words of the whole document, without marks and divided words' first parts."""
        texts = chain.from_iterable(page.words.texts for page in self._source)
        whole = (text.casefold() for text in texts if not text.endswith(_HYPHENS))
        return Counter(chain.from_iterable(map(_LETTERS.findall, whole)))

    def _code(self, draft: Draft) -> None:
        """Write lines with the indentation and the gaps that they have on the page."""
        left = min(line.x0 for _, line in draft.lines)
        for number, (item, line) in enumerate(draft.lines):
            self._put("\n" * (number > 0))
            tokens = line.tokens()
            texts, boxes = item.page.words.texts, item.page.words.boxes
            width = _advance(item, line)
            end = left
            for token in tokens:
                begin, stop = _extent(boxes[token[0]].tolist(), boxes[token[-1]].tolist(), line)
                spaces = round((begin - end) / width) if width > 0 else 1
                self._put(" " * min(max(spaces, int(end != left)), _WIDEST_INDENT))
                for one in token:
                    self._word(item.page, one, texts[one])
                end = stop

    def _table(self, page: PageText, number: int) -> None:
        rows = page.tables[number].rows
        width = max(map(len, rows), default=0)
        for count, row in enumerate(rows):
            self._put("\n" * (count > 0) + "|")
            for cell in (*row, *[()] * (width - len(row))):
                self._put(" ")
                for word in cell:
                    self._word(page, word, page.words.texts[word].replace("|", r"\|"))
                    self._put(" ")
                self._put("|")
            if not count:
                self._put("\n|" + "---|" * width)


def _advance(item: PageLines, line: Line) -> float:
    """Return the width of a character of a monospaced line."""
    longest = max(line.segments, key=lambda segment: segment.chars)
    texts = item.page.words.texts[longest.first : longest.last]
    characters = sum(map(len, texts)) + len(texts) - 1
    return (longest.x1 - longest.x0) / max(characters, 1)


def _extent(first: Sequence[float], last: Sequence[float], line: Line) -> tuple[float, float]:
    """Return where a word begins and ends in the direction of its line."""
    begin, end = {
        0: (first[0], last[2]),
        90: (first[1], last[3]),
        180: (-first[2], -last[0]),
        270: (-first[3], -last[1]),
    }.get(line.turn, (first[0], last[2]))
    return begin, end
