"""The choices of one request by name: choices that narrow it, and choices that replace a key of the configuration.

Values of a request, held to the JSON Schema (2020-12) that describes them: the part of its language that is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any, TypedDict

from retrieve_cli.api.choices import SEARCH
from retrieve_cli.api.table import PYTHON, Choice
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import FileHead, Json, Request
from retrieve_cli.contracts.canonical import displayed
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.search.options import SearchOptions

Texts = str | Sequence[str]
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Filters = Texts | Mapping[str, Json]
Named = Callable[[Choice], str]
"""Name of a choice in an error: its flag, its key or its argument."""


class Choices(TypedDict, total=False):
    """Choices of one request, as api/choices.py describes them: a test holds both to each other, for type checkers read
    no table. One that is None is not made. `chunks` ranks chunks, `files` are paths."""

    k: int
    limit: int
    top_k: int
    n: int
    offset: int
    sort: str | None
    min_score: float | str | None
    min_confidence: float | None
    dependencies: bool
    facets: Texts
    related: str
    filters: Filters
    filter: Filters
    doc_ids: Texts
    tenant: str | None
    tenant_id: str | None
    files: Paths
    like: Texts
    not_like: Texts
    also: Texts
    exact_words: bool
    mode: str
    retrievers: Texts
    strategies: Texts
    engine: str
    rerank: bool | None
    expand: bool | None
    route: bool
    boosts: Texts
    deadline_ms: float | None
    grade: float | None
    similarity_top_k: int | None
    rerank_keep: int | None
    rerank_min_score: float | None
    rerank_depth: int | None
    rerank_interpolate: float | None
    chunks: bool
    context: int
    max_chunks: int | None
    max_tokens: int | None
    explain: bool


IN_REQUEST = tuple("query id also like not_like files filters doc_ids tenant retrievers generation at_least".split())
_IDS = frozenset({"like", "not_like", "doc_ids"})
_SEVERAL = ("also", "like", "not_like", "retrievers", "doc_ids")
"""Choices that are part of the request; the others are options of its search."""


def given_choices(choices: Mapping[str, Any]) -> list[tuple[Choice, str, Any]]:
    """Return arguments of a search that have a value: row, spelling, value.

    Raises:
        UsageError: one is unknown, or two spellings of one have different values.
    """
    return SEARCH.spelt(choices, "a search", among=SEARCH.in_door(PYTHON), what="argument")


def under_choices(settings: Settings, choices: Mapping[str, Any]) -> Settings:
    """Return the settings with the choices in place of the keys that they replace; None leaves a key unchanged.

    Raises:
        UsageError: a choice is unknown, or its value is not one that it takes.
    """
    from retrieve_cli.config.loading import override

    for row, spelling, value in given_choices(choices):
        if row.key:
            section, _, key = row.key.partition(".")
            chosen = list(texts(value, spelling)) if row.several else value
            settings = override(settings, {section: {key: chosen}}, where=f"the argument {spelling}")
    return settings


def request_of(
    text: str,
    choices: Mapping[str, Any],
    *,
    id_: str = "1",
    heads: Sequence[FileHead] = (),
    named: Named = lambda row: row.name,
) -> Request:
    """Return the request that a text and its choices are.

    Raises:
        UsageError: a choice that narrows the search has a value of another kind, or one that is not UTF-8.
    """
    if not isinstance(text, str):
        raise UsageError(f"a query is a text, not {quoted(text)}", hint='for example: index.search("segment lungs")')
    given = {row.name: value for row, _, value in given_choices(choices) if row.name in IN_REQUEST}
    places = {name: named(SEARCH.rows[name]) for name in given}
    readers = {name: ids if name in _IDS else texts for name in _SEVERAL if name in given}
    several = {name: read(given[name], places[name]) for name, read in readers.items()}
    paths = given.get("files", ())
    paths = (paths,) if isinstance(paths, str | Path) else paths
    tenant = exact(texts(given["tenant"], places["tenant"])[:1], places["tenant"]) if "tenant" in given else (None,)
    return Request(
        text=sound(text),
        id=sound(id_),
        also=tuple(map(sound, several.get("also", ()))),
        files=tuple(map(os.fspath, paths)),
        heads=tuple(heads),
        like=exact(several.get("like"), places.get("like", "")),
        not_like=exact(several.get("not_like"), places.get("not_like", "")),
        filters=conditions(given["filters"], places["filters"]) if "filters" in given else (),
        doc_ids=exact(several["doc_ids"], places["doc_ids"]) if "doc_ids" in given else None,
        tenant=tenant[0],
        retrievers=tuple(dict.fromkeys(several.get("retrievers", ()))),
    )


def options_of(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices that are no part of the request by their names in `SearchOptions`.

    Raises:
        UsageError: a value is not one that its choice takes; values of keys are checked by the configuration.
    """
    options: dict[str, Any] = {}
    for row, spelling, value in given_choices(choices):
        if row.name in IN_REQUEST or (row.key and not row.option):
            continue  # the options of settings have what stands for a key
        if row.several:
            options[row.chosen] = exact(texts(value, spelling), spelling) or None
        elif row.key:
            options[row.chosen] = value
        else:
            options[row.chosen] = checked(value, row.schema, f"the argument {spelling}", hint=row.about)
    if "chunks" in options:
        options["unit"] = "chunk" if options.pop("chunks") else "record"
    return {name: value for name, value in options.items() if name in SearchOptions.__annotations__}


