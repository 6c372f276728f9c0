"""Glob patterns as regular expressions whose time grows with the text, never with the ways to match it.

After a star the leftmost place where the next piece fits is as good as any other, so that it is never tried again:
the pieces are atomic groups, and a pattern of many stars from the network cannot keep a server busy.
"""

from __future__ import annotations

import re


def text_glob(pattern: str) -> re.Pattern[str]:
    """`*` stands for any characters, `?` for one; to be used with `fullmatch`."""
    return re.compile(_piece(pattern, "."), re.DOTALL)


def path_glob(pattern: str) -> re.Pattern[str]:
    """`*` and `?` stay within a part between slashes; `**` as a part of its own stands for any number of parts.

    `guides/**` is all below `guides`; `**/a.md` is `a.md` in any folder, the topmost too.
    """
    first, *rest = _runs(pattern)
    if not rest:
        return re.compile("/".join(first), re.DOTALL)
    *inner, last = rest
    # Parts are parted by slashes alone, so that the lazy repetition has one way to reach each of them.
    skipped = "".join("(?>(?:[^/]*/)*?" + "".join(part + "/" for part in run) + ")" for run in inner if run)
    tail = "(?:[^/]*/)*" + "/".join(last) if last else ".+"
    return re.compile("".join(part + "/" for part in first) + skipped + tail, re.DOTALL)


def literal_prefix(pattern: str) -> str:
    """What every match starts with."""
    return re.split(r"[*?]", pattern, maxsplit=1)[0]


def _runs(pattern: str) -> list[list[str]]:
    """The parts of a path pattern, as regular expressions, between its `**`."""
    runs: list[list[str]] = [[]]
    for part in pattern.split("/"):
        if part == "**":
            runs.append([])
        else:
            runs[-1].append(_piece(part, "[^/]"))
    return runs


def _piece(pattern: str, char: str) -> str:
    """A pattern without `**`, where `char` is what wildcards stand for."""
    first, *rest = ("".join(char if c == "?" else re.escape(c) for c in part) for part in re.split(r"\*+", pattern))
    if not rest:
        return first
    *inner, last = rest
    return first + "".join(f"(?>{char}*?{part})" for part in inner) + f"{char}*{last}"
