"""Configurations to start from: the files in presets/, each by its name."""

from __future__ import annotations

from pathlib import Path

from retrieve_cli.config.values import unknown
from retrieve_cli.errors import quoted

MINIMAL = "minimal"
_EVERY_KEY = Path(__file__).with_name("defaults.yaml")
"""A link to config.yaml of the repository, of which a package holds a copy."""
_FOLDER = Path(__file__).parent / "presets"


def presets() -> tuple[str, ...]:
    """Return the names of the presets."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml") if path.stem != MINIMAL))


def defaults() -> str:
    """Return the commented configuration file with every key at its default."""
    return _EVERY_KEY.read_text("utf-8")


def starter(name: str | None) -> str:
    """Return the text of a preset, or of the minimal configuration if none is named.

    Raises:
        UsageError: there is no preset of that name.
    """
    if name is not None and name not in presets():
        raise unknown(f"preset {quoted(name)}", name, presets())
    return (_FOLDER / f"{name or MINIMAL}.yaml").read_text("utf-8")
