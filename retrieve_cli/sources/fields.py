"""Turn a catalog's JSON object into a Record: known spellings, messy values, weighted fields, composed text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import ClassVar, Final

from retrieve_cli.contracts import Field, Json, Record
from retrieve_cli.contracts.terms.licences import spdx_of
from retrieve_cli.contracts.terms.modalities import modality_of
from retrieve_cli.contracts.terms.tenants import KEYS, TENANT, conflict
from retrieve_cli.contracts.tools import is_tool
from retrieve_cli.errors import quoted
from retrieve_cli.frozen import Described, Frozen, field
from retrieve_cli.sources.values import ADDRESS, addresses, first, first_at, strings, value_at
from retrieve_cli.storage.manifest import sha1

_TOOL_WORDS: Final = "tool_words"
"""Key of the words of a tool's name, which are its name in the text."""
TOOL_TEXTS: Mapping[str, float] = {"tool_server": 1.0, "tool_arguments": 0.5}
"""Texts of a tool's record, with their weights; `sources/catalogs/tools.py` makes them. Arguments are last, since they
may be longer than what an encoder reads."""
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "id": ("_id", "id", "identifier", "@id"),
    "name": ("name", "title"),
    "description": ("description", "text", "abstract"),
    "url": ("url", "codeRepository", "homepage"),
    "license": ("license", "supporting_data.license"),
    "keywords": ("keywords",),
    "features": ("featureList",),
    "category": ("applicationCategory", "category", "categories"),
    "language": ("programmingLanguage",),
    "domain": ("domain",),
    "group": ("group",),
    "modalities": ("imagingModality", "supportingData.imagingModality", "supporting_data.modalities"),
    "dimensions": ("hasDimensionality", "supportingData.hasDimensionality", "supporting_data.dimensions"),
    "formats": ("datasetFormat", "supportingData.datasetFormat", "supporting_data.formats"),
    "body_sites": ("bodySite", "supportingData.bodySite"),
    "demo_url": ("runnableExample.url", "runnableExample", "demo_url", "supporting_data.demo_url"),
    "tenant": (),
    **{name: (name,) for name in TOOL_TEXTS},
}
"""Keys of a catalog that may hold each field, best first; a dot steps into an object or a list of objects."""

DEFAULT_WEIGHTS: Mapping[str, float] = {
    "name": 2.0,
    **dict.fromkeys("description domain features keywords category language".split(), 1.0),
    **dict.fromkeys("body_sites formats modalities dimensions".split(), 1.0),
    **TOOL_TEXTS,
}
"""Fields that make up a record's text, in this order; a weight of 0 removes a field from the text."""

_LABELS = {"features": "Features", "keywords": "Keywords", "category": "Category", "language": "Language",
           "body_sites": "Body sites", "tool_arguments": "Arguments", "tool_server": "Server"}  # fmt: skip
_FORMAT_FIELDS = ("formats", "modalities", "dimensions")
_LISTS = frozenset({"keywords", "features", "category", "language", "body_sites"})
_ALL_VALUES = frozenset({"description", *_LISTS, *_FORMAT_FIELDS})
"""Fields that collect the values of every spelling; the other fields take the first spelling that has a value."""

_FORMAT_NAMES = {"dcm": "DICOM", "nii": "NIfTI", "nii.gz": "NIfTI", "nifti": "NIfTI", "tif": "TIFF", "jpg": "JPEG",
                 "jpeg": "JPEG"}  # fmt: skip
