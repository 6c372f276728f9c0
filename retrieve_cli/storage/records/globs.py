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
    return _path_pattern(pattern, _PLAIN)


_PLAIN = re.compile(r"(?P<stars>\*+)|(?P<one>.)", re.DOTALL)
_RICH = re.compile(
    r"(?P<stars>\*+)|\\(?P<escaped>.)|\[(?P<not>[!^]?)(?P<members>\]?(?:[^\]\\]|\\.){0,60}+)\]|(?P<open>[\\\[])|(?P<one>.)",
    re.DOTALL,
)
_MEMBER = re.compile(r"\\?(?P<low>.)(?:-\\?(?P<high>.))?", re.DOTALL)


def _path_pattern(pattern: str, tokens: re.Pattern[str]) -> re.Pattern[str]:
    runs: list[list[str]] = [[]]  # the parts between the `**`, as regular expressions
    for part in pattern.split("/"):
        if part == "**":
            runs.append([])
        else:
            runs[-1].append(_piece(part, "[^/]", tokens))
    first, *rest = runs
    if not rest:
        return re.compile("/".join(first), re.DOTALL)
    *inner, last = rest
    # Parts are separated by slashes alone, so that the lazy repetition has one way to reach each of them.
    skipped = "".join("(?>(?:[^/]*/)*?" + "".join(part + "/" for part in run) + ")" for run in inner if run)
    tail = "(?:[^/]*/)*" + "/".join(last) if last else ".+"
    return re.compile("".join(part + "/" for part in first) + skipped + tail, re.DOTALL)


def ignore_glob(pattern: str) -> re.Pattern[str]:
    """Return a pattern for paths as `path_glob`, in the language of gitignore: also with classes (`[a-z]`, `[!a]`), and
    `\\` before a character that means itself. Raises: ValueError: a class or an escape has no end."""
    return _path_pattern(pattern, _RICH)


def literal_prefix(pattern: str) -> str:
    """Return the text that every match starts with."""
    return re.split(r"[*?]", pattern, maxsplit=1)[0]


def _piece(pattern: str, char: str, tokens: re.Pattern[str] = _PLAIN) -> str:
    """Return a pattern without `**`, whose wildcards match `char`."""
    first, *rest = _fixed(pattern, char, tokens)
    if not rest:
        return first
    *inner, last = rest
    return first + "".join(f"(?>{char}*?{part})" for part in inner) + f"{char}*{last}"


def _fixed(pattern: str, char: str, tokens: re.Pattern[str]) -> list[str]:
    """Return the pieces between the stars. Raises: ValueError: a class or an escape has no end."""
    parts = [""]
    for token in tokens.finditer(pattern):
        if token["stars"]:
            parts.append("")
        elif token["one"]:
            parts[-1] += char if token["one"] == "?" else re.escape(token["one"])
        elif token["escaped"]:
            parts[-1] += re.escape(token["escaped"])
        elif token["open"]:
            raise ValueError(f"{token['open']} has no end")
        else:
            pairs = [(member["low"], member["high"] or member["low"]) for member in _MEMBER.finditer(token["members"])]
            members = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in pairs if low <= high)
            inverse = "^" if token["not"] else ""
            parts[-1] += f"[{inverse}{members}]" if members else char if inverse else "(?!)"
    return parts
