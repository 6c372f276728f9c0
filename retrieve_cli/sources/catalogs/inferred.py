"""A mapping of unknown keys to fields, inferred from the first records of a catalog: by names, else by values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final

from retrieve_cli.contracts import Json
from retrieve_cli.frozen import Frozen
from retrieve_cli.sources.fields import DEFAULT_WEIGHTS, ELSEWHERE, SPELLINGS, key_of
from retrieve_cli.sources.values import strings

LOOKED_AT = 1000
"""Records from which a mapping is inferred."""
MOST_KEYS, _LONGEST = 1000, 1000
"""Keys, and characters of a value, that are looked at."""
_HEAD: Final = ("name", "description")
_FIRST_WORD: Final = 2
"""Rank of a key of which only the first word is one of a field."""
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    field: tuple(words.split())
    for field, words in {
        "name": "name title toolname tool packagename package software product program application app label heading "
        "headline bezeichnung titel produkt paket nom titre nombre titulo título nome titolo naam",
        "description": "description summary abstract text body content pagecontent details detail overview "
        "about synopsis blurb purpose desc longdescription shortdescription beschreibung zusammenfassung inhalt "
        "résumé resumen descripción descripcion descrizione omschrijving",
        "keywords": "keywords keyword tags tag labels topics topic subjects schlagworte schlagwörter schlüsselwörter "
        "stichworte stichwörter motsclés palabrasclave",
        "category": "category categories kategorie kategorien catégorie categoría",
        "license": "license licence lizenz licencia",
        "url": "url homepage website webpage link uri href repository repo web site webseite lien enlace",
    }.items()
}
"""Words of keys by field, best first."""
_OTHERS = frozenset("author user owner maintainer parent file logo icon image license licence".split())
"""Words of keys whose name, id or address belongs to something else."""
_COLUMNS = frozenset("id identifier sku slug key uuid doi price year date type version author status".split()).union(
    *_WORDS.values()
)
"""Words that are usual in the names of columns."""
_LONGEST_COLUMN, _PROSE = 40, 4
"""Characters of the name of a column, and words of a description on average."""
NUMBERED: Final = "column "
"""Beginning of the names of columns of a table without a header: any text may be the description."""
_HUMP = re.compile(r"(?<=[^\W\dA-Z_])(?=[A-Z])")
_PART = re.compile(r"[^\W_]+")
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]{1,20}://|www\.)", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}")


class _Key(Frozen):
    """A key and its values: texts of at most `_LONGEST` characters, lists as their first text."""

    name: str
    share: float
    """Share of the records that have a value."""
    values: list[str]
    lists: bool
    """True if the values are lists."""

    def mean(self, measure: Callable[[str], int]) -> float:
        return sum(map(measure, self.values)) / len(self.values)

    @property
    def words(self) -> float:
        return self.mean(lambda text: len(text.split()))

    @property
    def distinct(self) -> float:
        return len(set(self.values)) / len(self.values)

    @property
    def is_prose(self) -> bool:
        """True for words: neither addresses nor dates, nor numbers."""
        shaped = sum(bool(_ADDRESS.match(text) or _DATE.match(text)) for text in self.values)
        return shaped * 2 < len(self.values) and all(any(map(str.isalpha, text)) for text in self.values)

    @property
    def is_short(self) -> bool:
        return self.mean(len) <= 100

    def suits(self, field: str) -> bool:
        """Return True if a field may have such values."""
        if field == "url":
            return all(map(_ADDRESS.match, self.values))
        if field == "name":
            return self.is_short and self.is_prose and self.distinct >= 0.5 and not self.lists
        return self.is_prose and (field == "description" or self.mean(len) <= 300)

    def rank(self, field: str) -> tuple[int, int] | None:
        """Return how well its name is one of a field, lower is better; None if it is not."""
        parts, words = parts_of(self.name), _WORDS[field]
        if (whole := "".join(parts)) in words:
            return 0, words.index(whole)
        if not parts or (field in ("name", "url") and is_of_another(parts)):
            return None
        return next(((at, words.index(word)) for at, word in ((1, parts[-1]), (2, parts[0])) if word in words), None)


def parts_of(name: str) -> list[str]:
    """Return the words of the name of a key in lower case: `toolName` and `tool_name` have two."""
    return _PART.findall(_HUMP.sub(" ", name[:100]).casefold())


def is_named(key: str, field: str) -> bool:
    """Return True if the whole name of a key is one of a field."""
    return "".join(parts_of(key)) in _WORDS[field]


def is_column(name: str) -> bool:
    """Return True if a word of a name is usual for a column."""
    return len(name) <= _LONGEST_COLUMN and not _COLUMNS.isdisjoint(["".join(parts_of(name)), *parts_of(name)])


def is_of_another(parts: Iterable[str]) -> bool:
    """Return True if words of a key mean that it names something other than the record: `author_id`."""
    return not _OTHERS.isdisjoint(parts)


def infer(items: Iterable[Mapping[str, Json]]) -> Mapping[str, str]:
    """Return the keys of a catalog that its fields are read from, as `FieldMap.renames`; nothing if the first records
    have both a known name and a known description, or if no key may be one that is missing.

    Names of keys count first, then the kind of their values. A description is also found by its values beside a known
    name, a name beside a known description only by the name of its key. If the records have another known text, only
    names count.
    """
    values: dict[str, list[Json]] = {}
    number = 0
    for item in islice(items, LOOKED_AT):
        number += 1
        for key, value in islice(item.items(), MOST_KEYS):
            if (key in values or len(values) < MOST_KEYS) and strings(value):
                values.setdefault(key, []).append(value)
        if all(any(path in values for path in SPELLINGS[field]) for field in _HEAD):
            return {}
    present = {field for field, paths in SPELLINGS.items() if any(path in values for path in paths)}
    partly = not present.isdisjoint(_HEAD)
    taken = ELSEWHERE.union(("type",), *SPELLINGS.values())
    keys = [_key(name, some, number) for name, some in values.items() if name not in taken and "." not in name]
    fields = [field for field in _WORDS if field not in present]
    chosen: dict[str, str] = {}
    for field in fields:  # by the names of keys; a field of many values is read from all keys with its names
        ranked = [(rank, key.name) for key in keys if (rank := key.rank(field)) and key.suits(field)]
        near = [pair for pair in ranked if not partly or pair[0][0] < _FIRST_WORD]
        best = sorted(near, key=lambda pair: pair[0])
        free = [name for _, name in best if name not in chosen]
        chosen |= dict.fromkeys(free if field in ("description", "keywords", "category") else free[:1], field)
    if present.isdisjoint(DEFAULT_WEIGHTS.keys() - {"name"}):
        missing = [field for field in fields if field not in chosen.values()]
        _by_values(keys, chosen, [field for field in missing if field == "description" or not partly])
    if not set(_HEAD) & set(chosen.values()):
        return {}
    order = list(_WORDS)
    return {key: key_of(chosen[key]) for key in sorted(chosen, key=lambda key: order.index(chosen[key]))}


def _by_values(keys: list[_Key], chosen: dict[str, str], fields: list[str]) -> None:
    """Add keys by their values, for the fields that are missing."""

    def choose(field: str, fits: Callable[[_Key], bool], better: Callable[[_Key], float] = lambda _: 0.0) -> None:
        if field in fields and (free := [key for key in keys if key.name not in chosen and fits(key)]):
            chosen[max(free, key=better).name] = field  # of equal ones the first

    choose(
        "description",
        lambda key: key.is_prose and not key.lists and (key.words >= _PROSE or key.name.startswith(NUMBERED)),
        lambda key: key.mean(len),
    )
    choose("name", lambda key: key.suits("name") and key.share >= 0.8 and key.distinct >= 0.8)
    choose("keywords", lambda key: key.lists and key.is_prose and key.mean(len) <= 40)
    choose("url", lambda key: key.suits("url"))


def _key(name: str, values: list[Json], number: int) -> _Key:
    texts = [strings(value)[0][:_LONGEST] for value in values]
    return _Key(name, len(values) / number, texts, all(isinstance(value, list) for value in values))