_NO_TEXT = frozenset({"id", "url", "license", "group", "demo_url", TENANT})
"""Fields that never enter a record's text by a key that is mapped to them."""
_WORD = re.compile(r"[^\W\d_]{2,}")
ELSEWHERE = frozenset({"@context", "@type", "metadata", "source", "supporting_data", "supportingData", *KEYS})
"""Keys that are read by other rules than spellings, or never hold text to search."""
_OF_ANSWERS = frozenset({"rank", "score", "retrieval_score", "final_score", "relevance", "source_scores"})
"""Keys of a candidate in an answer, which is known by its `retrieval_score`: they do not describe the record."""
_NAMED = 20
"""Keys of a record without text that are named."""
_MOST_KEYS, _LOOKED_AT = 100, 200
"""Unread keys of a record that are counted; characters of a key or a text that are looked at."""
_KEPT = ELSEWHERE.union(*SPELLINGS.values())
"""Keys that keep their names if they are mapped to another field: they feed both."""
_FIELD_OF = {path: name for name, paths in SPELLINGS.items() for path in paths}
_READING = 3
"""Version of the rules that turn an object into a record; spellings and weights are not part of it."""
LONGEST_NAME = 1000
"""Maximum characters of a name: it is indexed with each chunk of its record."""
LONGEST_ID = 4096
"""Maximum characters of an id, which each chunk repeats: a catalog line of 64 MB may have 200,000 chunks."""


_MOST_SHAPES = 256
"""Sets of keys that are remembered, of objects with up to `_MOST_KEYS` keys."""


class ObjectShape(Frozen):
    """Paths and keys that all objects with the same keys have in common."""

    paths: Sequence[tuple[str, Sequence[str]]]
    """The fields that may have values, each with its paths that lead to one."""
    metadata: Sequence[str]
    """Keys that are not shown as fields."""
    unread: Sequence[str]
    """Keys that no field is read from."""

    @classmethod
    def of(cls, keys: Sequence[str], spellings: Mapping[str, Sequence[str]], read: Collection[str]) -> ObjectShape:
        """Return the shape of objects with these keys, of which the `read` ones feed fields."""
        shown = _shown_elsewhere(tuple(tuple(spellings[name]) for name in _SHOWN))
        held = frozenset(keys)
        present = {name: [path for path in paths if _begins(path, held)] for name, paths in spellings.items()}
        return cls(
            [(name, paths) for name, paths in present.items() if paths],
            [key for key in keys if key not in shown],
            [key for key in keys if key not in read],
        )


def _begins(path: str, keys: Collection[str]) -> bool:
    """Return True if a path begins at one of the keys."""
    return path in keys or path.partition(".")[0] in keys


class FieldMap(Described):
    """Keys of a catalog that feed each field, and the weight of each field."""

    apart: ClassVar = ("shapes",)
    spellings: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, float]
    read: frozenset[str] = frozenset()
    """Keys of an object that are read: its first steps on the way to any field, and keys that others read."""
    renames: Mapping[str, str] = {}
    """Keys that are read as if the catalog had another name for them. They are not on the card: a catalog with these
    names has the same records."""
    configured: bool = False
    """True if the configuration maps or weights a key, so that no mapping is inferred."""
    shapes: dict[tuple[str, ...], ObjectShape] = field(default_factory=dict)
    """Shapes by the keys of objects: most objects of a catalog have the same."""

    def shape_of(self, item: Mapping[str, Json]) -> ObjectShape:
        """Return the shape of an object whose keys are renamed."""
        keys = tuple(item)
        shape = self.shapes.get(keys)
        if shape is None:
            shape = ObjectShape.of(keys, self.spellings, self.read)
            if len(self.shapes) < _MOST_SHAPES and len(keys) <= _MOST_KEYS:
                self.shapes[keys] = shape
        return shape

    @property
    def card(self) -> Mapping[str, Json]:
        """Return the settings that shape the records; part of the recipe."""
        spellings = {name: list(paths) for name, paths in self.spellings.items()}
        weights = [[name, weight] for name, weight in self.weights.items()]
        return {"kind": "catalog", "reading": _READING, "spellings": spellings, "weights": weights}

    @classmethod
    def of(cls, configured: Mapping[str, tuple[str, float | None]], others: Iterable[str] = ()) -> FieldMap:
        """Return the built-in spellings and weights, completed by the mapping and weights in config.yaml.

        `configured` maps a key of the catalog to (field, weight); without a weight, a known field keeps its own. A key
        that is mapped to another field is renamed; one that is already a spelling of some field, or a dotted path,
        feeds this field as well. A key that is mapped to an unknown field becomes a new field at the end of the text.
        `others` are keys that other parts of the program read.
        """
        spellings, weights = dict(SPELLINGS), dict(DEFAULT_WEIGHTS)
        renames: dict[str, str] = {}
        for key, (name, weight) in configured.items():
            known = spellings.get(name, ())
            if key != name and "." not in key and key not in _KEPT:
                renames[key] = key_of(name)
                spellings[name] = known if name in SPELLINGS or name in known else (*known, name)
            elif key not in known:
                spellings[name] = (key, *known)
            if name == TENANT or (name in _NO_TEXT and (key != name or weight is None)):
                continue
            weights[name] = weights.get(name, 1.0) if weight is None else weight
        paths = [path for some in spellings.values() for path in some]
        read = ELSEWHERE.union(others, paths, (path.split(".")[0] for path in paths))
        return cls(spellings, weights, read, renames, bool(configured))


