"""Values of a request, held to the JSON Schema (2020-12) that describes them: the part of its language that is used."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted

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
    """The type of a value in the language of schemas."""
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
    limits = " ".join(
        f"{word} {limit:,}"
        for word, limit in (("from", low), ("to" if low is not None else "up to", high))
        if limit is not None
    )
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
