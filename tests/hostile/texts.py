"""Attacks by text that is indexed, by configuration, and by folders that reach out of themselves."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hostile import odd, prepared
from hostile.tries import Content, Try

FORMATS = ("text", "json", "jsonl", "csv", "md", "trec")
LENIENT = ("--max-fail", "1000")
KEYS = ("id", "_id", "identifier", "name", "title", "description", "text", "abstract", "url", "codeRepository",
        "license", "keywords", "group", "tenant", "supportingData", "featureList", "applicationCategory",
        "runnableExample", "requires_tool", "compatible_with", "part_of", "metadata", "domain", "bodySite", "@type",
        "language")  # fmt: skip
DATA_KEYS = ("imagingModality", "hasDimensionality", "datasetFormat", "bodySite", "demo_url")


_GRAPHS = ((), ("odd",), ("odd", "--picture"), ("tool1", "--picture"), ("--json",))
_OTHER_LOOKS = (("inspect", "verify"), ("inspect", "status", "--json"), ("doctor",), ("query", "x", "-l"))
_MORE = ((), ("--chunks",), ("--explain",), ("--expand",), ("--context", "1"), ("-v",))


def looks(dice: Random, count: int = 1) -> tuple[tuple[str, ...], ...]:
    """Return commands that show what is in the index."""
    found: list[tuple[str, ...]] = []
    for _ in range(count):
        roll = dice.random()
        format_ = dice.choice(FORMATS)
        if roll < 0.55:
            more = dice.choice(_MORE)
            found.append(("query", dice.choice(("lungs", "odd", "segment x")), "-k", "50", "--format", format_, *more))
        elif roll < 0.7:
            found.append(("inspect", "records", "--limit", "0", "--format", dice.choice(FORMATS[:3])))
        elif roll < 0.8:
            found.append(("inspect", "graph", *dice.choice(_GRAPHS)))
        elif roll < 0.9:
            kind = dice.choice(("record", "chunk"))
            found.append(("inspect", kind, dice.choice(("odd", "odd#0", "docs/odd.md", "tool1"))))
        else:
            found.append(dice.choice(_OTHER_LOOKS))
    return tuple(found)


# ------------------------------------------------------------------------------------------------------ catalogs


def catalog(dice: Random) -> Try:
    """Return a catalog some lines of which are odd."""
    lines = [_line(dice) for _ in range(dice.choice((1, 1, 2, 5)))]
    content = prepared.catalog() + b"".join(line + b"\n" for line in lines)
    sync = dice.choice((("sync", *LENIENT), ("sync", "--json", *LENIENT), ("sync",), ("sync", "--dry-run", "--json")))
    return Try("catalog", (sync, *looks(dice)), {"tools.jsonl": content}, index="tools", control=True)


def record(dice: Random) -> dict[str, Any]:
    """Return a record with odd values under known keys."""
    item = {"id": "odd", "name": "Odd tool", "description": "segments odd lungs"}
    for _ in range(dice.randint(1, 4)):
        item[dice.choice(KEYS)] = odd.value(dice)
    if dice.random() < 0.3:
        item["supportingData"] = {dice.choice(DATA_KEYS): odd.value(dice) for _ in range(3)}
    if dice.random() < 0.1:
        item[odd.string(dice)] = odd.value(dice)
    return item


_NO_RECORDS = (b"", b"null", b"[]", b'""', b"{}", b"\xef\xbb\xbf{}", b'{"id": "tool1", "name": "again"}',
               b'{"a": 1}' * 50, b"\0" * 5000)  # fmt: skip


def _line(dice: Random) -> bytes:
    roll = dice.random()
    text = odd.json_text(dice, record(dice)).replace(b"\n", b" ")
    if roll < 0.65:
        return text
    if roll < 0.85:
        return odd.mutated(dice, text)
    if roll < 0.92:
        return b'{"id": "odd", "name": "x", "description": ' + odd.nested(dice).encode() + b"}"
    return dice.choice(_NO_RECORDS)


# ----------------------------------------------------------------------------------------------------- documents


_NAMES = ("odd.md", "odd.txt", "sub/odd.markdown", "\x1b[31modd.md", "a\nb.md", "\u202eodd.md", "-rf.md",
          "o\u0308dd.md", " .md", "a/" * 300 + "odd.md")  # fmt: skip
_STRANGE = (("fifo",), ("link", "/dev/zero"), ("link", "/etc"))


def documents(dice: Random) -> Try:
    """Return a folder of documents some of which are odd, or are no documents."""
    contents: dict[str, Content] = {}
    for _ in range(dice.randint(1, 3)):
        name = dice.choice(_NAMES)
        contents[f"docs/{name}"] = _document(dice)
    if dice.random() < 0.15:
        special = dice.choice((*_STRANGE, ("link", "."), ("sparse", 3 << 30), ("folder",), ("link", "gone")))
        contents[dice.choice(("docs/special.md", "docs/sub/special.md"))] = special
    sync = dice.choice((("sync", *LENIENT), ("sync", "--json", *LENIENT), ("sync", "-v")))
    return Try("documents", (sync, *looks(dice)), contents, index="tools", control=True)


def _document(dice: Random) -> Content:
    front = _front_matter(dice) if dice.random() < 0.7 else b""
    parts = [dice.choice(("# Odd\n\n", "## odd lungs\n", "text ", "\n\n", "| a | b |\n|---|---|\n", "- item\n",
        "1. x\n", "> ", "```\n", "    code\n", "<b>",
                          "[a](b)", "Methods: ", "**Results**\n", "Title\n=====\n", "\r\n", "\r", "  \n", "![x](y)",
                          "{#anchor}"))
             if dice.random() < 0.6 else odd.utf8(dice) for _ in range(dice.choice((2, 8, 40)))]  # fmt: skip
    body = "".join(parts)[:300_000].encode("utf-8", "replace")
    roll = dice.random()
    if roll < 0.05:
        return "repeat", front, dice.choice(odd.LONG).encode(), dice.choice((100_000, 1_000_000)), b"x"
    return odd.mutated(dice, front + body) if roll < 0.3 else front + body


_FRONT = ("title", "group", "license", "tenant", "requires_tool", "a", "keywords", "metadata")


def _front_matter(dice: Random) -> bytes:
    lines = [f"{dice.choice(_FRONT)}: {yaml_value(dice)}" for _ in range(dice.randint(1, 4))]
    text = "---\n" + "\n".join(lines) + dice.choice(("\n---\n", "\n---\n", "\n...\n", "\n", "\n--- \n"))
    content = text.encode("utf-8", "replace")
    return odd.mutated(dice, content, 2) if dice.random() < 0.3 else content


def yaml_value(dice: Random) -> str:
    """Return a YAML value, odd in a way that YAML knows."""
    roll = dice.random()
    if roll < 0.25:
        return dice.choice(odd.NUMBERS + odd.DATES)
    if roll < 0.4:
        depth = dice.choice((10, 60, 200, 3000, 50_000))
        return dice.choice(("[" * depth, "{a: " * depth, "[" * depth + "]" * depth,
            "\n" + "".join(" " * n + "a:\n" for n in range(min(depth, 400))),
                            "- " * depth + "x", "!!seq " * min(depth, 999) + "[]", "? " * depth))  # fmt: skip
    if roll < 0.5:
        levels = dice.choice((3, 8, 30))
        return "\n" + "".join(f"  k{n}: &k{n} [{', '.join([f'*k{n - 1}' if n else 'x'] * 9)}]\n" for n in range(levels))
    if roll < 0.65:
        return dice.choice(("!!python/object/apply:os.system ['touch canary']", "!!binary x", "!!set {a}", "&a *a",
            "&a [*a]", "*gone", "!<tag:x> y",
                            "|\n  text", ">-\n  x", "'", '"', '"\\x1b[0m"', '"\\ud800"', "@x", "%x", "\t",
                            "<<: {a: 1}", "? [a]\n: b", "!!float x",
                            "{a: 1, a: 2}", "!!timestamp 2001-99-99", "~", "no", "!!int 0b", ".inf", ".nan", "- - - x",
                            "{[a]: b}", "{{}: x}"))  # fmt: skip
    return json.dumps(odd.value(dice), ensure_ascii=dice.random() < 0.5)


# ------------------------------------------------------------------------------------------------- configuration


def config(dice: Random) -> Try:
    """Return a configuration that is odd."""
    content = dice.choice((_mutated_settings, _raw_yaml))(dice)
    special: Content = content
    if dice.random() < 0.08:
        links = (("link", "config.yaml"), ("link", "/dev/tty"))
        special = dice.choice((*_STRANGE[:2], ("folder",), ("sparse", 2 << 30), *links))
    first = dice.choice((("query", "lungs"), ("query", "lungs", "--json"), ("sync", "--dry-run"), ("doctor",),
        ("doctor", "--json"), ("models", "list", "--json"),
                         ("inspect", "status"), ("sync", "--json"), ("eval", "--gold", "gold.jsonl"), ("build",
                         "--catalog", "tools.jsonl")))  # fmt: skip
    gold = b'{"query": "lungs", "relevant": ["tool0"]}\n'
    commands = (first, ("query", "cells", *dice.choice(((), ("-v",), ("--explain",)))))
    return Try("config", commands, {"gold.jsonl": gold, "config.yaml": special}, index="tools", control=True)


def _mutated_settings(dice: Random) -> bytes:
    settings = prepared.CONFIG + "search: {k: 5, mode: hybrid}\nfusion: {weights: {bm25: 0.5}}\n"
    return odd.mutated(dice, settings.encode())


def _raw_yaml(dice: Random) -> bytes:
    key = dice.choice(("a", "search", "sources", "graph", "fusion", "plugins", "catalog"))
    text = dice.choice(("", f"{key}: ", f"{key}:\n  list: ", "search:\n  k: ")) + yaml_value(dice)
    return text.encode("utf-8", "replace")
