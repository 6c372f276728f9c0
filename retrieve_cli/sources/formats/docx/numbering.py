"""Printed numbers of headings, list items and notes, counted as Word does (ECMA-376, part 1, 17.9 and 17.18.59).

Counters belong to the abstract definition: several lists that share one continue it, unless they restart it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from retrieve_cli.sources.formats.docx.markup import XmlNode, whole
from retrieve_cli.sources.formats.docx.styles import Style, Styles

LARGEST = 32_767
"""Largest number of a list or a page in Word."""
_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_LATIN = "abcdefghijklmnopqrstuvwxyz"
_RUSSIAN = "абвгдежзиклмнопрстуфхцчшщыэюя"
_MOST_LETTERS = 10
"""Maximum repetitions of a letter; higher numbers are printed in digits."""


def printed(number: int, form: str) -> str:
    """Return a number in a form of Word, such as `lowerRoman`; in digits if the form is not known."""
    number = max(0, min(number, LARGEST))
    write = _FORMS.get(form)
    return write(number) if write else str(number)


def roman(number: int) -> str:
    """Return a Roman numeral in lower case; `0` for zero, which has none."""
    numeral = ""
    for value, letters in _ROMAN:
        times, number = divmod(number, value)
        numeral += letters * times
    return numeral or "0"


def _letters(number: int, alphabet: str) -> str:
    """Return a letter, and after the last one each letter doubled (aa, bb), as Word counts."""
    if not 0 < number <= _MOST_LETTERS * len(alphabet):
        return str(number)
    times, letter = divmod(number - 1, len(alphabet))
    return alphabet[letter] * (times + 1)


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


_FORMS: dict[str, Callable[[int], str]] = {
    "decimalZero": "{:02}".format,
    "lowerRoman": roman,
    "upperRoman": lambda number: roman(number).upper(),
    "lowerLetter": lambda number: _letters(number, _LATIN),
    "upperLetter": lambda number: _letters(number, _LATIN).upper(),
    "russianLower": lambda number: _letters(number, _RUSSIAN),
    "russianUpper": lambda number: _letters(number, _RUSSIAN).upper(),
    "ordinal": _ordinal,
    "numberInDash": "- {} -".format,
    "none": lambda _: "",
}


LEVELS = 9
_LONGEST_TEXT = 60
"""Maximum characters of the text around the numbers of a label."""
_HOPS = 4
"""Most links from definitions to numbering styles that are followed."""
_PLACE = re.compile(r"%([1-9])")


class ListLabel(NamedTuple):
    """The printed label of a paragraph."""

    text: str
    """`1.2`, `(a)`, or `-` for a bullet."""
    level: int
    """Depth of its list, from 0."""
    space: bool = True
    """True if space follows it."""


class _Level(NamedTuple):
    start: int
    form: str
    text: str
    restart: int | None
    """Number of the level, from 1, that restarts this one; 0 for none, None for any higher level."""
    space: bool
    decimal: bool
    """True if all numbers of the label are printed in digits (`isLgl`)."""
    style: str


class _List(NamedTuple):
    """A numbering instance: the definition that counts for it, and its own starts."""

    counter: int
    levels: dict[int, _Level]
    starts: dict[int, int]


class Numbering:
    """Lists of a document with the state of their counters."""

    def __init__(self, root: XmlNode | None, styles: Styles) -> None:
        nodes = root.children if root else []
        self._styles = styles
        self._abstract = {_id(node, "w:abstractNumId"): node for node in nodes if node.name == "w:abstractNum"}
        self._instances = {_id(node, "w:numId"): node for node in nodes if node.name == "w:num"}
        self._lists: dict[int, _List | None] = {}
        self._counts: dict[int, dict[int, int]] = {}
        self._restarted: set[tuple[int, int]] = set()

    def label(self, number: int | None, level: int | None, style: Style) -> ListLabel | None:
        """Count a paragraph and return its label; None if it has none. `number` and `level` are its own properties."""
        identifier = style.number if number is None else number
        if not identifier:
            return None
        if identifier not in self._lists:
            self._lists[identifier] = self._resolved(identifier)
        numbered = self._lists[identifier]
        if numbered is None:
            return None
        if level is None and number is None and style.number_style:
            linked = (place for place, own in numbered.levels.items() if own.style == style.number_style)
            level = next(linked, None)
        depth = (style.number_level or 0) if level is None else level
        depth = max(0, min(depth, LEVELS - 1))
        if depth not in numbered.levels:
            return None
        self._count(identifier, numbered, depth)
        return self._printed(numbered, depth)

    def _resolved(self, identifier: int) -> _List | None:
        """Return a list with the levels of its definition, which may be another list's by a numbering style."""
        node = self._instances.get(identifier)
        overrides = [] if node is None else [child for child in node.children if child.name == "w:lvlOverride"]
        for _ in range(_HOPS):
            counter = None if node is None else node.number("w:abstractNumId")
            definition = None if counter is None else self._abstract.get(counter)
            if counter is None or definition is None:
                return None
            linked = definition.value("w:numStyleLink")
            if not linked:
                levels = _levels(definition)
                starts: dict[int, int] = {}
                for override in overrides:
                    levels |= _levels(override)
                    start = override.number("w:startOverride")
                    if start is not None:
                        starts[_id(override, "w:ilvl")] = _bounded(start)
                return _List(counter, levels, starts)
            node = self._instances.get(self._styles.style(linked).number or 0)
        return None

    def _count(self, identifier: int, numbered: _List, level: int) -> None:
        counts = self._counts.setdefault(numbered.counter, {})
        first = level in numbered.starts and (identifier, level) not in self._restarted
        if first or level not in counts:
            self._restarted.add((identifier, level))
            counts[level] = self._start(numbered, level)
        else:
            counts[level] = min(counts[level] + 1, LARGEST)
        for deeper in range(level + 1, LEVELS):
            restart = numbered.levels[deeper].restart if deeper in numbered.levels else None
            if restart is None or level < restart:
                counts.pop(deeper, None)

    @staticmethod
    def _start(numbered: _List, level: int) -> int:
        own = numbered.levels.get(level)
        return numbered.starts.get(level, own.start if own else 1)

    def _printed(self, numbered: _List, level: int) -> ListLabel:
        own = numbered.levels[level]
        if own.form == "bullet":
            return ListLabel("-", level)
        counts = self._counts[numbered.counter]

        def number(match: re.Match[str]) -> str:
            place = int(match[1]) - 1
            other = numbered.levels.get(place, own)
            form = "decimal" if own.decimal and other.form != "none" else other.form
            return printed(counts.get(place, self._start(numbered, place)), form)

        return ListLabel(_PLACE.sub(number, own.text).strip(), level, own.space)


