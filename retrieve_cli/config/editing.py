"""Changes of values in a configuration file that keep its comments, order and spelling.

The parser reports where each value begins and ends; only those characters are replaced. The result is read again, and
returned only if it has the previous values with the changes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError
from retrieve_cli.untrusted import yaml_text

_INDENT = "  "
_MOST_VALUES = 10_000
Changes = Mapping[str, Mapping[str, Json]]
"""By section and key."""


def changed(text: str, changes: Changes, *, where: str) -> str:
    """Return the text of a configuration file with these values in it.

    Raises:
        UsageError: it is not a configuration file, or is written in a way (an alias, a tag) that cannot be edited.
    """
    try:
        before = yaml_text.load(text, values=_MOST_VALUES) or {}
        wanted = {
            **before,
            **{section: _with_keys(before.get(section) or {}, keys) for section, keys in changes.items()},
        }
        for section, keys in changes.items():
            for key, value in keys.items():
                text = _with(text, section, key, value)
        same = yaml_text.load(text, values=_MOST_VALUES) == wanted
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise _unchangeable(changes, where) from error
    if not same:
        raise _unchangeable(changes, where)
    return text


def _with(text: str, section: str, key: str, wanted: Json) -> str:
    """Return the text with one value replaced or added; of a mapping, the values of its keys."""
    end = "\r\n" if "\r\n" in text else "\n"
    root: Any = yaml.compose(text, yaml.SafeLoader)
    value = dumped(wanted)
    if root is None:
        return _appended(text, f"{section}:{end}{_INDENT}{key}: {value}{end}", end)
    found = _pair(root, section)
    if found is None and root.flow_style:
        return _first_in(text, root, f"{section}: {{{key}: {value}}}")
    if found is None:
        return _appended(text, f"{section}:{end}{_INDENT}{key}: {value}{end}", end)
    name, keys = found
    if isinstance(keys, yaml.ScalarNode) and not keys.value:  # `fusion:` and nothing below
        line = text.find(end, name.end_mark.index)
        place = len(text) if line < 0 else line  # behind a comment that stands there
        return _spliced(text, place, place, f"{end}{_INDENT}{key}: {value}")
    old = _pair(keys, key)
    if old is not None and isinstance(wanted, Mapping) and isinstance(old[1], yaml.MappingNode) and old[1].value:
        return _with_all(text, section, key, wanted)
    return _replaced(text, keys, key, value, end)


def _with_all(text: str, section: str, key: str, wanted: Mapping[str, Json]) -> str:
    """Return the text with values of an existing mapping replaced or added, one by one."""
    end = "\r\n" if "\r\n" in text else "\n"
    for name, value in wanted.items():
        root: Any = yaml.compose(text, yaml.SafeLoader)
        keys = _value(root, section)
        inner = _value(keys, key)
        if not _within(inner, keys):
            raise ValueError("the mapping is missing")
        text = _replaced(text, inner, name, dumped(value), end)
    return text


def _replaced(text: str, keys: Any, key: str, value: str, end: str) -> str:
    """Return the text with the value of a key of a mapping replaced or added."""
    old = _pair(keys, key)
    if old is not None:
        empty = isinstance(old[1], yaml.MappingNode) and not old[1].value
        row = isinstance(old[1], yaml.SequenceNode) and old[1].flow_style and value.startswith("[")
        if not (empty or row or isinstance(old[1], yaml.ScalarNode)) or not _within(old[1], keys):
            raise ValueError("the value is not a plain one")
        return _spliced(text, old[1].start_mark.index, old[1].end_mark.index, value)
    if keys.flow_style:
        return _first_in(text, keys, f"{key}: {value}")
    first = keys.value[0][0].start_mark
    return _spliced(text, first.index, first.index, f"{key}: {value}{end}{' ' * first.column}")


def dumped(value: Json) -> str:
    """Return a value as YAML on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=float("inf")).removesuffix("...\n").strip()


def _appended(text: str, section: str, end: str) -> str:
    """Return the text with a section appended after a blank line."""
    if not text.strip():
        return text + section
    return text + ("" if text.endswith("\n") else end) + ("" if text.endswith(end * 2) else end) + section


def _first_in(text: str, mapping: Any, entry: str) -> str:
    """Return the text with another entry after the brace that opens a mapping."""
    start = mapping.start_mark.index + 1
    return _spliced(text, start, start, f"{entry}{', ' if mapping.value else ''}")


def _pair(node: Any, key: str) -> tuple[Any, Any] | None:
    """Return the nodes of a key and its value."""
    if not isinstance(node, yaml.MappingNode):
        raise TypeError("not a mapping")
    return next(((name, value) for name, value in node.value if name.value == key), None)


def _value(node: Any, key: str) -> Any:
    """Return the node of a key's value. Raises: ValueError: the key is missing."""
    found = _pair(node, key)
    if found is None:
        raise ValueError(f"no {key}")
    return found[1]


def _within(inner: Any, outer: Any) -> bool:
    """Return True if a node lies within another; the value of an alias lies where its anchor is."""
    return bool(outer.start_mark.index <= inner.start_mark.index <= inner.end_mark.index <= outer.end_mark.index)


def _spliced(text: str, start: int, end: int, piece: str) -> str:
    return text[:start] + piece + text[end:]


def _with_keys(value: Any, keys: Mapping[str, Json]) -> Any:
    """Return a section with these keys in it; mappings in it are merged."""
    changed = {key: {**(value.get(key) or {}), **new} if isinstance(new, Mapping) else new for key, new in keys.items()}
    return {**value, **changed}


def _unchangeable(changes: Changes, where: str) -> UsageError:
    lines = ", ".join(f"{section}.{key}: {value}" for section, keys in changes.items() for key, value in keys.items())
    return UsageError(
        f"{where} cannot be edited in place: it uses YAML aliases, tags or lists", hint=f"set by hand: {lines}"
    )
