"""Printed numbers of headings and list items, counted as Word does (ECMA-376, part 1, 17.9).

Counters belong to the abstract definition: several lists that share one continue it, unless they restart it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from retrieve_cli.documents.docx.markup import Node
from retrieve_cli.documents.docx.number_formats import LARGEST, printed
from retrieve_cli.documents.docx.styles import Style, Styles

LEVELS = 9
_LONGEST_TEXT = 60
"""Maximum characters of the text around the numbers of a label."""
_HOPS = 4
"""Most links from definitions to numbering styles that are followed."""
_PLACE = re.compile(r"%([1-9])")


class Label(NamedTuple):
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

    def __init__(self, root: Node | None, styles: Styles) -> None:
        nodes = root.children if root else []
        self._styles = styles
        self._abstract = {_id(node, "w:abstractNumId"): node for node in nodes if node.name == "w:abstractNum"}
        self._instances = {_id(node, "w:numId"): node for node in nodes if node.name == "w:num"}
        self._lists: dict[int, _List | None] = {}
        self._counts: dict[int, dict[int, int]] = {}
        self._restarted: set[tuple[int, int]] = set()

    def label(self, number: int | None, level: int | None, style: Style) -> Label | None:
        """Count a paragraph and return its label; None if it has none. `number` and `level` are its own properties."""
        identifier = style.number if number is None else number
        numbered = self._list(identifier) if identifier else None
        if identifier is None or numbered is None:
            return None
        if level is None and number is None:
            level = _linked_level(numbered, style.number_style)
        depth = (style.number_level or 0) if level is None else level
        depth = max(0, min(depth, LEVELS - 1))
        if depth not in numbered.levels:
            return None
        self._count(identifier, numbered, depth)
        return self._printed(numbered, depth)

    def _list(self, identifier: int) -> _List | None:
        if identifier not in self._lists:
            self._lists[identifier] = self._resolved(identifier)
        return self._lists[identifier]

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

    def _printed(self, numbered: _List, level: int) -> Label:
        own = numbered.levels[level]
        if own.form == "bullet":
            return Label("-", level)
        counts = self._counts[numbered.counter]

        def number(match: re.Match[str]) -> str:
            place = int(match[1]) - 1
            other = numbered.levels.get(place, own)
            form = "decimal" if own.decimal and other.form != "none" else other.form
            return printed(counts.get(place, self._start(numbered, place)), form)

        return Label(_PLACE.sub(number, own.text).strip(), level, own.space)


def _levels(definition: Node) -> dict[int, _Level]:
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


def _linked_level(numbered: _List, style: str) -> int | None:
    """Return the level of a list that belongs to a style."""
    return next((number for number, level in numbered.levels.items() if style and level.style == style), None)


def _id(node: Node, attribute: str) -> int:
    text = node.get(attribute)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1


def _bounded(number: int) -> int:
    return max(0, min(number, LARGEST))
