"""Sentence boundaries by rules for all languages: stops that end no abbreviation, and the stops of other scripts."""

from __future__ import annotations

import re

_STOP = re.compile(
    r"(?:(?P<run>[.!?…]++[\"'”’»)\]*_`]{0,9})|[。！？｡]++[」』”’）》〉】]{0,9}|[।॥။៕؟۔։።]++[”’»)]{0,9})(?P<space>\s*+)"
)
"""A run of stops is read whether or not white space follows: from each of its stops it would take quadratic time."""
_WORD = re.compile(r"[^\s(\[\"'“‘«]{1,12}$")
_ABBREVIATIONS = frozenset(
    "mr mrs ms messrs dr prof gen gov rep sen rev adm capt lt col sgt st mt jr sr inc ltd co corp bros vs cf etc "
    "al ca approx fig figs eq eqs ref refs sec ch vol no nos pp ed eds ph.d jan feb mar "
    "apr jun jul aug sep sept oct nov dec bzw usw evtl ggf nr abb tab vgl bspw p.ex av boul sig "
    "sra srta pág núm".split()
)


def sentence_starts(text: str) -> list[int]:
    """Return the character positions at which the sentences of `text` begin; the first is 0."""
    found = (stop for stop in _STOP.finditer(text) if stop["run"] is None or stop["space"])
    stops = (stop for stop in found if stop.end() < len(text))
    return [0, *(stop.end() for stop in stops if not _goes_on(text, stop))]


def _goes_on(text: str, stop: re.Match[str]) -> bool:
    """Return True if a full stop ends an abbreviation, initials, or the number of an item. The case of the next word is
    no sign: there are texts without capitals."""
    word = _WORD.search(text, max(0, stop.start() - 12), stop.start())
    if word is None or stop[0].rstrip() != ".":
        return False
    if word[0].isdigit():
        return not text[text.rfind("\n", 0, word.start()) + 1 : word.start()].strip()
    initials = all(len(letter) == 1 and letter.isalpha() for letter in word[0].split("."))
    return initials or word[0].lower() in _ABBREVIATIONS
