"""Conversion of configuration values to the types of their keys, or an error that names valid values; and a list of
all keys with the values that each takes, for the reference.

Environment variables that set keys of the configuration: `RETRIEVE_<SECTION>__<KEY>`, and aliases that some
deployments already use.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from retrieve_cli.config.bounds import SettingsKey, SettingsSection, keys_of, seconds
from retrieve_cli.config.index_settings import SERVERS
from retrieve_cli.config.plugins import installed
from retrieve_cli.config.settings import (
    LARGEST,
    MARKERS,
    ChunkingRule,
    FieldSetting,
    Settings,
    SourceSetting,
)
from retrieve_cli.contracts import HIGHEST_BOOST, Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.untrusted.nearest import nearest

_TYPES = {bool: "true or false", int: "a whole number", float: "a number", str: "a string", Path: "a path"}

_ALSO_KNOWN_AS = {"rerank.top_k": "keep", "rerank.score": "min_score"}
"""Names that RAG services use for some keys."""
_FILE_NAME = re.compile(r"[^\x00-\x1f\x7f/\\.][^\x00-\x1f\x7f/\\]{0,99}")
_NEEDED: Mapping[str, Sequence[str]] = {
    "catalog": ("path",),
    "docs": ("path",),
    "http": ("url",),
    "sparql": ("endpoint", "query"),
    "mcp": (),
    "inbox": (),
}
"""Keys without which an entry of its kind names nothing."""
_COMMENTS = "see the comments in config.yaml: retrieve config defaults"


def with_keys(section: Any, keys: Mapping[str, Json], prefix: str, where: str, folder: Path) -> Any:
    """Return a section of the settings with some keys replaced; paths are relative to `folder`.

    Raises:
        UsageError: a key or value is unknown; the message names `where`.
    """
    kind: type[SettingsSection] = type(section)
    hints = _types_of(kind)
    bounds = {item.name: item.metadata for item in keys_of(section)}
    changed: dict[str, Any] = {}
    for key, value in keys.items():
        name = _ALSO_KNOWN_AS.get(f"{prefix}{key}", key)
        if name not in hints:
            raise unknown(f"key `{prefix}{key}` in {where}", str(key), hints)
        flag = where.startswith("the argument ") or (where.startswith("-") and " " not in where)
        place = where if flag else f"`{prefix}{key}` in {where}"  # who gave -k does not look for search.k
        if name == "markers":
            changed[name] = _markers(value, place)
        elif name == "weights":
            changed[name] = {**section.weights, **_weights(value, bounds[name], place)}
        elif name == "factors":
            changed[name] = {**section.factors, **_boosts(value, where)}
        else:
            changed[name] = _value(hints[name], value, bounds[name], place, folder)
    return replace(section, **changed)


def _value(kind: Any, value: Json, bounds: Mapping[str, Any], key: str, folder: Path) -> Any:
    """Return the value as the type of its key. Raises: UsageError."""
    if isinstance(kind, UnionType):
        inner = next(part for part in get_args(kind) if part is not type(None))
        return None if value is None else _value(inner, value, bounds, key, folder)
    if bounds.get("share") and isinstance(value, str):
        value = _share(value, key)
        return value if isinstance(value, str) else _plain(float, value, bounds, key)
    if bounds.get("duration"):
        return seconds(value, key)
    origin = get_origin(kind)
    if origin is Literal:
        return _choice(value, get_args(kind), key)
    if origin in (Mapping, Sequence):
        found = _several(kind, value, key, folder)
        return [_named(each, bounds["choices"](), key) for each in found] if "choices" in bounds else found
    if "choices" in bounds:
        return _named(value, bounds["choices"](), key)
    if bounds.get("also_numbers") and type(value) is int:
        return str(value)
    if bounds.get("folder") and isinstance(value, str) and "/" in value:
        return str(_path(value, folder, key))
    if kind is Path and isinstance(value, str):
        return Path(value) if value in bounds.get("names", ()) else _path(value, folder, key)
    return _plain(kind, value, bounds, key)


def _share(text: str, key: str) -> str | float:
    """Return a share as `60%`, or a number. Raises: UsageError: the text is neither."""
    number = text.strip().removesuffix("%")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if number == text.strip() and math.isfinite(value):
        return value
    if not 0 <= value <= 100:
        raise UsageError(f"{key} takes a number or a share, 60%, not {quoted(text)}", hint=_COMMENTS)
    return f"{value:g}%"


def _several(kind: Any, value: Json, key: str, folder: Path) -> Any:
    """Return a list or a mapping of sources, fields of a catalog, paths or names."""
    inner = get_args(kind)[-1]
    if inner is SourceSetting:
        return _source_settings(value, key, folder)
    if inner is FieldSetting:
        return _field_settings(value, key)
    if inner is ChunkingRule:
        return _chunking_rules(value, key)
    wanted, what = (dict, "mapping of names") if get_origin(kind) is Mapping else (list, "list of names")
    entries = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(value, wanted) or not all(isinstance(entry, str) and entry for entry in entries):
        raise UsageError(f"{key} is not a {what}", hint=_COMMENTS)
    if inner is Path:
        return [_path(entry, folder, key) for entry in entries]
    return {str(name): entry for name, entry in value.items()} if isinstance(value, dict) else entries


def _choice(value: Json, choices: Sequence[str], key: str) -> Json:
    if value is False:  # YAML reads a bare `off`, `no` as false
        value = "none"
    if value not in choices:
        raise unknown(f"value {quoted(value)} of {key}", str(value), choices)
    return value


def _named(value: Json, choices: Sequence[str], key: str) -> Json:
    """Return one of the choices, or the name of a plug-in."""
    if isinstance(value, str) and value not in choices and value in installed():
        return value
    if value in SERVERS and value not in choices:
        hint = f"write one of {', '.join(choices)}"
        raise UsageError(f"{key} is {value}, which holds vectors only (engines.dense)", hint=hint)
    return _choice(value, choices, key)


def _weights(value: Json, bounds: Mapping[str, Any], key: str) -> dict[str, float]:
    """Return `fusion.weights` or `expansion.weights`: `name: weight`, with the names of choices if there are any."""
    choices = bounds["choices"]() if "choices" in bounds else ()
    if not isinstance(value, dict):
        what = "retrievers" if choices else "kinds of edges"
        hint = "write a weight for each: {" + ", ".join(f"{name}: 0.5" for name in choices or ("requires",)) + "}"
        raise UsageError(f"{key} must be a mapping of {what} to weights", hint=hint)
    return {
        str(_named(name, choices, key) if choices else name): _plain(float, weight, bounds, f"{key} ({name})")
        for name, weight in value.items()
    }


def _boosts(value: Json, where: str) -> dict[str, dict[str, float]]:
    """Return `boost`: factors by field and value of records, or by section of chunks."""
    found: dict[str, dict[str, float]] = {}
    for field, values in value.items():
        place = f"`boost.{field}` in {where}"
        if not isinstance(values, dict):
            raise UsageError(f"{place} must be a mapping of values to factors", hint="write section: {Results: 1.2}")
        found[str(field)] = {
            str(each): _factor(factor, f"{place} ({quoted(str(each))})") for each, factor in values.items()
        }
    return found


def _factor(value: Json, key: str) -> float:
    factor = float(_plain(float, value, {}, key))
    if not 0.0 < factor <= HIGHEST_BOOST:
        raise UsageError(f"{key} is {factor:g}; it takes a number above 0 up to {HIGHEST_BOOST:g}", hint=_COMMENTS)
    return factor


def _plain(kind: Any, value: Any, bounds: Mapping[str, Any], key: str) -> Json:
    """Return a string, a truth value, or a number within its bounds. Raises: UsageError."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST:
        value = float(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise UsageError(f"{key} takes {_TYPES[kind]}, not {quoted(value)}", hint=_COMMENTS)
    low, high = bounds.get("low"), bounds.get("high")
    if low is not None and high is not None and not low <= value <= high:
        limits = f"of at least {low:g}" if high >= LARGEST else f"from {low:g} to {high:g}"
        raise UsageError(f"{key} is {quoted(value)}; it takes a number {limits}", hint=_COMMENTS)
    return value


def _path(value: str, folder: Path, key: str) -> Path:
    try:
        if "\0" in value:
            raise RuntimeError("a path holds no NUL")
        return folder / Path(value).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{key} is {quoted(value)}: {error}", hint="write the path in full") from error


def _field_settings(value: Json, key: str) -> dict[str, FieldSetting]:
    """Return `catalog.fields`: `key: weight`, `key: field`, or `key: {to: field, weight: number}`."""
    if not isinstance(value, dict):
        raise UsageError(f"{key} is not a mapping of keys to weights", hint="for example: summary: {to: description}")
    settings: dict[str, FieldSetting] = {}
    weights: dict[str, tuple[str, float]] = {}
    for name, entry in value.items():
        inner = entry if isinstance(entry, dict) else {"to" if isinstance(entry, str) else "weight": entry}
        if entry is None:
            raise UsageError(f"`{name}` of {key} has no value", hint="give a weight, or the name of a field")
        setting = with_keys(FieldSetting(to=str(name)), inner, f"catalog.fields.{name}.", key, Path())
        settings[str(name)] = setting
        if setting.weight is not None:
            other, weight = weights.setdefault(setting.to, (str(name), setting.weight))
            if weight != setting.weight:
                both = f"{quoted(other)} ({weight:g}) and {quoted(str(name))} ({setting.weight:g})"
                message = f"{key} weights the field {quoted(setting.to)} twice: by {both}"
                raise UsageError(message, hint="a field has one weight: give it with one of the keys")
    return settings


def _chunking_rules(value: Json, key: str) -> list[ChunkingRule]:
    """Return `chunking.rules`: a mapping per rule, each with its `match`."""
    hint = "for example: - {match: labels/**, strategy: section, markers: drug_label}"
    if not isinstance(value, list):
        raise UsageError(f"{key} is not a list of rules", hint=hint)
    rules: list[ChunkingRule] = []
    for at, entry in enumerate(value, 1):
        if not isinstance(entry, dict) or not isinstance(entry.get("match"), str) or not entry["match"]:
            raise UsageError(f"entry {at} of {key} has no `match`, a glob of paths or the name of a source", hint=hint)
        rules.append(with_keys(ChunkingRule(entry["match"]), entry, "", f"entry {at} of {key}", Path()))
    return rules


def _markers(value: Json, key: str) -> str | tuple[str, ...]:
    """Return the name of a set of labels, or a list of titles."""
    if isinstance(value, list | tuple) and all(isinstance(title, str) and title.strip() for title in value):
        return tuple(value)
    if value not in MARKERS:
        raise UsageError(f"{key} is {quoted(value)}", hint=f"use {' or '.join(MARKERS)}, or a list of section titles")
    return str(value)


def _source_settings(value: Json, key: str, folder: Path) -> list[SourceSetting]:
    """Return `sources.list`: a mapping per source, each with its own name."""
    if not isinstance(value, list):
        hint = "for example: - {kind: catalog, path: tools.jsonl}"
        raise UsageError(f"{key} must be a list of sources", hint=hint)
    settings = [source_setting(entry, f"entry {at} of {key}", folder) for at, entry in enumerate(value, 1)]
    if sum(setting.kind == "inbox" for setting in settings) > 1:
        raise UsageError(f"{key} has more than one inbox", hint="an index has one: remove the others")
    names = [setting.name for setting in settings]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two sources of {key} are called {quoted(name)}", hint="give each its own `name:`")
    return settings


def source_setting(entry: Json, where: str, folder: Path) -> SourceSetting:
    """Return a source of a configuration or a manifest; without a name it is named after its place.

    Raises:
        UsageError: a key is unknown or missing.
    """
    kinds = tuple(_NEEDED)
    if not isinstance(entry, dict) or "kind" not in entry:
        path = quoted(entry.get("path", "…") if isinstance(entry, dict) else entry)
        hint = f"write {{kind: catalog, path: {path}}}, or kind: docs for a folder; other kinds: {', '.join(kinds[2:])}"
        raise UsageError(f"{where} has no `kind`", hint=hint)
    kind = entry["kind"]
    if not isinstance(kind, str) or (kind not in kinds and kind not in installed()):
        raise unknown(f"kind {quoted(kind)} of {where}", str(kind), kinds)
    setting: SourceSetting = with_keys(SourceSetting(kind), entry, "", where, folder)
    for key in _NEEDED.get(setting.kind, ()):
        if not getattr(setting, key):
            raise UsageError(f"{where} has no `{key}`", hint=f"a source of kind {setting.kind} takes it")
    if setting.kind in ("docs", "inbox") and (setting.id or setting.fields):
        hint = "remove them: only sources of records have columns"
        raise UsageError(f"{where} has `id` or `fields`, and is of kind {setting.kind}", hint=hint)
    if setting.kind == "mcp":
        if bool(setting.command) + bool(setting.url) + (bool(setting.path) and not setting.command) != 1:
            hint = "write one of them: a client's configuration, the command of a server, or its address"
            raise UsageError(f"{where} needs either `path`, `command` or `url`", hint=hint)
        setting = replace(setting, path=setting.path or folder) if setting.command else setting
    name = setting.name or place_name(setting) or setting.kind
    if (setting.path is None or setting.kind == "mcp") and not _FILE_NAME.fullmatch(name):
        hint = "give it a short `name:`, which becomes a file name"
        raise UsageError(f"{where} cannot be called {quoted(name)}", hint=hint)
    return replace(setting, name=name)


def place_name(setting: SourceSetting) -> str:
    """Return the last part of a path or an address, without its query string, which may hold a secret; of a command,
    of its first argument that is no option; of the address of a server of tools, its host."""
    if setting.kind == "mcp":
        words = (setting.command or "").split() or [urlsplit(setting.url or "").hostname or str(setting.path)]
        word = next((word for word in words[1:] if not word.startswith("-")), words[0])
        return os.path.basename(word).lstrip(".")  # noqa: PTH119
    if setting.path is not None:
        return os.path.basename(os.path.abspath(setting.path))  # noqa: PTH100, PTH119  as sources name themselves
    return str(setting.url or setting.endpoint or "").partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2]