def key_of(name: str) -> str:
    """Return the key of a catalog that a field of that name is read from."""
    spellings = SPELLINGS.get(name) or (name,)
    return name if name in spellings else spellings[0]


class TenantUnclear(Exception):
    """A record whose keys name different tenants; the message is the reason to reject it."""


def renamed(item: Mapping[str, Json], renames: Mapping[str, str]) -> Mapping[str, Json]:
    """Return the object with its keys renamed, in their order.

    Of several keys with one new name, a field of many values gets the values of all, in the order of `renames`, then
    those that it has already. Any other field gets the first value; the other keys keep their names, and a value that
    it has already gives way.

    Raises:
        TenantUnclear: several keys name the tenant, and differ.
    """
    sources: dict[str, list[str]] = {}
    for key in renames:
        if key in item:
            sources.setdefault(renames[key], []).append(key)
    if not sources:
        return item
    names: dict[str, str] = {}
    values: dict[str, list[Json]] = {}
    dropped: set[str] = set()
    for name, keys in sources.items():
        own = [name] if name in item and name not in renames else []
        filled = [key for key in keys if strings(item[key])]
        if name == TENANT and (reason := conflict({key: item[key] for key in (*keys, *KEYS) if key in item})):
            raise TenantUnclear(reason)
        if own and not filled:
            dropped.update(keys)
            continue
        first = next(iter(filled), keys[0])
        names[first] = name
        if _FIELD_OF.get(name) not in _ALL_VALUES:
            dropped.update(own, ["_id"] if name == "id" and filled else ())
        elif len(several := [*filled, *own]) > 1:
            values[first] = [part for key in several for part in _parts(name, item[key])]
            dropped.update(several)
    return {
        names.get(key, key): values.get(key, value) for key, value in item.items() if key in names or key not in dropped
    }


def _parts(name: str, value: Json) -> list[Json]:
    """Return the values of a key as a list."""
    if isinstance(value, str) and name == "keywords":
        return [part.strip() for part in value.split(",")]
    return value if isinstance(value, list) else [value]


def record_from(item: Mapping[str, Json], fields: FieldMap, *, source: str, line: int) -> Record | str:
    """Return the record that a catalog's object describes, or the reason why it cannot become a record."""
    item = _without_scores(item)
    stored = is_stored(item)
    if not stored and fields.renames:
        try:
            item = renamed(item, fields.renames)
        except TenantUnclear as error:
            return str(error)
    shape = ObjectShape.of(tuple(item), SPELLINGS, ()) if stored else fields.shape_of(item)
    values = {name: _gather(item, name, paths) for name, paths in shape.paths}
    texts = item["texts"] if stored else _texts(item, values)
    weights = fields.weights.items()
    pieces = tuple(Field(name, texts[name], weight) for name, weight in weights if weight > 0 and texts.get(name))
    text = compose(pieces)
    if not any(char.isalnum() for char in text):
        return _no_text(item, fields)
    metadata = dict(item["metadata"]) if stored else _metadata(item, shape)
    owners = [key for key, name in fields.renames.items() if stored and name == TENANT]
    if reason := _set_tenant(metadata if stored else item, [*fields.spellings[TENANT], *owners], metadata):
        return reason
    first_of = {name: first(found) for name, found in values.items()}.get
    own_id = first_of("id", "")
    if len(own_id) > LONGEST_ID:
        return f"its id has {len(own_id):,} characters; the limit is {LONGEST_ID:,}"
    unread = [name for name in texts if name not in fields.weights] if stored else shape.unread
    return Record(
        id=own_id or _own_id(item),
        name=(first_of("name") or own_id or text.split("\n")[0][:80])[:LONGEST_NAME].strip(),
        text=text,
        kind="catalog",
        source=source,
        line=line,
        description=first_of("description", ""),
        url=first_of("url") or None,
        license=_licence(item, values.get("license", []), metadata) or None,
        keywords=tuple(values.get("keywords", ())),
        group=first_of("group") or None,
        fields=pieces,
        supporting_data=_supporting_data(values),
        metadata=metadata,
        unread=() if is_tool(metadata) else _unread(texts if stored else item, unread),
    )


