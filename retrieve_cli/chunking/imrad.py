"""Cuts scientific texts at Introduction, Methods, Results and Discussion, by whatever marks these have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from retrieve_cli.chunking.blocks import Block, scan
from retrieve_cli.chunking.coherence import Coherence
from retrieve_cli.chunking.section import SectionChunker
from retrieve_cli.contracts import Chunk, Json, Record, Tokenizer

_MAJOR = {
    "Abstract": r"(?:structured |graphical )?abstract",
    "Introduction": r"introduction|background",
    "Objective": r"(?:(?:study|research|main|primary|specific) )?(?:objectives?|aims?|purpose)"
    r"(?: of (?:the|this) study)?",
    "Methods": r"(?:(?:online|review|experimental|statistical|star|study|research) )?(?:methods?|methodology)"
    r"|study design|experimental (?:section|procedures?|design)",
    "Results": r"(?:(?:main|key|principal|primary|recent) )?(?:results?|findings?)",
    "Discussion": r"(?:general )?discussion",
    "Conclusion": r"(?:main )?conclusions?|concluding remarks",
}
"""Canonical name of each part, and how its headings read (case aside). Two of these parts make a text IMRaD."""

_MINOR = {
    "Abstract": r"(?:executive )?summary|synopsis",
    "Introduction": r"rationale|context|importance",
    "Objective": r"goals?|hypothes[ie]s|(?:research )?questions?",
    "Methods": r"materials?|patients?|subjects?|participants?|settings?|interventions?|exposures?|measurements?"
    r"|(?:research |trial )?design|study (?:population|selection)|(?:statistical )?analys[ie]s|procedures?|approach"
    r"|data (?:sources?|collection|extraction)|search strategy|selection criteria|measures"
    r"|(?:(?:main|primary) )?outcomes?(?: measures?)?",
    "Results": r"data synthesis|observations?",
    "Discussion": r"interpretation|comments?|(?:strengths and )?limitations?",
    "Conclusion": r"relevance|significance|implications?",
    "References": r"references|bibliography|literature cited|acknowledge?ments?",
}
"""What also heads a part in journals, but means nothing of the kind in other texts."""

# Blanks and repetitions have limits that no heading reaches: without them a page of labels takes a square of its time.
_BLANKS = r"\s{0,9}"
_AND = rf"(?:{_BLANKS}(?:,|/|&|\band\b)){{1,3}}{_BLANKS}"
_PARTS = {
    name: "|".join(names[name] for names in (_MAJOR, _MINOR) if name in names) for name in (*_MAJOR, "References")
}
_ANY = "|".join(_PARTS.values())
_LABEL = rf"(?:{_ANY})(?:{_AND}(?:{_ANY})){{0,5}}"
_NUMBER = r"(?:(?:\d{1,2}(?:\.\d{1,2}){0,5}|[IVX]{1,4})[.)]?[ \t]{1,9})?"
_HEADING = re.compile(rf"{_NUMBER}(?P<label>{_LABEL}){_BLANKS}[:.]?", re.IGNORECASE)
_FIRST = [(name, re.compile(rf"(?:{names})(?:{_AND}|$)", re.IGNORECASE)) for name, names in _PARTS.items()]
_MAJOR_FIRST = re.compile(rf"(?:{'|'.join(_MAJOR.values())})\b", re.IGNORECASE)

_ALONE = rf"^[ \t]*+{_NUMBER}(?P<alone>{_LABEL})[ \t]*+(?:[:.][ \t]*+)?\r?$"
_OPENING = r"(?:^[ \t]*+|(?<=[.!?:)\]\"”][ \n]))"
_BOLD = rf"(?:\*\*|__)(?P<bold>{_LABEL})[ \t]{{0,9}}[:.]?(?:\*\*|__)"
_INLINE = rf"(?P<inline>{_LABEL})(?P<sign>:|\.(?=\s)|\s?—|(?=\s))"
_MARK = re.compile(rf"{_ALONE}|{_OPENING}(?:{_BOLD}|{_INLINE})", re.IGNORECASE | re.MULTILINE)


class ImradChunker:
    """One part of a paper or abstract a chunk where it fits; texts without such parts are cut by sections.

    Parts are told by markdown headings, lines that hold nothing else ("2. Methods", "RESULTS"), and labels in the
    text ("Objective. …", "METHODS: …", "RESULTS We …", "**Results:** …"). `section` is the canonical name of the
    part, and the headings below it.

    Raises:
        UsageError: `size` leaves no room for text.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_tokens: int,
        size: int | None = None,
        prefix: str = "",
        language: str = "en",
        coherence: Coherence | None = None,
    ) -> None:
        self._sections = SectionChunker(
            tokenizer, max_tokens=max_tokens, size=size, prefix=prefix, language=language, coherence=coherence
        )

    @property
    def card(self) -> Mapping[str, Json]:
        """The parameters that change the chunks."""
        return {**self._sections.card, "strategy": "imrad"}

    def chunk(self, record: Record) -> Iterator[Chunk]:
        """The parts of the record in order; a catalog's record stays whole where it fits."""
        single = self._sections.whole(record) if record.kind == "catalog" else None
        if single:
            return iter((single,))
        blocks = labelled(record.text, scan(record.text, record.body_start), name=record.name)
        return self._sections.cut(record, blocks) if blocks else self._sections.chunk(record)