def unknown(what: str, given: str, known: Iterable[str]) -> UsageError:
    """Return the error for an unknown name, with the nearest known one."""
    names = [str(name) for name in known]
    near = nearest(given, names)
    hint = f"did you mean `{near}`?" if near else "known: " + (", ".join(names) or "none is installed")
    return UsageError(f"unknown {what}", hint=hint)


def choices_of(name: str) -> Sequence[str]:
    """Return the values of a key that takes one of several; nothing for any other."""
    kind, key = _declared(name)
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    if kind is bool or bool in get_args(kind):
        return ["true", "false"]
    return list(key.metadata["choices"]()) if "choices" in key.metadata and kind is str else []


def takes(name: str) -> str:
    """Return the values that a key takes, in words: its choices, or the bounds of its number; empty if it has
    neither."""
    if choices := choices_of(name):
        return ", ".join(choices)
    _, key = _declared(name)
    low, high = key.metadata.get("low"), key.metadata.get("high")
    if low is None or high is None or (low <= -LARGEST and high >= LARGEST):
        return ""
    return f"at least {low:g}" if high >= LARGEST else f"{low:g} to {high:g}"


def _declared(name: str) -> tuple[Any, SettingsKey]:
    """Return the type and the declaration of a key. Raises: KeyError: the key does not exist."""
    section, _, inner = name.partition(".")
    settings: type[SettingsSection] = type(getattr(Settings(), section))
    keys = {key.name: key for key in keys_of(settings)}
    return _types_of(settings)[inner], keys[inner]


