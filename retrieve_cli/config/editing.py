"""Values changed in a configuration file where they stand, so that comments, order and spelling stay as they were.

The parser says where each value begins and ends; only those characters are replaced. What comes out is read again, and
nothing is given back unless it says what was there before with the changes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError

_INDENT = "  "
Changes = Mapping[str, Mapping[str, Json]]
"""By section and key."""


def changed(text: str, changes: Changes, *, where: str) -> str:
    """The text of a configuration file with these values in it; a value may be a mapping, whose keys are changed alone.

    Raises:
        UsageError: it is no such file, or written in a way (an alias, a tag) that allows no change in place.
    """
    try:
        wanted = _merged(yaml.safe_load(text) or {}, changes)
        for path, value in _leaves(changes):
            text = _with(text, path, yaml.safe_dump(value).removesuffix("...\n").strip())
        same = yaml.safe_load(text) == wanted
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise _unchangeable(changes, where) from error
    if not same:
        raise _unchangeable(changes, where)
    return text


def _leaves(changes: Mapping[str, Json], *path: str) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Each value that is no mapping, with the keys that lead to it."""
    for key, value in changes.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, *path, key)
        else:
            yield (*path, key), value


def _with(text: str, path: tuple[str, ...], value: str) -> str:
    """The text with one value replaced, or added where it was not."""
    end = "\r\n" if "\r\n" in text else "\n"
    keys: Any = yaml.compose(text, yaml.SafeLoader)
    if keys is None or (_pair(keys, path[0]) is None and not keys.flow_style):
        return _appended(text, end.join(_nested(path, value, "")) + end, end)
    for at, key in enumerate(path):
        found = _pair(keys, key)
        if found is None:
            return _added(text, keys, path[at:], value, end)
        name, inner = found
        if at == len(path) - 1:
            if not isinstance(inner, yaml.ScalarNode) or not _within(inner, keys):
                raise ValueError("the value is not a plain one that stands there")
            return _spliced(text, inner.start_mark.index, inner.end_mark.index, value)
        if isinstance(inner, yaml.ScalarNode) and not inner.value:  # `fusion:` and nothing below
            line = text.find(end, name.end_mark.index)
            place = len(text) if line < 0 else line  # behind a comment that stands there
            indent = " " * name.start_mark.column + _INDENT
            return _spliced(text, place, place, end + end.join(_nested(path[at + 1 :], value, indent)))
        if not _within(inner, keys):
            raise ValueError("the value stands elsewhere")
        keys = inner
    raise ValueError("no key is named")


def _added(text: str, keys: Any, path: tuple[str, ...], value: str, end: str) -> str:
    """The text with a value in a mapping that does not have its key."""
    if keys.flow_style:
        return _first_in(text, keys, _flow(path, value))
    first = keys.value[0][0].start_mark
    indent = " " * first.column
    lines = _nested(path, value, indent)
    return _spliced(text, first.index, first.index, f"{end.join(lines).removeprefix(indent)}{end}{indent}")


def _nested(path: tuple[str, ...], value: str, indent: str) -> list[str]:
    """The lines of a value below its keys; two keys deep in braces."""
    if len(path) == 1:
        return [f"{indent}{path[0]}: {value}"]
    if len(path) == 2 and indent:
        return [f"{indent}{path[0]}: {{{path[1]}: {value}}}"]
    return [f"{indent}{path[0]}:", *_nested(path[1:], value, indent + _INDENT)]


def _flow(path: tuple[str, ...], value: str) -> str:
    return f"{path[0]}: {value if len(path) == 1 else '{' + _flow(path[1:], value) + '}'}"


def _appended(text: str, section: str, end: str) -> str:
    """The text with a section behind it, set apart by a blank line."""
    if not text.strip():
        return text + section
    return text + ("" if text.endswith("\n") else end) + ("" if text.endswith(end * 2) else end) + section


def _first_in(text: str, mapping: Any, entry: str) -> str:
    """The text with another entry behind the brace that opens a mapping."""
    start = mapping.start_mark.index + 1
    return _spliced(text, start, start, f"{entry}{', ' if mapping.value else ''}")


def _pair(node: Any, key: str) -> tuple[Any, Any] | None:
    """The nodes of a key and its value."""
    if not isinstance(node, yaml.MappingNode):
        raise TypeError("no mapping")
    return next(((name, value) for name, value in node.value if name.value == key), None)


def _within(inner: Any, outer: Any) -> bool:
    """Whether a node stands within another; the value of an alias stands where its anchor is."""
    return bool(outer.start_mark.index <= inner.start_mark.index <= inner.end_mark.index <= outer.end_mark.index)


def _spliced(text: str, start: int, end: int, piece: str) -> str:
    return text[:start] + piece + text[end:]


def _merged(value: Any, changes: Mapping[str, Json]) -> Any:
    merged = dict(value or {})
    for key, change in changes.items():
        merged[key] = _merged(merged.get(key), change) if isinstance(change, Mapping) else change
    return merged


def _unchangeable(changes: Changes, where: str) -> UsageError:
    lines = ", ".join(f"{section}.{key}: {value}" for section, keys in changes.items() for key, value in keys.items())
    return UsageError(f"{where} is written in a way that allows no change in place", hint=f"set there by hand: {lines}")