def part(heading: str) -> str | None:
    """The canonical name of the first part that a heading or label names; None where it names none."""
    found = _HEADING.fullmatch(heading.strip())
    return next((name for name, first in _FIRST if first.match(found["label"])), None) if found else None


def labelled(text: str, blocks: Sequence[Block], *, name: str = "") -> list[Block]:
    """The blocks, parted at labels and with the names of their parts as paths; none where the text is not IMRaD.

    A label right behind `name`, with which a catalog's text begins, counts from the name.
    """
    done: list[Block] = []
    major: set[str] = set()
    above: tuple[str, ...] | None = None
    label: str | None = None
    for block in blocks:
        if block.path != above:
            above, label = block.path, None
            major.update(_major(heading) for heading in block.path)
        starts = [(block.start, label)]
        for at, words in _marks(text, block):
            major.add(_major(words))
            opening = at - blocks[0].start <= len(name) + 4 and text.startswith(name, blocks[0].start)
            starts.append((block.start if opening else at, part(words)))
        label = starts[-1][1]
        ends = [at for at, _ in starts[1:]] + [block.end]
        kind = block.kind if len(starts) == 1 else "paragraph"
        for (start, inside), end in zip(starts, ends, strict=True):
            if start < end:
                done.append(Block(start, end, kind, _path(block.path, inside)))
    return done if len(major - {""}) > 1 else []


def _major(label: str) -> str:
    """The part that a label names, where its name means that in any text; else nothing."""
    found = _HEADING.fullmatch(label.strip())
    return (part(label) or "") if found and _MAJOR_FIRST.match(found["label"]) else ""


def _marks(text: str, block: Block) -> Iterator[tuple[int, str]]:
    """Where labels begin in a block of prose, and their words."""
    if block.kind not in ("paragraph", "list"):
        return
    for found in _MARK.finditer(text, block.start, block.end):
        name = found["alone"] or found["bold"] or found["inline"]
        signed = found["inline"] is None or found["sign"]
        if name.isupper() or (signed and name[0].isupper()):
            yield found.start(), name


def _path(path: tuple[str, ...], label: str | None) -> tuple[str, ...]:
    """The path from the outermost part inwards; a label in the text goes below it, or stands for it."""
    parts = [part(name) for name in path]
    outermost = next((level for level, name in enumerate(parts) if name), None)
    if outermost is None:
        return (label,) if label else path
    inside = (parts[outermost] or "", *path[outermost + 1 :])
    return inside if label is None or label == inside[0] else (*inside, label)
