"""Strings that a regular expression nearly matches, derived from the expression itself: what it repeats, repeated."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from re import _constants as ops, _parser as sre_parse  # type: ignore[attr-defined]
from typing import Any

CANDIDATES = "a \n0A-_.\"'`()[]{}<>#=|!?,:;/\\*+~@$%^&\t\rzZ9\u00e9\u00c9\u4e00\u3002\u2028\u00a0\0"
"""Characters that stand for a class, the first that belong to it."""
GENERIC = (*" \n\t\"'`[](){}<>-=#|!.,:;0a*_~/\\?&@+%", " \n", "\r\n", "a ", "[]", "](", "``", "```\n", "''", "0.", "1.",
           "a-", "# ", "- ", "> ", "| ", "a:", "(a", "<a", "[a:", "I", "II.", "x.y", "a\u00e9", "\u3002", "\u4e00",
           "\0", "Aa", "aA", "aA1")  # fmt: skip
"""Texts that are repeated for every pattern."""
TAILS = ("", "\0", "x", " ", "\n", "!", "0")
REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
MANY = 8
"""A repeat that may go on for longer counts as one without an end."""


@dataclass(frozen=True)
class Attack:
    """A string of any length: `prefix`, then units one after the other, each taking an equal share, then `tail`."""

    prefix: str
    units: tuple[str, ...]
    tail: str

    def text(self, size: int) -> str:
        """Return the string with about `size` characters."""
        share = max(1, (size - len(self.prefix) - len(self.tail)) // len(self.units))
        return self.prefix + "".join(unit * max(1, share // len(unit)) for unit in self.units) + self.tail

    def __str__(self) -> str:
        return f"{self.prefix!r} + " + " + ".join(f"{unit!r} * n" for unit in self.units) + f" + {self.tail!r}"


Repeats = list[tuple[str, list[str], str]]


def attacks(pattern: str, flags: int = 0) -> list[Attack]:
    """Return the attacks on a pattern, the same ones every time."""
    tree = sre_parse.parse(pattern, flags)
    repeats = list(_repeats(tree, ""))
    return list(dict.fromkeys([*_generic(), *_on_the_whole(sample(tree)), *_on_one(repeats), *_on_two(repeats)]))


def _generic() -> Iterator[Attack]:
    for unit in GENERIC:
        yield from (Attack("", (unit,), tail) for tail in ("", "\0"))


def _on_the_whole(whole: str) -> Iterator[Attack]:
    for unit in {whole, whole[:-1], whole[1:]} - {""}:
        yield from (Attack("", (unit,), tail) for tail in TAILS)


def _on_one(repeats: Repeats) -> Iterator[Attack]:
    """Yield what begins well, repeats one thing, and does not end well."""
    for before, bodies, after in repeats:
        for body in bodies[:3]:
            yield from (Attack(before, (body,), tail) for tail in dict.fromkeys(("\0", "", "x", after[:-1] + "\0")))
            for unit in filter(None, dict.fromkeys((before, before + body, body + after))):
                yield from (Attack("", (unit,), tail) for tail in ("\0", ""))


def _on_two(repeats: Repeats) -> Iterator[Attack]:
    """Yield what repeats one thing and then another."""
    for (before, first, _), (_, second, after) in itertools.pairwise(repeats):
        for one, two in itertools.product(first[:3], second[:3]):
            for units in ((one, two), (one + two,), (two, one)):
                yield from (Attack(before, units, tail) for tail in dict.fromkeys(("\0", "x", after[:-1])))


def _repeats(nodes: Iterable[Any], before: str) -> Iterator[tuple[str, list[str], str]]:
    """Yield each repeat of many: what stands before it, what it repeats, what stands after it."""
    sequence = list(nodes)
    for number, (op, value) in enumerate(sequence):
        after = sample(sequence[number + 1 :])
        if op in REPEATS:
            if value[1] > MANY:
                yield before, _bodies(value[2]), after
            yield from _repeats(value[2], before)
        for part in _parts(op, value):
            yield from _repeats(part, before)
        before += sample([(op, value)])


def _parts(op: Any, value: Any) -> list[Any]:
    """Return the patterns inside one that is no repeat."""
    if op is ops.BRANCH:
        return list(value[1])
    if op is ops.SUBPATTERN:
        return [value[3]]
    if op is ops.ATOMIC_GROUP:
        return [value]
    return [value[1]] if op in (ops.ASSERT, ops.ASSERT_NOT) else []


def _bodies(nodes: Any) -> list[str]:
    """Return strings that the body of a repeat matches: of a class, several of its characters."""
    if len(nodes) == 1:
        op, value = nodes[0]
        if op in (ops.IN, ops.ANY, ops.NOT_LITERAL):
            return members(op, value)[:5]
        if op is ops.SUBPATTERN:
            return _bodies(value[3])
        if op is ops.BRANCH:
            return list(dict.fromkeys(body for part in value[1] for body in _bodies(part)))[:8]
    return [sample(nodes) or "a"]


def sample(nodes: Iterable[Any]) -> str:
    """Return a short string that the nodes match, as far as that can be told without matching."""
    return "".join(_sample(op, value) for op, value in nodes)


def _sample(op: Any, value: Any) -> str:
    if op is ops.LITERAL:
        return chr(value)
    if op in (ops.IN, ops.ANY, ops.NOT_LITERAL):
        return members(op, value)[0]
    if op in REPEATS:
        return sample(value[2]) * max(1, min(value[0], 50))
    if op is ops.BRANCH:
        return sample(value[1][0])
    if op is ops.SUBPATTERN:
        return sample(value[3])
    if op is ops.ATOMIC_GROUP:
        return sample(value)
    return sample(value[1]) if op is ops.ASSERT and value[0] > 0 else ""


def members(op: Any, value: Any) -> list[str]:
    """Return characters that a class, a dot or an excluded character stands for."""
    if op is ops.ANY:
        return [char for char in CANDIDATES if char != "\n"]
    if op is ops.NOT_LITERAL:
        return [char for char in CANDIDATES if ord(char) != value]
    negated = value[0][0] is ops.NEGATE
    own = [chr(part if kind is ops.LITERAL else part[0]) for kind, part in value if kind in (ops.LITERAL, ops.RANGE)]
    every = dict.fromkeys([*([] if negated else own), *CANDIDATES])
    found = [char for char in every if any(_holds(kind, part, char) for kind, part in value) is not negated]
    return found or own or ["a"]


_CATEGORIES = {
    ops.CATEGORY_DIGIT: r"\d", ops.CATEGORY_NOT_DIGIT: r"\D", ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S", ops.CATEGORY_WORD: r"\w", ops.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


def _holds(kind: Any, part: Any, char: str) -> bool:
    if kind is ops.LITERAL:
        return ord(char) == part
    if kind is ops.RANGE:
        return bool(part[0] <= ord(char) <= part[1])
    return kind is ops.CATEGORY and re.match(_CATEGORIES[part], char) is not None
