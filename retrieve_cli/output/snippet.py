"""The sentence of a result that tells most about a query: never tokens of the index, never the middle of a list."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from retrieve_cli.errors import printable
from retrieve_cli.output.plain_text import ShownText, extracted_pieces, one_line, pieces
from retrieve_cli.output.styled_lines import ELLIPSIS, cut
from retrieve_cli.search.answer import Answer, Result

Spans = list[tuple[int, int]]

ROOM = 160
"""Characters of a snippet that is not laid out for a terminal."""
_TAIL = 24
"""Characters of a next sentence that are not worth showing."""
_SHOWN = 400
"""Characters that a snippet has before it is cut, if no more are asked for."""
_DESCRIBED = 20_000
"""Characters of a description that are looked at."""
_END = re.compile(r"[.!?][\"')\]]{0,2} (?=[^ a-z])")
"""End of a sentence in ASCII. The classes of other characters take a cold query a millisecond to compile."""
_ABBREVIATIONS = frozenset(
    "e.g i.e cf vs fig eq sec no dr mr mrs ms prof st al approx resp incl ca vol pp ed ch inc".split()
)
_ENDS = (".", "!", "?", ":", ";", "…", "。")


def _ends(text: str) -> Iterator[re.Match[str]]:
    """Yield the ends of sentences, in any script."""
    if text.isascii():
        return _END.finditer(text)
    return re.finditer(r"[.!?…][\"')\]’”]{0,2} (?=[^ a-z])|[。！？]", text)


class Snippet(NamedTuple):
    """A line of text, and the places of the words in it that match."""

    text: str
    marks: Spans

    def cut(self, most: int) -> Snippet:
        """Return a snippet of at most `most` cells, cut behind a word or a sentence that ends nearby."""
        text = cut(self.text, most)
        if text != self.text:
            shown = text.removesuffix(ELLIPSIS).rstrip()
            ends = [found.start() + 1 for found in _ends(f"{shown} A")]
            text = shown[: ends[-1]] if ends and ends[-1] > max(len(shown) - _TAIL, 0) else text
        return Snippet(text, [(begin, stop) for begin, stop in self.marks if stop <= len(text.removesuffix(ELLIPSIS))])


def snippet(answer: Answer, result: Result, *, room: int = ROOM) -> Snippet:
    """Return the text to show for a result, from the start of the sentence with the most different matched words within
    `room` characters on; empty if it adds nothing to the name of the result."""
    record = result.record
    catalog = record["kind"] == "catalog"
    if result.place is None:
        found = pieces(_described(result), markdown=record["kind"] != "text")
    else:
        paths = [*result.chunk.get("sections", ()), result.chunk["section"] or ""]
        headings = {one_line(heading) for path in paths for heading in str(path).split(" > ")}
        found = extracted_pieces(result.text, headings)
    name = one_line(str(record["name"]))
    if catalog and not found:  # a record without a description: its fields, each from its start
        lines = (one_line(line) for line in result.text[:_DESCRIBED].split("\n"))
        found = [ShownText(line, "row") for line in lines if line and line != name]
    if found == [ShownText(name, "prose")]:
        return Snippet("", [])
    cut_before = not catalog and int(result.chunk["index"]) > 0
    return best(found, answer.matches, room=room, cut_before=cut_before)


def _described(result: Result) -> str:
    """The text to choose from: of a document the passage; of a record its description, as far as the passage has it."""
    if result.record["kind"] != "catalog":
        return result.text
    name, description = str(result.record["name"]), str(result.record["description"] or "")
    offset = len(name) + 2 if name and description else 0
    span = result.context
    start, end = (span.start, span.end) if span else (int(result.chunk["start"]), int(result.chunk["end"]))
    part = description[max(start - offset, 0) : max(end - offset, 0)]
    return part if part.strip() and part in result.text else description[:_DESCRIBED]


def best(
    found: Sequence[ShownText], matches: Callable[[str], Spans], *, room: int, cut_before: bool = False
) -> Snippet:
    """Return the start of the best sentence, item or row, and what follows it; code only if no other piece matches.

    The best one is the earliest one with the most different matched words within `room` characters. With `cut_before`,
    the first sentence may have lost its beginning.
    """
    first: Snippet | None = None
    for kinds in (("prose", "row"), ("code",), ("heading",)):
        text, spans = _joined([piece for piece in found if piece.kind in kinds])
        if cut_before and len(spans) > 1 and text[0].islower():
            spans = spans[1:]
        if not spans or (first is not None and kinds == ("heading",)):
            continue
        marks = matches(text)
        counts = [_words(text, marks, start, min(start + room, end)) for start, end in spans]
        chosen = _part(text, marks, *spans[counts.index(max(counts))], most=max(_SHOWN, room))
        if any(counts):
            return chosen
        first = first or chosen
    return first or Snippet("", [])


def _joined(found: Sequence[ShownText]) -> tuple[str, Spans]:
    """Pieces as one text; where each sentence, row or line of code starts, and where a snippet from there has to end:
    with the row or the line, or with the prose."""
    parts: list[str] = []
    starts: list[tuple[int, int]] = []
    ends: list[int] = []
    offset = 0
    for place, piece in enumerate(found):
        if parts:
            parts.append(" " if parts[-1].endswith(_ENDS) else " · ")
            offset += len(parts[-1])
        starts += [(offset + start, place) for start in _sentences(piece.text, piece.kind)]
        parts.append(piece.text)
        offset += len(piece.text)
        ends.append(offset)
    for place in range(len(found) - 2, -1, -1):
        if found[place].kind == found[place + 1].kind == "prose":
            ends[place] = ends[place + 1]
    return "".join(parts), [(start, ends[place]) for start, place in starts]


def _sentences(text: str, kind: str) -> Iterator[int]:
    yield 0
    if kind != "prose":
        return
    for found in _ends(text):
        word = text[max(found.start() - 12, 0) : found.start()].rpartition(" ")[2].lstrip("([\"'").casefold()
        initial = len(word) == 1 and word.isalpha()
        if text[found.start()] != "." or not (initial or word in _ABBREVIATIONS):
            yield found.end() + 2 * text.startswith(("- ", "* ", "• "), found.end())


def _words(text: str, marks: Spans, start: int, end: int) -> int:
    return len({text[begin:stop].casefold() for begin, stop in marks if start <= begin and stop <= end})


def _part(text: str, marks: Spans, start: int, end: int, *, most: int) -> Snippet:
    """A stretch of the text, of at most so many characters, as a snippet that can be printed."""
    stop = min(end, start + most)
    if stop < end:
        stop = text.rfind(" ", start + most // 2, stop) if text.rfind(" ", start + most // 2, stop) > 0 else stop
    line = printable(text[start:stop]) + (f" {ELLIPSIS}" if stop < end else "")
    return Snippet(line, [(begin - start, after - start) for begin, after in marks if start <= begin and after <= stop])
