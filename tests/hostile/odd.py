"""Values that programs stumble over: strings, numbers, JSON values, and bytes that were nearly right."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

ESCAPES = ("\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x1b[2J\x1b[H", "\x9b31m", "\x9d0;x\x9c", "\x08\x08\x08",
           "\r\x1b[K", "\x7f", "a\rb", "\x0c", "\x0b", "\x1bP1$q\x1b\\", "\x85", "\x00")  # fmt: skip
BIDI = ("\u202eevil\u202c", "\u2066a\u2069", "\u202a\u202b", "\u2067x", "\u2068y", "\u202d1")
CELLS = ("=cmd|'/C calc'!A0", "+1+cmd|' /C x'!A0", "-2+3", "@SUM(A1)", '=HYPERLINK("http://x")', "\t=1+1")
MARKUP = ("[bold]x[/bold]", "[/]", "[link=file:///x]y[/link]", "<script>alert(1)</script>", "{{7*7}}", "{0}", "%s%n",
          "$(id)", "`id`", "';--", "](javascript:x)", "|a|b|", "```", "<!--", "&#x1b;", "\\x1b[0m")  # fmt: skip
NAMES = ("../../etc/passwd", "..", ".", "/etc/passwd", "~", "con", "a/b", "a\\b", "-rf", "--help", "*", "?", " ", "a b",
         "a\nb", "%2e%2e%2f", "x" * 300)  # fmt: skip
UNICODE = ("\ud800", "\udfff x", "a\ud800\udc00b", "\ufeffbom", "\ufffd", "\u0301" * 200, "e\u0301",
           "\U0001f469\u200d\U0001f52c", "\u0130", "\u1e9e\xdf", "\u2028x\u2029", "\u00a0", "\u3000", "\u200b",
           "\uffff", "\U0010ffff", "\ufdfa" * 50, "\u0e33", "\u4e2d\u6587\u3002", "\u0661\u0662", "\u00b2", "\u216b",
           "\uff11", "\u0660d", "\u1d7db")  # fmt: skip
TAGS = ("[EXCLUDE:a]", "[EXCLUDE:", "[FILTER:license=MIT]", "[FILTER:dims>=]", "[INCLUDE:b|]", "[FORMAT:CT]",
        "[EXCLUDE:\x1b[0m]", "[FILTER:a=\"b\"\"c]", "[[EXCLUDE:a]]", "[exclude : ||]",
        "[FILTER:dims>=3" + " " * 500 + "x]", "[FILTER:path=**/**/*]")  # fmt: skip
NUMBERS = ("0", "-0", "1e999", "-1e999", "NaN", "Infinity", "0x" + "f" * 400, "9" * 5000, "1" + "0" * 400, "1_000",
           "1:1:1:1", "0o17", "1e-400", "0.1", "-1", "2147483648", "9223372036854775808", "18446744073709551616",
           "1.7976931348623157e308", "\u0663", "1d", "3 - D", "٣")  # fmt: skip
DATES = ("2020-99-99", "0000-00-00", "9999-12-31T23:59:60Z", "2001-01-01T00:00:00+99:99", "1970-01-01", "12:30:45")
WORDS = (*"segment lungs brain MRI cells format:DICOM dims tool the CT C++ nii.gz a".split(), "")
SPECIAL: tuple[Any, ...] = (("fifo",), ("link", "/dev/zero"), ("link", "/dev/tty"), ("folder",), ("sparse",
    3 << 30), ("link", "gone"),
                                ("link", "/proc/self/mem"), ("link", "/dev/stdin"), b"")  # fmt: skip
"""Things that may be in the place of a file: contents of a try."""
POOLS = (ESCAPES, BIDI, CELLS, MARKUP, NAMES, UNICODE, TAGS, NUMBERS, DATES, WORDS)
LONG = (*" \n!a0-=#|`[({\"'.,", "a ", "\u00e9", "\u4e2d", "a.b ", "\t", "x-", "> ")


def string(dice: Random) -> str:
    """Return an odd string; now and then one that is long."""
    roll = dice.random()
    if roll < 0.6:
        return dice.choice(dice.choice(POOLS))
    if roll < 0.75:
        return dice.choice(LONG) * dice.choice((50, 1000, 20_000, 100_000))
    if roll < 0.9:
        return " ".join(dice.choice(dice.choice(POOLS)) for _ in range(dice.randint(2, 5)))
    return "".join(
        chr(dice.choice((dice.randrange(128), dice.randrange(0x3000), dice.randrange(0x110000))))
        for _ in range(dice.randint(1, 40))
    )


def short(dice: Random) -> str:
    """Return an odd string of at most 200 characters."""
    return string(dice)[:200]


def utf8(dice: Random) -> str:
    """Return an odd string that UTF-8 can hold."""
    return string(dice).encode("utf-8", "replace").decode()


def number(dice: Random) -> Any:
    """Return an odd number."""
    return dice.choice(
        (0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308, 1e-320, float("inf"), float("nan"), True, 3)
    )


def value(dice: Random, depth: int = 0) -> Any:
    """Return an odd JSON value; it may hold what JSON cannot (infinities), which `json.dumps` writes all the same."""
    roll = dice.random()
    if roll < 0.45 or depth > 3:
        return string(dice) if roll < 0.3 else short(dice)
    if roll < 0.6:
        return number(dice)
    if roll < 0.7:
        return dice.choice((None, True, False, [], {}, [[]], [None], {"": None}, [{}], ""))
    if roll < 0.85:
        return [value(dice, depth + 1) for _ in range(dice.choice((1, 2, 3, 30)))]
    return {short(dice): value(dice, depth + 1) for _ in range(dice.choice((1, 2, 5)))}


def with_odd(dice: Random, item: object) -> object:
    """Return the value with an odd one somewhere in it."""
    if dice.random() < 0.25 or not isinstance(item, (dict, list)) or not item:
        return value(dice)
    if isinstance(item, list):
        place = dice.randrange(len(item))
        return [with_odd(dice, part) if number == place else part for number, part in enumerate(item)]
    chosen = dice.choice(sorted(item))
    return {key: with_odd(dice, part) if key == chosen else part for key, part in item.items()}


def nested(dice: Random) -> str:
    """Return JSON that goes deep, or pretends to."""
    depth = dice.choice((50, 990, 1100, 20_000, 200_000))
    opening, closing = dice.choice((("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")))
    return opening * depth + dice.choice(("1", "", '"x"')) + closing * (depth if dice.random() < 0.7 else 0)


def json_text(dice: Random, item: Any) -> bytes:
    """Return the JSON of a value, now and then in a way that nobody would write it."""
    roll = dice.random()
    text = json.dumps(item, ensure_ascii=roll < 0.5)
    if 0.9 < roll < 0.95:
        text = text.replace('":', '"  :\t', 1)
    return text.encode("utf-8", "surrogatepass" if roll > 0.97 else "replace")


def mutated(dice: Random, content: bytes, times: int = 3) -> bytes:
    """Return the bytes after some changes."""
    for _ in range(dice.randint(1, times)):
        content = dice.choice(_MUTATIONS)(dice, content)
    return content


def piece(dice: Random) -> bytes:
    """Return bytes to put somewhere."""
    roll = dice.random()
    if roll < 0.5:
        return string(dice).encode("utf-8", "replace")
    if roll < 0.75:
        return dice.choice((b"\0", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\r", b"\r\n",
            b"\n\n", b"---\n", b"\x1a",
                            b"\xef\xbb\xbf", b"\x80", b"\xc2\x9b31m", b"{", b"}", b"[", b"]", b'"', b"\\", b":", b"- ",
                            b"&a", b"*a", b"!!"))  # fmt: skip
    return dice.randbytes(dice.randint(1, 30))


def _insert(dice: Random, content: bytes) -> bytes:
    place = dice.randint(0, len(content))
    return content[:place] + piece(dice) + content[place:]


def _delete(dice: Random, content: bytes) -> bytes:
    place = dice.randint(0, len(content))
    return content[:place] + content[place + dice.choice((1, 2, 10, 100)) :]


def _flip(dice: Random, content: bytes) -> bytes:
    if not content:
        return b"\0"
    place = dice.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << dice.randrange(8))]) + content[place + 1 :]


def _cut(dice: Random, content: bytes) -> bytes:
    return content[: dice.randint(0, len(content))]


def _again(dice: Random, content: bytes) -> bytes:
    start = dice.randint(0, len(content))
    stretch = content[start : start + dice.choice((1, 5, 40))]
    return content[:start] + stretch * dice.choice((2, 50, 5000)) + content[start:]


def _swap(dice: Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    dice.shuffle(lines)
    return b"\n".join(lines)


_MUTATIONS: tuple[Callable[[Random, bytes], bytes], ...] = (_insert, _insert, _delete, _flip, _cut, _again, _swap)