def _levels(definition: XmlNode) -> dict[int, _Level]:
    """Return the levels that a definition, or the override of a level, contains."""
    levels = {}
    for node in definition.children:
        number = _id(node, "w:ilvl")
        if node.name == "w:lvl" and 0 <= number < LEVELS:
            start = node.number("w:start")
            levels[number] = _Level(
                start=_bounded(0 if start is None else start),
                form=node.value("w:numFmt") or "decimal",
                text=(node.value("w:lvlText") or "")[:_LONGEST_TEXT],
                restart=node.number("w:lvlRestart"),
                space=node.value("w:suff") != "nothing",
                decimal=bool(node.flag("w:isLgl")),
                style=node.value("w:pStyle") or "",
            )
    return levels


def _id(node: XmlNode, attribute: str) -> int:
    text = node.get(attribute)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1


def _bounded(number: int) -> int:
    return max(0, min(number, LARGEST))


_NOTE_FORMS = {"footnotes": "decimal", "endnotes": "lowerRoman"}
"""Forms of numbers that Word uses by default."""


class Note(NamedTuple):
    """A reference to a footnote or an endnote."""

    kind: str
    """`footnotes` or `endnotes`."""
    id: int
    label: str


class DocxNotes:
    """Notes by kind and id, each of which is given once."""

    def __init__(self, roots: Mapping[str, XmlNode], settings: XmlNode | None) -> None:
        """`roots` has the parts `footnotes` and `endnotes`, if there are any."""
        self._notes = {
            kind: {whole(note.get("w:id")): note for note in root.children if note.name in ("w:footnote", "w:endnote")}
            for kind, root in roots.items()
        }
        self._settings = {kind: settings.child(f"w:{kind[:-1]}Pr") if settings else None for kind in _NOTE_FORMS}
        self._counts: Counter[str] = Counter()
        self._given: set[tuple[str, int]] = set()

    def label(self, kind: str, reference: XmlNode) -> str:
        """Return the printed number of a reference, and count it; empty if the note does not exist."""
        if whole(reference.get("w:id")) not in self._notes.get(kind, {}):
            return ""
        settings = self._settings[kind]
        start = settings.number("w:numStart") if settings else None
        form = settings.value("w:numFmt") if settings else None
        self._counts[kind] += 1
        return printed((1 if start is None else start) + self._counts[kind] - 1, form or _NOTE_FORMS[kind])

    def text(self, note: Note) -> XmlNode | None:
        """Return the content of a note, the first time that it is asked for."""
        if (note.kind, note.id) in self._given:
            return None
        self._given.add((note.kind, note.id))
        return self._notes[note.kind].get(note.id)