def conditions(given: Filters | None, place: str) -> tuple[str, ...]:
    """Return conditions on records that are given as a text, as several, or as an object; a text may be an object, too,
    as JSON.

    Raises:
        UsageError: they are of another kind, not UTF-8, or an object that cannot be written as conditions.
    """
    if isinstance(given, Mapping):
        from retrieve_cli.retrieval.queries.filters import filters_of

        return exact(filters_of(given, place), place)
    found: list[str] = []
    for text in exact(texts(given, place), place):
        written = _object_in(text) if text.startswith("{") else None
        found += [text] if written is None else conditions(written, place)
    return tuple(found)


def _object_in(text: str) -> dict[str, Json] | None:
    from retrieve_cli.untrusted.foreign_json import foreign_json

    try:
        value = foreign_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def texts(value: Any, name: str) -> tuple[str, ...]:
    """Return a text, or several, as several.

    Raises:
        UsageError: it is neither.
    """
    if value is None:
        return ()
    several = (value,) if isinstance(value, str) else value
    if not isinstance(several, Sequence) or not all(isinstance(each, str) for each in several):
        raise UsageError(f"{name} takes a list of strings, not {quoted(value)}", hint=f'for example: {name}=["…"]')
    return tuple(several)


def ids(value: Any, name: str) -> tuple[str, ...]:
    """Return an id, or several, as texts: a number is the id that it is printed as.

    Raises:
        UsageError: it is neither a text, nor a number, nor a list of these.
    """
    several = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    numbers = [isinstance(each, Real) and not isinstance(each, bool) for each in several]
    printed = [displayed(str(each)) if is_number else each for each, is_number in zip(several, numbers, strict=True)]
    return texts(printed if any(numbers) else value, name)


def sound(text: str) -> str:
    """Return the text as UTF-8 can hold it: bytes of another encoding and halves of characters become U+FFFD."""
    if text.isascii():
        return text
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def exact(given: Iterable[str] | None, where: str) -> tuple[str, ...]:
    """Return texts that decide which records may be found, unchanged.

    Raises:
        UsageError: UTF-8 cannot hold one of them, and with another in its place it would mean something else.
    """
    several = tuple(given or ())
    for text in several:
        if sound(text) != text:
            raise UsageError(f"{where} is not UTF-8: {quoted(sound(text))}", hint="write it in UTF-8")
    return several


Schema = Mapping[str, Json]

_NAMES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


