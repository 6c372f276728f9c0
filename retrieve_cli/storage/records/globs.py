"""Glob patterns as regular expressions whose time is linear in the text, however many ways there are to match.

After a star the leftmost place where the next piece fits is as good as any other, and no other is tried: the pieces
are atomic groups, so that a pattern of many stars from the network cannot keep a server busy.
"""

from __future__ import annotations

import re


def text_glob(pattern: str) -> re.Pattern[str]:
    """Return a pattern for `fullmatch`: `*` matches any characters, `?` matches one."""
    return re.compile(_piece(pattern, "."), re.DOTALL)


def path_glob(pattern: str) -> re.Pattern[str]:
    """Return a pattern for paths: `*` and `?` stay between slashes; `**` as a part matches any number of parts.

    `guides/**` is everything below `guides`; `**/a.md` is `a.md` in any folder, also the topmost one.
    """
    first, *rest = _runs(pattern)
    if not rest:
        return re.compile("/".join(first), re.DOTALL)
    *inner, last = rest
    # Parts are separated by slashes alone, so that the lazy repetition has one way to reach each of them.
    skipped = "".join("(?>(?:[^/]*/)*?" + "".join(part + "/" for part in run) + ")" for run in inner if run)
    tail = "(?:[^/]*/)*" + "/".join(last) if last else ".+"
    return re.compile("".join(part + "/" for part in first) + skipped + tail, re.DOTALL)


def literal_prefix(pattern: str) -> str:
    """Return the text that every match starts with."""
    return re.split(r"[*?]", pattern, maxsplit=1)[0]


def _runs(pattern: str) -> list[list[str]]:
    """Return the parts of a path pattern, as regular expressions, between its `**`."""
    runs: list[list[str]] = [[]]
    for part in pattern.split("/"):
        if part == "**":
            runs.append([])
        else:
            runs[-1].append(_piece(part, "[^/]"))
    return runs


def _piece(pattern: str, char: str) -> str:
    """Return a pattern without `**`, whose wildcards match `char`."""
    first, *rest = ("".join(char if c == "?" else re.escape(c) for c in part) for part in re.split(r"\*+", pattern))
    if not rest:
        return first
    *inner, last = rest
    return first + "".join(f"(?>{char}*?{part})" for part in inner) + f"{char}*{last}"
