"""Configurations to start from: the files in presets/, each by its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from retrieve_cli.config.values import unknown
from retrieve_cli.errors import quoted

MINIMAL = "minimal"
_EVERY_KEY = Path(__file__).with_name("defaults.yaml")
"""A link to config.yaml of the repository, of which a package holds a copy."""
_FOLDER = Path(__file__).parent / "presets"
_SAMPLE = Path(__file__).parent / "sample"
"""Links to files of the repository, of which a package holds copies: a catalog of tools, and judged queries."""


def presets() -> tuple[str, ...]:
    """Return the names of the presets."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml") if path.stem != MINIMAL))


def defaults() -> str:
    """Return the commented configuration file with every key at its default."""
    return _EVERY_KEY.read_text("utf-8")


def starter(name: str | None, sources: Sequence[str] = ()) -> str:
    """Return the text of a preset, or of the minimal configuration if none is named, with these lines as its sources;
    without any, its own one is an example in a comment.

    Raises:
        UsageError: there is no preset of that name.
    """
    if name is not None and name not in presets():
        raise unknown(f"preset {quoted(name)}", name, presets())
    text = (_FOLDER / f"{name or MINIMAL}.yaml").read_text("utf-8")
    before, entry, after = text.partition("  - {kind: ")
    example, end, after = after.partition("\n")
    lines = [f"  - {source}" for source in sources] or [f"  # - {{kind: {example}"]
    return "".join([before, "\n".join(lines), end, after]) if entry else text


def sample() -> dict[str, str]:
    """Return the texts of a sample catalog and of judged queries for it, by their file names."""
    texts = {path.name: path.read_text("utf-8") for path in sorted(_SAMPLE.glob("*.jsonl"), reverse=True)}
    lines = (line for line in texts["gold.jsonl"].splitlines(keepends=True) if '"files"' not in line)
    return {**texts, "gold.jsonl": "".join(lines)}  # not those with image files, which are not part of the sample