def _texts(item: Mapping[str, Json], values: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the text of each field of an object, given the values of its fields."""
    texts = {name: _field_text(name, found) for name, found in values.items()}
    if is_tool(item):
        texts["name"] = first(strings(item.get(_TOOL_WORDS))) or texts.get("name", "")
    return texts


def _no_text(item: Mapping[str, Json], fields: FieldMap) -> str:
    """Return the reason to reject a record without text, with its keys and the setting that maps them."""
    listed = ", ".join(quoted(key) for key in islice(item, _NAMED))
    keys = f"{listed}{', …' if len(item) > _NAMED else ''}; catalog.fields in config.yaml maps keys"
    return f"it has no text: none of the fields {', '.join(fields.weights)} contains a word; its keys are {keys}"


def is_stored(item: Mapping[str, Json]) -> bool:
    """Return True if an object is a record as `retrieve inspect records --json` prints it, its texts ready."""
    if not {"fields", "sha1"} <= item.keys() or not isinstance(item.get("metadata"), dict):
        return False
    texts = item.get("texts")
    return isinstance(texts, dict) and all(isinstance(text, str) for text in texts.values())


def as_renamed_item(item: Mapping[str, Json], fields: FieldMap) -> Mapping[str, Json]:
    """Return an object of a catalog with its keys renamed; unchanged if it will be rejected or is stored."""
    with suppress(TenantUnclear):
        return item if is_stored(item) else renamed(item, fields.renames)
    return item


def has_id(item: Mapping[str, Json], fields: FieldMap) -> bool:
    """Return True if an object has an id."""
    return bool(first_at(item, fields.spellings["id"]))


def id_of(item: Mapping[str, Json], paths: Sequence[str]) -> str:
    """Return the id of a catalog's object, from the first path that has one, or else from its content."""
    return first(_gather(item, "id", paths)) or _own_id(item)


def _own_id(item: Mapping[str, Json]) -> str:
    return sha1(_without_scores(item))[:12]


def _without_scores(item: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the object without what an answer added to it."""
    ignored = _OF_ANSWERS if "retrieval_score" in item else ()
    return {key: value for key, value in item.items() if key not in ignored} if ignored else item


def _unread(item: Mapping[str, Json], keys: Iterable[str]) -> tuple[str, ...]:
    """Return the keys that have text; of very many the first ones."""
    found = (key[:_LOOKED_AT] for key in keys if _has_words(item[key]))
    return tuple(islice(found, _MOST_KEYS))


def _has_words(value: Json) -> bool:
    """Return True for a text, or a list of texts, of more than a word and a few letters that is not an address."""
    if isinstance(value, list):
        return any(_has_words(part) for part in value[:5] if isinstance(part, str))
    words = _WORD.findall(value[:_LOOKED_AT]) if isinstance(value, str) and not ADDRESS.match(value) else []
    return sum(map(len, words)) >= 10 and (len(words) > 1 or not value.isascii())


def compose(pieces: Iterable[Field]) -> str:
    """Return the text that is chunked and embedded: `name: description (domain: …)`, labelled lists, format tokens."""
    texts = {piece.name: piece.text for piece in pieces}
    name, description = texts.pop("name", ""), texts.pop("description", "")
    head = f"{name}: {description}" if name and description else name or description
    if domain := texts.pop("domain", ""):
        head = f"{head} (domain: {domain})".lstrip()
    tokens = " ".join(texts.pop(field) for field in _FORMAT_FIELDS if field in texts)
    lines = [f"{_LABELS.get(field, field)}: {text}" for field, text in texts.items()]
    return "\n".join(part for part in (head, *lines, tokens) if part)


def _gather(item: Mapping[str, Json], name: str, paths: Sequence[str]) -> list[str]:
    texts: list[str] = []
    for path in paths:
        value = item[path] if path in item else value_at(item, path)
        if name == "keywords" and isinstance(value, str):
            value = value.split(",")  # as schema.org writes them
        texts += addresses(value) if path.endswith(("runnableExample", "demo_url")) else strings(value)
        if texts and name not in _ALL_VALUES:
            break
    if name in _FORMAT_FIELDS:
        texts = [_format_name(text, name) for text in texts]
    if len(texts) < 2:
        return texts
    return list({text.casefold(): text for text in reversed(texts)}.values())[::-1]


def _format_name(text: str, field: str) -> str:
    if field == "dimensions" and (digit := re.fullmatch(r"(\d)\s*+(?:-\s*+)?d?", text, re.IGNORECASE)):
        return f"{digit.group(1)}D"
    if field == "modalities" and (modality := modality_of(text)):
        return modality
    name = _FORMAT_NAMES.get(text.lower().lstrip("."))
    return name or (text.lstrip(".").upper() if text.islower() and field == "formats" else text)


def _field_text(name: str, values: list[str]) -> str:
    if not values:
        return ""
    if name in _FORMAT_FIELDS:
        return " ".join("format:" + re.sub(r"\s+", "-", value) for value in values)
    if name in _LISTS:
        return ", ".join(value for value in values if not ADDRESS.match(value))
    return "\n".join(values) if name == "description" else ", ".join(values)


def _supporting_data(values: Mapping[str, list[str]]) -> dict[str, Json]:
    lists = {name: values.get(name, []) for name in ("modalities", "dimensions", "formats")}
    return {**lists, "demo_url": first(values.get("demo_url", [])) or None}


def _licence(item: Mapping[str, Json], wordings: Sequence[str], metadata: dict[str, Json]) -> str:
    """Return the licence as an SPDX id, from its name or address; the original wording goes to the metadata, and so do
    several licences."""
    if not wordings:
        return ""
    stated = item.get("license")
    described = [stated.get(key) for key in ("@id", "id", "url")] if isinstance(stated, Mapping) else []
    addresses = [text for value in described for text in strings(value)]
    spdx = next((name for text in (wordings[0], *addresses) if (name := spdx_of(text))), None)
    if spdx is not None and spdx != wordings[0]:
        metadata.setdefault("license_original", wordings[0])
    if len(wordings) > 1:
        metadata.setdefault("licenses", [spdx_of(text) or text for text in wordings])
    return spdx or wordings[0]


def _set_tenant(item: Mapping[str, Json], paths: Sequence[str], metadata: dict[str, Json]) -> str:
    """Copy the tenant from its configured keys into the metadata; return the reason if the keys disagree."""
    tenants = {path: value for path in paths if strings(value := item[path] if path in item else value_at(item, path))}
    if tenants:
        if reason := conflict({**tenants, **{key: metadata.get(key) for key in KEYS}}):
            return reason
        metadata[TENANT] = next(iter(tenants.values()))
    return ""


_SHOWN = ("id", "name", "description", "url", "license", "keywords", "group")


@cache
def _shown_elsewhere(spellings: Sequence[Sequence[str]]) -> frozenset[str]:
    """Return the keys of an object that are shown as fields of the record."""
    return frozenset(TOOL_TEXTS).union([_TOOL_WORDS], *spellings) - {"codeRepository"}


def _metadata(item: Mapping[str, Json], shape: ObjectShape) -> dict[str, Json]:
    """Return the keys of the object that are not shown elsewhere; BEIR's `metadata` is unfolded."""
    rest = {key: item[key] for key in shape.metadata}
    inner = rest.pop("metadata", None)
    if isinstance(inner, Mapping):
        return {**inner, **rest}
    return rest if inner is None else {**rest, "metadata": inner}
