"""Text of a document with its blocks, pages and the places of its words; words divided at line ends are joined."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate

from retrieve_cli.contracts.layout import Block, Words
from retrieve_cli.sources.formats.pdf.lines import Line
from retrieve_cli.sources.formats.pdf.page import PageText
from retrieve_cli.sources.formats.pdf.paragraphs import BULLET, Draft

_LETTERS = re.compile(r"[^\W\d_]+")
_HYPHENS = ("-", "\u2010", "\xad")
_ADVANCE = 0.6  # width of the characters of a monospaced font, in font sizes
_WIDEST_INDENT = 40  # spaces at the beginning of a line of code, and between two of its words, at most


class PdfTextWriter:
    """Writes blocks one after the other, with a blank line between them."""

    def __init__(self, source: Sequence[PageText]) -> None:
        self.blocks: list[Block] = []
        self._places = array("I"), array("I"), array("I"), array("f")  # starts, ends, pages, boxes of words
        self.extents: dict[int, tuple[int, int]] = {}
        """First character of each page with text, and the one after its last."""
        self._source = source
        self._pieces: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def words(self) -> Words:
        return Words.of(*self._places)

    def write(self, draft: Draft) -> None:
        """Write a block."""
        start = self._begin()
        if draft.kind == "table":
            self._table(draft.lines[0][0].page, draft.lines[0][1].table)
        elif draft.kind == "code":
            self._code(draft)
        else:
            self._flow(draft)
        if self._length > start:
            self.blocks.append(Block(start, self._length, draft.kind, draft.level))

    def write_plain(self, page: int, paragraphs: Iterable[str]) -> None:
        """Write paragraphs of a page whose words have no places."""
        for paragraph in paragraphs:
            start = self._begin()
            self._put(paragraph, page)
            self.blocks.append(Block(start, self._length, "paragraph"))

    def _begin(self) -> int:
        self._put("\n\n" if self._length else "")
        return self._length

    def _put(self, piece: str, page: int = 0) -> None:
        """Write text; of a page if one is given."""
        start, self._length = self._length, self._length + len(piece)
        self._pieces.append(piece)
        if page:
            self.extents[page] = (self.extents.get(page, (start, 0))[0], self._length)

    def _word(self, page: PageText, number: int, text: str) -> None:
        """Write a word of a page, as `text`."""
        starts, ends, pages, boxes = self._places
        starts.append(self._length)
        self._put(text, page.index)
        ends.append(self._length)
        pages.append(page.index)
        boxes.frombytes(page.words.boxes[number].tobytes())

    def _run(self, page: PageText, words: Sequence[int], texts: Sequence[str]) -> None:
        """Write words of a page as texts with spaces between them."""
        starts, ends, pages, boxes = self._places
        bounds = list(accumulate([len(text) + 1 for text in texts], initial=self._length))
        starts.extend(bounds[:-1])
        ends.extend([bound - 1 for bound in bounds[1:]])
        pages.extend([page.index] * len(texts))
        boxes.frombytes(page.words.boxes.take(words, axis=0).tobytes() if texts else b"")
        self._put(" ".join(texts), page.index if texts else 0)

    def _flow(self, draft: Draft) -> None:
        """Write lines as one paragraph, or as items on separate lines."""
        begins = {*draft.items, len(draft.lines)}
        outer = draft.lines[0][1].x0
        hyphenated = False
        for number, (item, line) in enumerate(draft.lines):
            words = line.words()
            if number in draft.items:
                self._put("\n" * (number > 0))
                words = self._mark(item.page, line, words, outer)
            elif number and not hyphenated:
                self._put(" ")
            following = "" if number + 1 in begins else draft.lines[number + 1][0].words(draft.lines[number + 1][1])[0]
            hyphenated = self._line(item.page, words, following)

    def _mark(self, page: PageText, line: Line, words: list[int], outer: float) -> list[int]:
        """Write the mark of a list item; return the other words of its line."""
        first = page.words.texts[words[0]]
        inset = line.x0 - outer
        self._put("  " if 0.8 * line.size < inset < line.right - line.left and not line.rtl else "")
        if first[:-1].isdigit():
            return words
        self._word(page, words[0], "-")
        rest = BULLET.sub("", first) if BULLET.match(first) else first
        if rest not in {"", "-", "–", "—", "*", "+"}:
            self._put(" ")
            self._word(page, words[0], rest)
        self._put(" " * (len(words) > 1))
        return words[1:]

    def _line(self, page: PageText, words: Sequence[int], following: str) -> bool:
        """Write the words of a line; return True if the last one goes on in the next line."""
        if not words:
            return False
        *others, last = words
        texts = page.words.texts
        self._run(page, others, [texts[number] for number in others])
        self._put(" " * bool(others))
        text = texts[last]
        hyphenated = text.endswith(_HYPHENS) and len(text) > 1 and (text[-1] == "\xad" or text[-2].isalnum())
        goes_on = bool(following) and hyphenated
        if goes_on and self._loses_hyphen(text, following):
            text = text[:-1]
        self._word(page, last, text.replace("\xad", "-"))
        return goes_on

    def _loses_hyphen(self, word: str, following: str) -> bool:
        """Return True if the hyphen of a word is only there because its line ends: not both halves are words."""
        stem, rest = _LETTERS.match(word[-2::-1]), _LETTERS.match(following)
        if word[-1] == "\xad" or not (stem and rest and rest[0][0].islower()):
            return word[-1] == "\xad"
        begin, end = stem[0][::-1].casefold(), rest[0].casefold()
        return begin + end in self._stems or self._stems[begin] < 1 or self._stems[end] < 2  # one is this half

    @cached_property
    def _stems(self) -> Counter[str]:
        """Counts of the words of the whole document, without marks and the first halves of divided words."""
        counts: Counter[str] = Counter()
        for page in self._source:
            whole = " ".join([text for text in page.words.texts if text[-1] not in _HYPHENS])
            counts.update(_LETTERS.findall(whole.casefold()))
        return counts

    def _code(self, draft: Draft) -> None:
        """Write lines with the indentation and the gaps that they have on the page."""
        left = min(line.x0 for _, line in draft.lines)
        for number, (item, line) in enumerate(draft.lines):
            self._put("\n" * (number > 0))
            texts, boxes = item.page.words.texts, item.page.boxes
            width = _ADVANCE * line.size
            end = left
            for word in line.words():
                spaces = round((float(boxes[word][0]) - end) / width)
                self._put(" " * min(max(spaces, int(end != left)), _WIDEST_INDENT))
                self._word(item.page, word, texts[word])
                end = float(boxes[word][2])

    def _table(self, page: PageText, number: int) -> None:
        rows = page.tables[number].rows
        for count, row in enumerate(rows):
            self._put("\n" * (count > 0) + "|")
            for cell in row:
                self._put(" ")
                for word in cell:
                    self._word(page, word, page.words.texts[word].replace("|", r"\|"))
                    self._put(" ")
                self._put("|")
            self._put("" if count else "\n|" + "---|" * len(row))
