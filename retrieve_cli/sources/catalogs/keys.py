"""The key of a catalog whose records have no id: a column, else a digest of title and url, else the whole row.

A record is known by its key, so an edit of any other cell is a change of the same record. The line of a record is read
as if the key were written in it as `id`: digests, syncs and freshness need no other rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import printable, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.sources.catalogs.inferred import MOST_KEYS, is_of_another, parts_of
from retrieve_cli.sources.fields import FieldMap, as_renamed_item, has_id
from retrieve_cli.sources.values import first, first_at, strings
from retrieve_cli.storage.manifest import sha1

_ID: Final = frozenset("id identifier".split())
"""Names of a column that is the key even if its values repeat: such records are rejected."""
_PREFERRED: Final = tuple(
    frozenset(words.split())
    for words in ("id identifier uid uuid guid doi accession kennung", "sku", "package packagename", "slug", "key")
)
"""Names of columns that may be the key, best first; a column whose last word is `id`, `url`, and the title follow."""
_LONGEST = 200
"""Characters of the longest value of a key."""


class CatalogKey(Frozen):
    """Rule that gives a record without an id its key."""

    column: str = ""
    """Column whose values are the ids; without one, a digest of title and url."""
    shared: Collection[tuple[str, str]] = frozenset()
    """Titles with urls that several records have: each of these is known by its whole row."""
    whole: int = 0
    """Number of records that are known by their whole row."""
    forced: bool = False
    """True if the column was configured: it replaces the ids that records have."""
    rows: int = 0
    """Number of records without an id."""
    ids: bool = False
    """True if other records have an id."""

    def value(self, item: Mapping[str, Json], fields: FieldMap) -> str:
        """Return the key of an object whose keys are renamed; empty for the whole row."""
        if self.column and (text := _text(item.get(self.column))):
            return text
        pair = _pair(item, fields)
        return "" if pair in self.shared else _digest(pair)

    def sentence(self, fields: FieldMap) -> str:
        """Return the key in words."""
        if self.column:
            return f"key: {_shown(self.column, fields)}"
        if self.whole == self.rows:
            return "key: the whole row, so an edit will look like a new record; to name a key, map a column to id"
        key = "key: id, else a digest of title and url" if self.ids else "key: a digest of title and url"
        if not self.whole:
            return key
        rows = f"the whole row for {count(self.whole, 'record')}: an edit will look like a new record"
        return f"{key}, {rows}"


def find_key(items: Iterable[Mapping[str, Json]], fields: FieldMap, known: Collection[str] = ()) -> CatalogKey | None:
    """Return the key of a catalog's objects, whose keys are renamed; None if each of them has an id.

    A key of which some object has a value among the `known` ids is preferred: it was the key before.
    """
    found = _Columns(fields, known)
    ids = False
    for item in items:
        if has_id(item, fields):
            ids = True
        else:
            found.add(item)
    return found.key(ids=ids) if found.rows else None


class _Columns:
    """The columns that may be the key of some objects."""

    def __init__(self, fields: FieldMap, known: Collection[str]) -> None:
        self.rows: set[int] = set()
        self._fields, self._known = fields, known
        self._values: dict[str, set[int]] = {}
        self._pairs = Counter[tuple[str, str]]()
        self._old: set[str] = set()
        """Columns, or an empty text for the digest, with a value that is known."""

    def add(self, item: Mapping[str, Json]) -> None:
        """Drop the columns whose value this object lacks or repeats."""
        if (row := _hash(item)) in self.rows:  # the same record twice
            return
        if not self.rows:
            self._values = {name: set() for name in _candidates(item, self._fields)}
        self.rows.add(row)
        pair = _pair(item, self._fields)
        self._pairs[pair] += 1
        texts = {name: _text(item.get(name)) for name in self._values}
        for name, text in texts.items():
            if text and (hash(text) not in self._values[name] or _is_id(name, self._fields)):
                self._values[name].add(hash(text))
            else:
                del self._values[name]
        if self._known:
            self._old |= {name for name, text in {**texts, "": _digest(pair)}.items() if text in self._known}

    def key(self, *, ids: bool) -> CatalogKey:
        """Return the key; `ids`: other objects have an id, so no column is one."""
        names = [] if ids else list(self._values)
        names = [name for name in names if name in self._old] or ([] if "" in self._old else names)
        if names:
            return CatalogKey(names[0])
        shared = {pair for pair, number in self._pairs.items() if number > 1 or not any(pair)}
        whole = sum(self._pairs[pair] for pair in shared)
        return CatalogKey("", shared, whole, rows=len(self.rows), ids=ids)


def with_key(item: Mapping[str, Json], fields: FieldMap, key: CatalogKey) -> Mapping[str, Json]:
    """Return an object of a catalog with its key as `id`; unchanged if it has an id, or only the whole row as one."""
    read = as_renamed_item(item, fields)
    if key.forced and (text := first(strings(read.get(key.column)))):
        return {"id": text, **{name: value for name, value in item.items() if name not in fields.spellings["id"]}}
    if has_id(read, fields) or not (text := key.value(read, fields)):
        return item
    return {"id": text, **{name: value for name, value in item.items() if name != "id"}}


def sentences(items: Sequence[Mapping[str, Json]], fields: FieldMap, key: CatalogKey | None) -> list[str]:
    """Return the key, and the columns of title and body, of the first objects of a catalog, whose keys are renamed."""
    columns = {field: [path for path in fields.spellings[field] if any(first_at(item, [path]) for item in items)]
               for field in ("id", "name", "description")}  # fmt: skip
    title, body = ([_shown(path, fields) for path in columns[field]] for field in ("name", "description"))
    known = f"key: {_shown(columns['id'][0], fields)}" if columns["id"] else "key: id"
    both = f"title: {title[0] if title else 'none'}, body: {' and '.join(body) or 'none'}"
    return [known if key is None else key.sentence(fields), both]


def _candidates(item: Mapping[str, Json], fields: FieldMap) -> list[str]:
    """Return the columns that may be the key, best first."""
    ranks = {name: _rank(name, fields) for name in islice(item, MOST_KEYS)}
    return sorted((name for name in ranks if ranks[name] is not None), key=lambda name: ranks[name] or 0)


def _rank(name: str, fields: FieldMap) -> int | None:
    """Return how good a column is as the key by its name, lower is better; None if it is not."""
    title = len(_PREFERRED) + 2
    ranks = [title] if name in fields.spellings["name"] else []
    for parts in (parts_of(name), parts_of(_original(name, fields))):
        whole = "".join(parts)
        ranks += [rank for rank, words in enumerate(_PREFERRED) if whole in words]
        ranks += [title - 2] if parts[-1:] == ["id"] and not is_of_another(parts) else []
        ranks += [title - 1] if whole == "url" else []
    return min(ranks, default=None)


def _is_id(name: str, fields: FieldMap) -> bool:
    return "".join(parts_of(_original(name, fields))) in _ID


def _original(name: str, fields: FieldMap) -> str:
    """Return the name in the file of a column that is read under another name."""
    return next((key for key, new in fields.renames.items() if new == name), name)


def _shown(name: str, fields: FieldMap) -> str:
    return printable(shortened(_original(name, fields), 40))


def _text(value: Json) -> str:
    """Return a value that can be a key; empty for any other."""
    text = "" if isinstance(value, list | dict) else first(strings(value))
    return text if len(text) <= _LONGEST else ""


def _pair(item: Mapping[str, Json], fields: FieldMap) -> tuple[str, str]:
    """Return title and url of an object."""
    return first_at(item, fields.spellings["name"]), first_at(item, fields.spellings["url"])


def _digest(pair: tuple[str, str]) -> str:
    """Return a digest of title and url; empty without either."""
    return sha1(list(pair))[:12] if any(pair) else ""


def _hash(item: Mapping[str, Json]) -> int:
    import orjson

    with suppress(TypeError, ValueError):
        return hash(orjson.dumps(item))
    return id(item)
