"""Marks that divide a text into sections: headings, listed titles, and the labels of a kind of text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from retrieve_cli.contracts import Json, Record
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.sources.chunking.blocks import TextBlock, text_blocks, titles, titles_of
from retrieve_cli.untrusted.markdown_text import structure

# Blanks and repetitions are bounded, above any real heading: otherwise a page of labels takes quadratic time.
_BLANKS = r"\s{0,9}"
_AND = rf"(?:{_BLANKS}(?:,|/|&|\band\b)){{1,3}}{_BLANKS}"
_NUMBER = r"(?:(?:\d{1,2}(?:\.\d{1,2}){0,5}|[IVX]{1,4})[.)]?[ \t]{1,9})?"


class Labels:
    """Names of the parts of a kind of text, with the forms of each name.

    Parts are recognised by Markdown headings, lines that contain nothing else ("2. Methods", "RESULTS"), and labels in
    the text ("Objective. …", "METHODS: …", "RESULTS We …", "**Results:** …").
    """

    def __init__(
        self, major: Mapping[str, str], minor: Mapping[str, str], *, least: int, numbered: bool = False
    ) -> None:
        """`major` and `minor` are regular expressions for the forms (in any case) by the name of the part. A text is of
        the kind if it has `least` different parts with major forms. With `numbered`, labels in the text may have
        numbers."""
        self._names = {
            name: "|".join(forms[name] for forms in (major, minor) if name in forms) for name in {**major, **minor}
        }
        self._major = "|".join(major.values())
        self._least = least
        self._before = _NUMBER if numbered else ""

    @cached_property
    def heading(self) -> re.Pattern[str]:
        """Pattern of a heading that names a part."""
        return re.compile(rf"{_NUMBER}(?P<label>{self._label}){_BLANKS}[:.]?", re.IGNORECASE)

    @cached_property
    def first(self) -> Mapping[str, re.Pattern[str]]:
        """Patterns of labels that start with a part's name, by part."""
        return {name: re.compile(rf"(?:{forms})(?:{_AND}|$)", re.IGNORECASE) for name, forms in self._names.items()}

    @cached_property
    def major(self) -> re.Pattern[str]:
        """Pattern of labels that begin with a major form."""
        return re.compile(rf"(?:{self._major})\b", re.IGNORECASE)

    @cached_property
    def mark(self) -> re.Pattern[str]:
        """Pattern of a label in the text."""
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
        """Return the first part that a heading or label names; None if it names none."""
        match = self.heading.fullmatch(heading.strip())
        return (
            next((name for name, first in self.first.items() if first.match(match["label"])), None) if match else None
        )

    def split(self, text: str, blocks: Sequence[TextBlock], *, name: str = "") -> list[TextBlock]:
        """Return the blocks, cut at labels, with the names of their parts; none if the text is not of the kind.

        A label directly after `name`, with which a catalog's text begins, applies from the name.
        """
        split: list[TextBlock] = []
        major: set[str] = set()
        above: tuple[str, ...] | None = None
        label: str | None = None
        for block in blocks:
            if block.path != above:
                above, label = block.path, None
                major.update(self._major_part(heading) for heading in block.path)
            starts = [(block.start, label)]
            for position, words in self._marks(text, block):
                major.add(self._major_part(words))
                opening = position - blocks[0].start <= len(name) + 4 and text.startswith(name, blocks[0].start)
                starts.append((block.start if opening else position, self.part(words)))
            label = starts[-1][1]
            ends = [position for position, _ in starts[1:]] + [block.end]
            kind = block.kind if len(starts) == 1 else "paragraph"
            for (start, inside), end in zip(starts, ends, strict=True):
                if start < end:
                    split.append(self._within(replace(block, start=start, end=end, kind=kind), inside))
        return split if len(major - {""}) >= self._least else []

    def _major_part(self, label: str) -> str:
        """Return the part that a label names in texts of any kind; else an empty text."""
        match = self.heading.fullmatch(label.strip())
        return (self.part(label) or "") if match and self.major.match(match["label"]) else ""

    def _marks(self, text: str, block: TextBlock) -> Iterator[tuple[int, str]]:
        """Yield position and words of each label in a block of prose."""
        if block.kind not in ("paragraph", "list"):
            return
        for match in self.mark.finditer(text, block.start, block.end):
            name = match["alone"] or match["bold"] or match["inline"]
            signed = match["inline"] is None or match["sign"]
            if name.isupper() or (signed and name[0].isupper()):
                yield match.start(), name

    def _within(self, block: TextBlock, label: str | None) -> TextBlock:
        """Return a block with the path of its parts, outermost first. A label in the text is added below the headings,
        or replaces the path if no heading names a part."""
        parts = [self.part(name) for name in block.path]
        outermost = next((level for level, name in enumerate(parts) if name), None)
        if outermost is None:
            own = (label,) if label else ()
            return replace(block, path=own or block.path, part=own)
        inside = (parts[outermost] or "", *block.path[outermost + 1 :])
        if label is not None and label != inside[0]:
            inside = (*inside, label)
        named = [*filter(None, parts), *((label,) if label else ())]
        own = tuple(name for index, name in enumerate(named) if index == 0 or name != named[index - 1])
        return replace(block, path=inside, part=own)


