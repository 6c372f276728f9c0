"""Catalogs in versions, and what an artifacts folder says."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

Start = Callable[..., "subprocess.Popen[str]"]


def records(version: int, count: int = 60) -> list[dict[str, Any]]:
    """A catalog every record of which names its version, so that a mixture shows."""
    return [
        {
            "id": f"t{number}",
            "name": f"tool {number}",
            "description": f"segment lungs version{version} word{number % 7}",
        }
        for number in range(count)
    ]


def live(artifacts: Path) -> str:
    """The id that `current` names."""
    return (artifacts / "current").read_text().strip()


def contents(artifacts: Path) -> dict[str, bytes]:
    """The current generation's files, but for the manifest, which says when it was built."""
    folder = artifacts / "generations" / live(artifacts)
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}


def versions(answer: Any) -> set[str]:
    """The versions that the hits of an answer name: one, unless generations were mixed."""
    return {word for hit in answer["results"] for word in hit["content"].split() if word.startswith("version")}
