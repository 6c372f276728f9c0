"""Parts that texts of one kind have under well-known names, and where they begin, by whatever marks these have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from retrieve_cli.chunking.blocks import Block

# Blanks and repetitions have limits that no heading reaches: without them a page of labels takes a square of its time.
_BLANKS = r"\s{0,9}"
_AND = rf"(?:{_BLANKS}(?:,|/|&|\band\b)){{1,3}}{_BLANKS}"
_NUMBER = r"(?:(?:\d{1,2}(?:\.\d{1,2}){0,5}|[IVX]{1,4})[.)]?[ \t]{1,9})?"


class Labels:
    """The names of the parts of a kind of text, and the forms that each name has.

    Parts are told by markdown headings, lines that hold nothing else ("2. Methods", "RESULTS"), and labels in the
    text ("Objective. …", "METHODS: …", "RESULTS We …", "**Results:** …").
    """

    def __init__(
        self, major: Mapping[str, str], minor: Mapping[str, str], *, least: int, numbered: bool = False
    ) -> None:
        """`major` and `minor` are regular expressions of the forms, case aside, by the name of the part; `least`
        different parts by major forms make a text one of the kind. With `numbered`, labels in the text may have
        numbers."""
        self._names = {
            name: "|".join(forms[name] for forms in (major, minor) if name in forms) for name in {**major, **minor}
        }
        self._major = "|".join(major.values())
        self._least = least
        self._before = _NUMBER if numbered else ""

    @cached_property
    def heading(self) -> re.Pattern[str]:
        """A heading that names a part."""
        return re.compile(rf"{_NUMBER}(?P<label>{self._label}){_BLANKS}[:.]?", re.IGNORECASE)

    @cached_property
    def first(self) -> Mapping[str, re.Pattern[str]]:
        """By part, labels that name it before any other."""
        return {name: re.compile(rf"(?:{forms})(?:{_AND}|$)", re.IGNORECASE) for name, forms in self._names.items()}

    @cached_property
    def major(self) -> re.Pattern[str]:
        """Labels that begin with a major form."""
        return re.compile(rf"(?:{self._major})\b", re.IGNORECASE)

    @cached_property
    def mark(self) -> re.Pattern[str]:
        """A label in the text."""
        alone = rf"^[ \t]*+{_NUMBER}(?P<alone>{self._label})[ \t]*+(?:[:.][ \t]*+)?\r?$"
        opening = rf"(?:^[ \t]*+|(?<=[.!?:)\]\"”][ \n])){self._before}"
        bold = rf"(?:\*\*|__)(?P<bold>{self._label})[ \t]{{0,9}}[:.]?(?:\*\*|__)"
        inline = rf"(?P<inline>{self._label})(?P<sign>:|\.(?=\s)|\s?—|(?=\s))"
        return re.compile(rf"{alone}|{opening}(?:{bold}|{inline})", re.IGNORECASE | re.MULTILINE)

    @property
    def _label(self) -> str:
        names = "|".join(self._names.values())
        return rf"(?:{names})(?:{_AND}(?:{names})){{0,5}}"

    def part(self, heading: str) -> str | None:
        """The name of the first part that a heading or label names; None where it names none."""
        found = self.heading.fullmatch(heading.strip())
        return (
            next((name for name, first in self.first.items() if first.match(found["label"])), None) if found else None
        )

    def parted(self, text: str, blocks: Sequence[Block], *, name: str = "") -> list[Block]:
        """The blocks, cut at labels, with the names of their parts; none where the text is not of the kind.

        A label right behind `name`, with which a catalog's text begins, counts from the name.
        """
        done: list[Block] = []
        major: set[str] = set()
        above: tuple[str, ...] | None = None
        label: str | None = None
        for block in blocks:
            if block.path != above:
                above, label = block.path, None
                major.update(self._major_part(heading) for heading in block.path)
            starts = [(block.start, label)]
            for at, words in self._marks(text, block):
                major.add(self._major_part(words))
                opening = at - blocks[0].start <= len(name) + 4 and text.startswith(name, blocks[0].start)
                starts.append((block.start if opening else at, self.part(words)))
            label = starts[-1][1]
            ends = [at for at, _ in starts[1:]] + [block.end]
            kind = block.kind if len(starts) == 1 else "paragraph"
            for (start, inside), end in zip(starts, ends, strict=True):
                if start < end:
                    done.append(self._within(Block(start, end, kind, block.path), inside))
        return done if len(major - {""}) >= self._least else []

    def _major_part(self, label: str) -> str:
        """The part that a label names, where its name means that in any text; else nothing."""
        found = self.heading.fullmatch(label.strip())
        return (self.part(label) or "") if found and self.major.match(found["label"]) else ""

    def _marks(self, text: str, block: Block) -> Iterator[tuple[int, str]]:
        """Labels in a block of prose: their places and words."""
        if block.kind not in ("paragraph", "list"):
            return
        for found in self.mark.finditer(text, block.start, block.end):
            name = found["alone"] or found["bold"] or found["inline"]
            signed = found["inline"] is None or found["sign"]
            if name.isupper() or (signed and name[0].isupper()):
                yield found.start(), name

    def _within(self, block: Block, label: str | None) -> Block:
        """A block under headings, with its path from the outermost part inwards; a label in the text goes below it, or
        stands for it."""
        parts = [self.part(name) for name in block.path]
        outermost = next((level for level, name in enumerate(parts) if name), None)
        if outermost is None:
            own = (label,) if label else ()
            return Block(block.start, block.end, block.kind, own or block.path, own)
        inside = (parts[outermost] or "", *block.path[outermost + 1 :])
        if label is not None and label != inside[0]:
            inside = (*inside, label)
        named = [*filter(None, parts), *((label,) if label else ())]
        own = tuple(name for at, name in enumerate(named) if at == 0 or name != named[at - 1])
        return Block(block.start, block.end, block.kind, inside, own)