def checked(value: Json, schema: Schema, place: str, *, hint: str = "") -> Json:
    """Return a value that a schema allows, whole numbers as integers.

    Raises:
        UsageError: the schema does not allow the value; `place` names the key.
    """
    kinds = kinds_of(schema)
    kind = _kind(value)
    if kind == "integer" and "integer" in kinds:
        value = int(value)
    elif kind == "integer" and "number" in kinds:
        kind = "number"
    if kind not in kinds:
        wanted = " or ".join(_NAMES[name] for name in kinds)
        raise UsageError(f"{place} must be {wanted}, not {quoted(value)}", hint=hint)
    if "enum" in schema and value not in schema["enum"]:
        from retrieve_cli.config.values import unknown

        what = schema.get("title", "value")
        raise unknown(f"{what} {quoted(value)} of {place}", str(value), schema["enum"])
    if kind in ("integer", "number"):
        _check_range(value, schema, place, hint)
    elif kind == "string":
        _check_text(value, schema, place, hint)
    elif kind == "array":
        _check_count(len(value), schema, "Items", place, hint)
        inner = schema.get("items", {})
        if not inner or _are_plain_texts(value, inner):  # one that says nothing is not followed into the depth
            return value
        return [checked(each, inner, f"item {number} of {place}", hint=hint) for number, each in enumerate(value, 1)]
    elif kind == "object":
        return _object(value, schema, place, hint)
    return value


def kinds_of(schema: Schema) -> Sequence[str]:
    """Return the types that a schema allows."""
    kinds = schema.get("type", list(_NAMES))
    return [kinds] if isinstance(kinds, str) else kinds


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number" if isfinite(value) else "number that is not finite"
    for kind, name in ((str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "null"


def _check_range(value: float, schema: Schema, place: str, hint: str) -> None:
    low, high = schema.get("minimum"), schema.get("maximum")
    if (low is None or value >= low) and (high is None or value <= high):
        return
    bounds = (("from", low), ("to" if low is not None else "up to", high))
    limits = " ".join(f"{word} {limit:,}" for word, limit in bounds if limit is not None)
    raise UsageError(f"{place} must be {limits}, not {quoted(value)}", hint=hint)


def _check_text(value: str, schema: Schema, place: str, hint: str) -> None:
    if len(value) > (most := schema.get("maxLength", len(value))):
        raise UsageError(f"{place} has {len(value):,} characters, more than {most:,}", hint=hint)
    if "contentEncoding" in schema:
        return  # what decodes it says so
    if "pattern" in schema and not re.search(schema["pattern"], value):
        raise UsageError(f"{place} cannot be {quoted(value)}", hint=hint)


def _check_count(count: int, schema: Schema, what: str, place: str, hint: str) -> None:
    if count < schema.get(f"min{what}", 0):
        raise UsageError(f"{place} is empty", hint=hint or "remove the key")
    if count > (most := schema.get(f"max{what}", count)):
        raise UsageError(f"{place} has {count:,} entries, more than {most:,}", hint=hint)


def _are_plain_texts(values: Sequence[Json], schema: Schema) -> bool:
    """Return True if values are texts that a schema of texts allows: thousands of ids, looked at together."""
    most = schema.get("maxLength", 0)
    plain = kinds_of(schema) == ["string"] and not {"enum", "pattern"}.intersection(schema)
    return plain and all(isinstance(value, str) and len(value) <= most for value in values)


def _object(value: Mapping[str, Json], schema: Schema, place: str, hint: str) -> Json:
    _check_count(len(value), schema, "Properties", place, hint)
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for key in value:
        if key not in known and others is False:
            from retrieve_cli.config.values import unknown

            raise unknown(f"key {quoted(key)} of {place}", key, known)
    for key in schema.get("required", ()):
        if key not in value:
            raise UsageError(f"{place} has no `{key}`", hint=hint)
    inner = {key: known.get(key, others) for key in value}
    return {
        key: checked(each, inner[key], f"`{key}` of {place}", hint=hint) if inner[key] else each
        for key, each in value.items()
    }
