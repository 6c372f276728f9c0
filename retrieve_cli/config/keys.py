"""The keys of the configuration as a list, with what each takes: for completion and for the reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from retrieve_cli.config.bounds import SettingsKey, keys_of
from retrieve_cli.config.settings import LARGEST, Settings, section_names


def every_key() -> Iterator[str]:
    """Yield the keys as `section.key`, in the order of the settings; keys of plug-ins are their own."""
    for section in section_names():
        if section != "plugins":
            for key in getattr(Settings(), section).__struct_fields__:
                yield f"{section}.{key}"


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
    settings = type(getattr(Settings(), section))
    keys = {key.name: key for key in keys_of(settings)}
    return get_type_hints(settings)[inner], keys[inner]