_IMRAD_MAJOR = {
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
"""Canonical names of the parts of a paper, with the forms of their headings (in any case). Two make a text IMRaD."""

_IMRAD_MINOR = {
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
"""Names that also head a part in journals, but have another meaning in other texts."""

_DRUG_MAJOR = {
    "Boxed Warning": r"boxed warnings?",
    "Indications and Usage": r"(?:therapeutic )?indications?(?: (?:and|&) usage)?",
    "Dosage and Administration": r"dosage(?: (?:and|&) administration)?|posology(?: and method of administration)?",
    "Dosage Forms and Strengths": r"dosage forms?(?: (?:and|&) strengths?)?",
    "Contraindications": r"contra-?indications?",
    "Warnings and Precautions": r"warnings (?:and|&) precautions|(?:general |special )?warnings?|precautions",
    "Adverse Reactions": r"adverse (?:reactions?|effects?)|undesirable effects|side effects",
    "Drug Interactions": r"drug interactions?",
    "Use in Specific Populations": r"use in specific populations",
    "Drug Abuse and Dependence": r"drug abuse (?:and|&) dependence",
    "Overdosage": r"overdos(?:age|e)",
    "Clinical Pharmacology": r"clinical pharmacology",
    "Nonclinical Toxicology": r"non-?clinical toxicology",
    "How Supplied/Storage and Handling": r"how supplied(?:/storage (?:and|&) handling)?",
    "Patient Counseling Information": r"patient counseling information",
}
"""Sections of a prescription drug's label (21 CFR 201.57(c), and their older names in 201.80), with their forms."""

_DRUG_MINOR = {
    "Drug Interactions": r"interactions",
    "Description": r"description",
    "Clinical Studies": r"clinical (?:studies|trials)",
    "References": r"references",
    "How Supplied/Storage and Handling": r"(?:storage|package label)(?: (?:and|&) handling)?",
    "Patient Counseling Information": r"information for patients|patient information",
}

LABELS = {
    "imrad": Labels(_IMRAD_MAJOR, _IMRAD_MINOR, least=2),
    "drug_label": Labels(_DRUG_MAJOR, _DRUG_MINOR, least=1, numbered=True),
}
"""Labels for each kind of text, by the kind's name in the configuration."""


class Markers(Frozen):
    """Marks of sections other than headings; the `section_titles` that a record lists always apply."""

    name: str = ""
    """Name of the labels."""
    labels: Labels | None = None
    titles: tuple[str, ...] = ()
    """Lines that act as headings."""

    @property
    def card(self) -> Mapping[str, Json]:
        """The parameters that change the chunks, if there are any."""
        markers = self.name or list(self.titles)
        return {"markers": markers} if markers else {}

    def blocks(self, record: Record) -> tuple[bool, list[TextBlock]]:
        """Return True if any block is marked by a label or a title, and the blocks of a record."""
        known = titles(*self.titles, *titles_of(record))
        name = f"{record.name}: "  # with which a catalog's text begins
        named = bool(known) and record.kind == "catalog" and record.text.startswith(name)
        start = len(name) if named else 0
        layout = record.layout or structure(record.text, start)[0]
        blocks = text_blocks(record.text, layout, start=start, titles=known)
        if known:  # sections with a listed title never share a chunk
            blocks = [replace(block, part=tuple(name for name in block.path if known.name(name))) for block in blocks]
            if blocks and record.kind == "catalog":
                blocks[0] = replace(blocks[0], start=0)
        parts = self.labels.split(record.text, blocks, name=record.name) if self.labels is not None else []
        return (True, parts) if parts else (any(block.part for block in blocks), blocks)
