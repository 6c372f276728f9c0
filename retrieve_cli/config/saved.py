"""Settings as a run and a snapshot keep them: the sections that affect answers, read from their declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrieve_cli.config.settings import Settings, sections
from retrieve_cli.frozen import asdict

_APART = frozenset({"models", "log", "plugins"})
"""Sections of places, of logs, and those that only a plug-in understands."""


def kept(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the settings that affect answers, by section, in order of their names."""
    names = sorted((sections("answers") | sections("index")) - _APART)
    return {name: asdict(getattr(settings, name)) for name in names}


def shown_addresses(section: Mapping[str, Any], show: Any) -> dict[str, Any]:
    """Return a section with its addresses as `show` prints them, without possible secrets."""
    return {
        key: show(value) if key.endswith(("url", "endpoint")) and isinstance(value, str) else value
        for key, value in section.items()
    }
