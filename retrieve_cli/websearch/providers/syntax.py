"""Questions in the syntax of literature servers: quotes, brackets and operators stay, and always balance.

People who search the literature write `"base editing"[ti] AND (human OR mouse)`: AND, OR and NOT in capitals, quotes
and parentheses keep the meaning that they have at the server. A quote or parenthesis without its partner, and an
operator at an end, have none and are removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_STRAIGHT = str.maketrans("“”„«»", '"""""')
_BRACKET = re.compile(r"[()\[\]{}\\]")
_LEADING, _TRAILING = ("AND", "OR"), ("AND", "OR", "NOT")


def balanced(text: str, outside: Callable[[str], str]) -> str:
    """Return a question whose quotes and parentheses balance, on one line; empty if no word remains.

    `outside` removes what else the server would read as syntax; it gets each stretch of text that is not in quotes.
    """
    parts = _stretches(text.translate(_STRAIGHT))
    written = "".join(
        f'"{" ".join(_BRACKET.sub(" ", part).split())}"' if place % 2 else outside(part)
        for place, part in enumerate(parts)
    )
    words = _paired(written).split()
    while words and words[0] in _LEADING:
        words.pop(0)
    while words and words[-1] in _TRAILING:
        words.pop()
    line = " ".join(words)
    return line if any(char.isalnum() for char in line) else ""


def _stretches(text: str) -> list[str]:
    """Return the stretches outside and inside quotes in turn, the first one outside; a last quote without a partner and
    quotes around nothing are spaces."""
    parts = text.split('"')
    if len(parts) % 2 == 0:
        parts[-2:] = [f"{parts[-2]} {parts[-1]}"]
    kept = [parts[0]]
    for inside, after in zip(parts[1::2], parts[2::2], strict=True):
        if any(char.isalnum() for char in inside):
            kept += [inside, after]
        else:
            kept[-1] += f" {after}"
    return kept


def _paired(text: str) -> str:
    """Return a text with spaces for parentheses that have no partner, or nothing between them."""
    kept, opened = list(text), list[tuple[int, bool]]()
    for place, char in enumerate(text):
        if char == "(":
            opened.append((place, False))
        elif char == ")" and (not opened or not opened[-1][1]):
            kept[place] = " "
            if opened:
                kept[opened.pop()[0]] = " "
        elif char == ")":
            opened.pop()
            opened[-1:] = [(start, True) for start, _ in opened[-1:]]
        elif not char.isspace() and opened:
            opened[-1] = (opened[-1][0], True)
    for start, _ in opened:
        kept[start] = " "
    return "".join(kept)
