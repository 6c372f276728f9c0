"""SPDX ids of licences, given as an id, an address or a name (https://spdx.org/licenses/).

`spdx.tsv` holds the list: one line per id, with the names and addresses that belong to this id only. Ambiguous names
("BSD", "GPL") have no id here: nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

_TABLE = Path(__file__).with_name("spdx.tsv")
_EXCEPTIONS = "WITH"
"""First word of the table's line of exceptions."""
_LONGEST = 400
"""Maximum characters of a licence to look up; a longer text is the licence itself."""
_ADDRESS = re.compile(r"(?:https?:)?//(?:www\.)?([^\s/]+)/(\S*)")
_SUFFIX = re.compile(r"\.(?:html?|php|txt|json|jsonld|rdf|md|en)$")
_WORD = re.compile(r"[a-z0-9.+]+")
_NUMBER = re.compile(r"(?:v|version)?([0-9]+)(?:\.0)?(\+?)")
_NAMED_NUMBER = re.compile(r"(apache|bsd|cc|[al]?gpl|mpl|epl)v?([0-9.]+\+?)")
_SILENT = frozenset("the licence license licences licenses licensed under version v".split())
"""Words that do not distinguish licences."""
_SPELLED = (
    ("gnu lesser general public", "lgpl"),
    ("gnu library general public", "lgpl"),
    ("gnu affero general public", "agpl"),
    ("gnu general public", "gpl"),
    ("gnu lgpl", "lgpl"),
    ("gnu agpl", "agpl"),
    ("gnu gpl", "gpl"),
    ("share alike", "sharealike"),
    ("non commercial", "noncommercial"),
    ("no derivatives", "noderivatives"),
)
_ALIASES = {
    "new bsd": "BSD-3-Clause",
    "modified bsd": "BSD-3-Clause",
    "revised bsd": "BSD-3-Clause",
    "3 clause bsd": "BSD-3-Clause",
    "bsd 3": "BSD-3-Clause",
    "simplified bsd": "BSD-2-Clause",
    "2 clause bsd": "BSD-2-Clause",
    "bsd 2": "BSD-2-Clause",
    "expat": "MIT",
    "cc 0": "CC0-1.0",
    "cc zero": "CC0-1.0",
}
"""Common names that are missing in the list."""
_ENDING_IN_IDS = frozenset({"spdx.org", "opensource.org", "choosealicense.com", "licenses.nuget.org", "gnu.org"})
"""Hosts with addresses that end in an id or a name of the licence."""
_DASHED_NUMBER = re.compile(r"(?<=[0-9])-(?=[0-9])")
_OPERATORS = frozenset({"AND", "OR", "WITH"})


class _Table(NamedTuple):
    ids: Mapping[str, str]
    """Ids, by the id in lower case."""
    keys: Mapping[str, str]
    """Ids, by the key of a name or an address."""
    exceptions: Mapping[str, str]
    """Exceptions that may follow WITH, by the id in lower case."""


def spdx_of(text: str) -> str | None:
    """Return the SPDX id or expression of a text; None if the text is unknown or ambiguous."""
    text = text.strip()
    if not text or len(text) > _LONGEST:
        return None
    table = _table()
    if address := _ADDRESS.match(text):
        return _of_address(address[1].casefold(), address[2].casefold(), table)
    name = text.rpartition("::")[2].strip()  # the form of PyPI's classifiers
    name = name[5:] if name[:5].casefold() == "spdx:" else name
    return table.ids.get(name.casefold()) or _of_name(name, table) or _of_expression(name, table)


def name_key(name: str) -> str:
    """Return a name without differences of spelling: case, marks, `The`, `License`, `v2.0` for 2."""
    words: list[str] = []
    for word in _WORD.findall(name.casefold()):
        named = _NAMED_NUMBER.fullmatch(word)
        for part in named.groups() if named else (word.strip("."),):
            number = _NUMBER.fullmatch(part)
            words += [number[1] + number[2]] if number else [part] if part and part not in _SILENT else []
    if len(words) % 2 == 0 and words[: len(words) // 2] == words[len(words) // 2 :]:  # MIT License (MIT)
        words = words[: len(words) // 2]
    key = " ".join(words)
    for spelled, short in _SPELLED:
        key = key.replace(spelled, short)
    return key


def address_key(host: str, path: str) -> str:
    """Return an address without differences of spelling: a trailing slash, the type of file."""
    return f"{host}/{_SUFFIX.sub('', _SUFFIX.sub('', path.rstrip('/')))}"


def _of_name(name: str, table: _Table) -> str | None:
    key = name_key(name)
    return _ALIASES.get(key) or table.keys.get(key)


def _of_address(host: str, path: str, table: _Table) -> str | None:
    key = address_key(host, path.partition("#")[0])
    parts = key.split("/")[1:]
    if host == "creativecommons.org":
        return _of_creative_commons(parts, table)
    if host in _ENDING_IN_IDS:
        last = _DASHED_NUMBER.sub(".", parts[-1])  # opensource.org writes apache-2-0
        names = (parts[-1], last, last.removesuffix("-standalone"))
        if spdx := next(filter(None, map(table.ids.get, names)), None) or _of_name(names[-1], table):
            return spdx
    return table.keys.get(key)


def _of_creative_commons(parts: list[str], table: _Table) -> str | None:
    """Return the id of /licenses/by-sa/4.0, with the country if there is one."""
    match parts:
        case ["licenses", code, version, *rest]:
            countries = [part for part in rest[:1] if len(part) == 2]
            return table.ids.get("-".join(["cc", code, version, *countries]))
        case ["publicdomain", "zero", version, *_]:
            return table.ids.get(f"cc0-{version}")
    return None


def _of_expression(text: str, table: _Table) -> str | None:
    """Return the expression with its ids in canonical form; None if it is not one (SPDX 2.3, annex D)."""
    parts: list[str] = []
    depth, operand, ids = 0, True, table.ids
    for word in text.replace("(", " ( ").replace(")", " ) ").split():
        if word in "()":
            depth += 1 if word == "(" else -1
            if operand != (word == "(") or depth < 0 or ids is table.exceptions:
                return None
            parts.append(word)
        elif operand:
            spdx = ids.get(word.casefold()) or _or_later(word, ids)
            if spdx is None:
                return None
            parts.append(spdx)
            operand, ids = False, table.ids
        elif word.upper() in _OPERATORS:
            parts.append(word.upper())
            operand, ids = True, table.exceptions if parts[-1] == "WITH" else table.ids
        else:
            return None
    return None if operand or depth else " ".join(parts).replace("( ", "(").replace(" )", ")")


def _or_later(word: str, ids: Mapping[str, str]) -> str | None:
    spdx = ids.get(word[:-1].casefold()) if word.endswith("+") else None
    return spdx and f"{spdx}+"


@cache
def _table() -> _Table:
    ids: dict[str, str] = {}
    keys: dict[str, str] = {}
    exceptions: dict[str, str] = {}
    for line in _TABLE.read_text("utf-8").splitlines():
        first, *others = line.split("\t")
        if first == _EXCEPTIONS:
            exceptions = {name.casefold(): name for name in others}
        elif not first.startswith("#"):
            ids[first.casefold()] = first
            keys |= dict.fromkeys(others, first)
    return _Table(ids, keys, exceptions)
