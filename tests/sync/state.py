"""Catalogs in versions, what an artifacts folder says, and a small disk."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., "subprocess.Popen[str]"]
Publish = Callable[[int | list[dict[str, Any]]], str]
Fresh = Callable[[], Path]


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


def mounted(place: Path, size: str) -> Iterator[Path]:
    """A file system of this size in a folder that it makes; the test is skipped where it may not mount one."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "small", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
