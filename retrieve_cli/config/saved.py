"""Settings as a run and a snapshot keep them: the sections that affect answers, read from their declarations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from retrieve_cli.config.settings import Settings, sections
from retrieve_cli.frozen import Frozen, asdict

_APART = frozenset({"models", "log", "plugins"})
"""Sections of places, of logs, and those that only a plug-in understands."""


def kept(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the settings that affect answers, by section, in order of their names."""
    names = sorted((sections("answers") | sections("index")) - _APART)
    return {name: asdict(getattr(settings, name)) for name in names}


def indexed(settings: Settings) -> dict[str, Any]:
    """Return the keys that shape an index, marked with * in config.yaml, as JSON; without those at their default."""
    found: dict[str, Any] = {}
    defaults = Settings()
    for section, keys in index_keys().items():
        own, default = getattr(settings, section), getattr(defaults, section)
        changed = {key: getattr(own, key) for key in keys if getattr(own, key) != getattr(default, key)}
        found |= {f"{section}.{key}": plain(value) for key, value in changed.items()}
    return found


def index_keys() -> dict[str, list[str]]:
    """Return the keys that shape an index, by section, in the order of config.yaml."""
    text = Path(__file__).with_name("defaults.yaml").read_text("utf-8")
    found: dict[str, list[str]] = {}
    section = ""
    for name, key in re.findall(r"(?m)^(?:([a-z_0-9]++):|  ([a-z_0-9]++):[^#\n]*+# \*)", text):
        section = name or section
        if key and section in sections("index"):
            found.setdefault(section, []).append(key)
    return found


def plain(value: Any) -> Any:
    """Return a value of a key as JSON has it."""
    return orjson.loads(orjson.dumps(value, default=_as_json))


def _as_json(value: Any) -> Any:
    return asdict(value) if isinstance(value, Frozen) else str(value)


def shown_addresses(section: Mapping[str, Any], show: Any) -> dict[str, Any]:
    """Return a section with its addresses as `show` prints them, without possible secrets."""
    return {
        key: show(value) if key.endswith(("url", "endpoint")) and isinstance(value, str) else value
        for key, value in section.items()
    }