@cache
def _types_of(section: type[SettingsSection]) -> Mapping[str, Any]:
    """Return the types of a section's keys; reading them from the annotations takes as long as a search of words."""
    return {name: kind for name, kind in get_type_hints(section).items() if name in section.__struct_fields__}


PREFIX = "RETRIEVE_"


class Variable(NamedTuple):
    """A variable, the key that it sets, and its value as YAML."""

    name: str
    section: str
    key: str
    text: str


ALIASES: Mapping[str, tuple[str, str, Callable[[str], str]]] = {
    "SOFTWARE_CATALOG": ("sources", "list", lambda path: json.dumps([{"kind": "catalog", "path": path}])),
    "SYNC_EVERY_HOURS": ("sync", "every_hours", str),
    "EMBED_CATALOG_ON_START": (
        "sources",
        "auto_sync",
        lambda text: {"0": "false", "1": "true"}.get(text.strip(), text),
    ),
}
"""Variables without our prefix, by name: section, key, and the YAML of a value."""


def variables(environment: Mapping[str, str]) -> Iterator[Variable]:
    """Yield the variables that set keys, the aliases first: a later one wins. An empty alias sets nothing."""
    for name, (section, key, written) in ALIASES.items():
        if text := environment.get(name, "").strip():
            yield Variable(name, section, key, written(text))
    for name in sorted(name for name in environment if name.startswith(PREFIX) and "__" in name):
        section, _, key = name.removeprefix(PREFIX).lower().partition("__")
        yield Variable(name, section, key, environment[name])
