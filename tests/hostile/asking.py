"""Attacks by what is asked: query text, tags, filters, flags and batches; and what regular expressions are slow at."""

from __future__ import annotations

import json
import re
from functools import cache
from random import Random
from typing import Any

from hostile import odd, prepared
from hostile.adversarial import attacks
from hostile.patterns import Used, files, of_file
from hostile.texts import DATA_KEYS, FORMATS, KEYS, LENIENT, looks
from hostile.tries import Content, Try


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


# ------------------------------------------------------------------------------------------------------ patterns


@cache
def _patterns() -> tuple[Used, ...]:
    return tuple(used for file in files() for used in of_file(file) if isinstance(used, Used))


def indexed(dice: Random, contents: dict[str, Content]) -> Try:
    """Return a sync of these files, and a look at what came of it."""
    return Try("patterns", (("sync", *LENIENT), *looks(dice)), contents, index="tools", control=True)


def patterns(dice: Random) -> Try:
    """Return text that a regular expression of the package may be slow at, at a place where the package reads text."""
    used = dice.choice(_patterns())
    attack = dice.choice(attacks(used.pattern, used.flags))
    size = dice.choice((20_000, 100_000, 300_000))
    text = attack.text(size)
    roll = dice.random()
    if roll < 0.4:
        key = dice.choice((*KEYS, *DATA_KEYS))
        item: dict[str, Any] = {"id": "odd", "name": "odd", "description": "odd lungs"}
        item |= {"supportingData": {key: text}} if key in DATA_KEYS else {key: text}
        content = prepared.catalog() + json.dumps(item).encode() + b"\n"
        return indexed(dice, {"tools.jsonl": content})
    if roll < 0.75:
        start = dice.choice(("", "# ", "---\ntitle: ", "---\n", "## Methods\n", "```", "| ", "> "))
        end = dice.choice(("", "\n\nend", "\n---\nbody", "\n# Next\n"))
        name = dice.choice(("docs/odd.md", "docs/odd.txt"))
        strategy = dice.choice(("auto", "section", "imrad", "window"))
        settings = prepared.CONFIG + f"chunking: {{strategy: {strategy}}}\n"
        document = (start + text + end).encode("utf-8", "replace")
        return indexed(dice, {name: document, "config.yaml": settings.encode()})
    line = re.sub("[\0\ud800-\udfff]", "", text[:120_000])
    command = dice.choice((("query", "--", line), ("query", "x", "--filter", f"dims>={line}"), ("query", "x",
        "--filter", f"{line}=x"),
                           ("query", "x", "--filter", f"path={line}"), ("query", "x", f"--also={line}"), ("query",
                           "--", f"[FILTER:{line}]"),
                           ("eval", "--gold", "gold.jsonl", "--gate", line), ("eval", "--gold", "gold.jsonl",
                           "--metrics", line)))  # fmt: skip
    return Try("patterns", (command,), {"gold.jsonl": b'{"query": "lungs", "relevant": ["tool0"]}\n'}, index="tools")
