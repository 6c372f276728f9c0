"""Abbreviations that the records themselves define, `computed tomography (CT)`, as rules of synonyms.

Schwartz and Hearst 2003, A simple algorithm for identifying abbreviation definitions in biomedical text: the letters of
the short form are looked for from the end of the words before it, and its first letter begins one of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import printable
from retrieve_cli.storage.generation import Generation, live_rows

_SHORT = re.compile(r"\(\s?([^\W_][\w\-./&+]{1,9})(?=[,;)])")
_BEFORE = 200
"""Characters in front of a short form that may be its long form."""
_END = re.compile(r"[(),;:\[\]\n]|\.\s")
_WORDS = re.compile(r"\w+")


def abbreviations(generation: Generation, *, most: int) -> dict[str, Json]:
    """Return the abbreviations that texts define, the most frequent first, at most `most` of them (0: all), and how
    many there are. A short form has the long form that most records give it."""
    counts: Counter[tuple[str, str]] = Counter()
    spellings: dict[tuple[str, str], tuple[str, str]] = {}
    for row in live_rows(generation.live, len(generation.records)):
        for short, long in dict(definitions(generation.record_text(row))).items():
            key = (short, " ".join(_WORDS.findall(long.lower())))
            counts[key] += 1
            spellings.setdefault(key, (short, long))
    best: dict[str, tuple[str, str]] = {}
    for key, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        best.setdefault(key[0], key)
    listed = list(best.values())
    shown = [
        {"short": spellings[key][0], "long": spellings[key][1], "records": counts[key]}
        for key in (listed[:most] if most else listed)
    ]
    return {"abbreviations": len(listed), "synonyms": shown}


def definitions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the short forms that a text defines in parentheses, each with its long form."""
    for match in _SHORT.finditer(text):
        short = match[1]
        if any(map(str.isupper, short)):
            before = text[max(0, match.start() - _BEFORE) : match.start()]
            start = max((end.end() for end in _END.finditer(before)), default=0)
            most = min(len(short) + 5, 2 * len(short))
            if long := _long_form(short, " ".join(before[start:].split()[-most:])):
                yield short, long


def _long_form(short: str, words: str) -> str:
    """Return the shortest end of some words that has the letters of a short form in order; empty without one."""
    at = len(words) - 1
    for place in range(len(short) - 1, -1, -1):
        letter = short[place].lower()
        if not letter.isalnum():
            continue
        while at >= 0 and (words[at].lower() != letter or (place == 0 and at > 0 and words[at - 1].isalnum())):
            at -= 1
        if at < 0:
            return ""
        at -= 1
    long = words[words.rfind(" ", 0, at + 1) + 1 :].strip(" \"'“”")
    return "" if len(long) <= len(short) or short.lower() in long.lower().split() else long


def lines(view: Mapping[str, Any]) -> Iterator[str]:
    """Yield a rule for each abbreviation, and how many there are as a comment: the lines of a file for
    `synonyms.file`."""
    for each in view["synonyms"]:
        yield printable(f"{each['short']}, {each['long']}  # {figures.count(each['records'], 'record')}")
    shown = f", {len(view['synonyms'])} shown" if len(view["synonyms"]) < view["abbreviations"] else ""
    yield f"# {figures.count(view['abbreviations'], 'abbreviation')} that records define{shown}"
