"""Printed labels of pages: `/PageLabels` of the file, else the page numbers of running heads and feet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from retrieve_cli.documents.pdf.page_text import PageText

_LONGEST = 40
_NUMBER = re.compile(r"(?<![\w.])\d{1,5}(?![\w.])")
_ROMAN = re.compile(r"(?=.)(?:c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
_DIGITS = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_FEWEST = 2
"""Pages whose numbers agree, at least."""

Numeral = tuple[str, int]
"""Kind (`1`, `i` or `I`) and value of a number."""


def labels_of(pages: Sequence[PageText], own: Sequence[str]) -> list[str]:
    """Return the label of each page; empty strings if there are none. `own` are the labels of the file."""
    if any(own):
        return [label[:_LONGEST] for label in own]
    numerals = {page.index: _numerals(page.numbers) for page in pages}
    offsets: Counter[tuple[str, int]] = Counter()
    for index, known in numerals.items():
        offsets.update({(kind, value - index) for kind, value in known})
    labels = [""] * len(pages)
    for (kind, offset), count in sorted(offsets.items(), key=lambda item: (-item[1], item[0])):
        if count < _FEWEST:
            break
        having = {index for index, known in numerals.items() if (kind, index + offset) in known}
        first, last = min(having), max(having)
        if 2 * count <= last - first:
            continue  # by chance: a sequence has a number on at least every second page
        for index in range(first, last + 1):
            # A page without a number between two with numbers counts; one with another number does not.
            if not labels[index - 1] and (index in having or not numerals[index]):
                labels[index - 1] = _written(kind, index + offset)
    return labels


def _numerals(texts: Sequence[str]) -> set[Numeral]:
    numerals: set[Numeral] = set()
    for text in texts:
        if _ROMAN.fullmatch(text.lower()):
            numerals.add(("i" if text.islower() else "I", _value(text.lower())))
        numerals |= {("1", int(number)) for number in _NUMBER.findall(text)}
    return numerals


def _value(roman: str) -> int:
    digits = [_DIGITS[char] for char in roman]
    return sum(-digit if digit < max(digits[place:]) else digit for place, digit in enumerate(digits))


def _written(kind: str, value: int) -> str:
    if kind == "1":
        return str(value)
    roman = ""
    for size, mark in (
        (100, "c"),
        (90, "xc"),
        (50, "l"),
        (40, "xl"),
        (10, "x"),
        (9, "ix"),
        (5, "v"),
        (4, "iv"),
        (1, "i"),
    ):
        roman += mark * (value // size)
        value %= size
    return roman if kind == "i" else roman.upper()
