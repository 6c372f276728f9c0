"""Attacks by what is asked: query text, tags, filters, flags and batches; and what regular expressions are slow at."""

from __future__ import annotations

from random import Random
from typing import Any

from hostile import odd
from hostile.texts import FORMATS
from hostile.tries import Try


def queries(dice: Random) -> Try:
    """Return a query with odd text, tags, filters and flags; or a batch of odd lines."""
    if dice.random() < 0.4:
        lines = b"\n".join(_request(dice) for _ in range(dice.choice((1, 3, 8))))
        switches = [switch for switch in ("--explain", "--stream") if dice.random() < 0.2]
        command = ("query", "-", "--format", dice.choice(FORMATS), *switches)
        return Try("queries", (command,), stdin=lines, index="tools", control=True)
    words = [
        argument(dice) if dice.random() < 0.7 else dice.choice(odd.TAGS + odd.WORDS)
        for _ in range(dice.choice((1, 1, 2, 4)))
    ]
    command = ("query", "--format", dice.choice(FORMATS), *_flags(dice), "--", *words)
    why = ("inspect", "why", argument(dice), dice.choice(("tool1", argument(dice))))
    more = ((*why, "--format", dice.choice(("text", "json"))),)
    return Try("queries", (command, *(more if dice.random() < 0.3 else ())), index="tools", control=True)


def argument(dice: Random) -> str:
    """Return odd text that a command line can hold; now and then with bytes that are not UTF-8."""
    text = odd.utf8(dice).replace("\0", "")[:100_000]
    return text + "\udcff\udc80" if dice.random() < 0.1 else text


_FLAGS = ("--filter", "--filter", "--doc-id", "--tenant", "--file", "--also", "-k", "--mode", "--retrievers",
          "--context", "--max-tokens", "--min-score", "--deadline-ms", "--min-confidence",
          "--color", "--artifacts")  # fmt: skip
_SWITCHES = ("--with-dependencies", "--expand", "--route", "--chunks", "-l", "--explain", "--timing",
             "--save-run",
             "--strict-fresh", "--exit-status", "-v", "-q", "--no-rerank")  # fmt: skip


_PLAIN = {"-k": "5", "--mode": "bm25", "--tenant": "acme", "--context": "2", "--file": "tools.jsonl",
          "--artifacts": "artifacts"}  # fmt: skip


def _flags(dice: Random) -> list[str]:
    found: list[str] = []
    for _ in range(dice.choice((0, 1, 2, 3))):
        flag = dice.choice(_FLAGS)
        plain = _PLAIN.get(flag, "3")
        value = filter_(dice) if flag == "--filter" else plain if dice.random() < 0.4 else argument(dice)
        found += [flag, value]
    return [*found, *dice.sample(_SWITCHES, dice.choice((0, 1, 2)))]


_FIELDS = "license dims path group keywords format modality tenant x.y !group".split()
_VALUES = (*'MIT 3 * **/*.md "a""b" a,b,, 1e999 3d \u0663 "'.split(), "?" * 200, "*a" * 500, "a*" * 2000)


def filter_(dice: Random) -> str:
    """Return an odd filter."""
    field = dice.choice((*_FIELDS, argument(dice)[:50]))
    operator = dice.choice(("=", "=", "!=", ">=", "<=", ">", "<", "==", "", " = "))
    value = dice.choice(_VALUES) if dice.random() < 0.5 else argument(dice)
    return f"{field}{operator}{value}"


def _request(dice: Random) -> bytes:
    if dice.random() < 0.2:
        return odd.utf8(dice).encode()
    item: dict[str, Any] = {"query": odd.value(dice) if dice.random() < 0.5 else "segment lungs"}
    for _ in range(dice.choice((0, 1, 2, 3))):
        key = dice.choice("id _id text also files filters doc_ids tenant retrievers filter x k".split())
        item[key] = dice.choice((["tool1"], [filter_(dice)], ["bm25"], [odd.string(dice)], odd.value(dice)))
    text = odd.json_text(dice, item).replace(b"\n", b" ")
    return odd.mutated(dice, text, 2).replace(b"\n", b" ") if dice.random() < 0.15 else text
