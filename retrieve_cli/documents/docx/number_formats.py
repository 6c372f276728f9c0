"""Printed forms of numbers: pages, lists, headings and notes (ECMA-376, part 1, 17.18.59)."""

from __future__ import annotations

from collections.abc import Callable

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
    rest = number
    for value, letters in _ROMAN:
        numeral += letters * (rest // value)
        rest %= value
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
