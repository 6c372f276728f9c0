"""One attack as a value: what lies in the folder, which commands run there. Its `repr` is Python that makes it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retrieve_cli.storage.manifest import BUILT_SHA1, sha1, sha1_file

Content = bytes | tuple[Any, ...]
"""Bytes, or what to do to a path: an operation of OPERATIONS and its arguments."""
PORT = "{port}"
"""Stands for the port of the server that a try talks to, in files and arguments."""
CURRENT = "{current}"
"""Stands for the folder of the current generation, in paths."""


@dataclass(frozen=True)
class Try:
    """Commands that run one after the other in a folder of their own."""

    category: str
    commands: tuple[tuple[str, ...], ...]
    files: Mapping[str, Content] = field(default_factory=dict)
    """Contents of the folder before the first command, written in this order."""
    index: str = ""
    """Prepared folder that it starts from, see `prepared.py`; empty for none."""
    stdin: bytes = b""
    answers: tuple[Any, ...] = ()
    """Answers of a server on loopback, request by request; see `answering.py`. None: there is no server."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables beside the usual ones; an empty one is not there at all."""
    control: bool = False
    """True if the control query must have the same answer as before, unless a new generation was published."""


# ------------------------------------------------------------------------------------------------------ contents


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path, target: str) -> None:
    path.symlink_to(target)


def _sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def _repeat(path: Path, prefix: bytes, unit: bytes, count: int, suffix: bytes) -> None:
    path.write_bytes(prefix + unit * count + suffix)


def _lines(path: Path, *lines: bytes) -> None:
    path.write_bytes(b"\n".join(lines) + b"\n")


def _folder(path: Path) -> None:
    path.mkdir(exist_ok=True)


def _mode(path: Path, mode: int) -> None:
    path.chmod(mode)


MAKES: Mapping[str, Callable[..., None]] = {
    "fifo": _fifo, "link": _link, "sparse": _sparse, "repeat": _repeat, "lines": _lines, "folder": _folder,
}  # fmt: skip
"""Operations that put something at a path, in place of what was there."""


def _flip(path: Path, where: float, mask: int) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[min(int(where * len(content)), len(content) - 1)] ^= mask
    _replace(path, bytes(content))


def _cut(path: Path, where: float) -> None:
    content = path.read_bytes()
    _replace(path, content[: int(where * len(content))])


def _splice(path: Path, where: float, piece: bytes) -> None:
    content = path.read_bytes()
    place = int(where * len(content))
    _replace(path, content[:place] + piece + content[place + len(piece) :])


def _insert(path: Path, where: float, piece: bytes) -> None:
    content = path.read_bytes()
    place = int(where * len(content))
    _replace(path, content[:place] + piece + content[place:])


CHANGES: Mapping[str, Callable[..., None]] = {
    "flip": _flip, "cut": _cut, "splice": _splice, "insert": _insert, "mode": _mode,
}  # fmt: skip
"""Operations that change the file at a path."""


def _replace(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


# ----------------------------------------------------------------------------------------------------- manifests


def edited(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return a JSON value in which `new` stands at `path`; DROP takes away what stands there."""
    if not path:
        return new
    first, *rest = path
    if isinstance(value, dict):
        inner = edited(value.get(first, {}), tuple(rest), new)
        return {key: part for key, part in {**value, first: inner}.items() if part != DROP}
    if isinstance(value, list) and isinstance(first, int) and value:
        place = first % len(value)
        inner = edited(value[place], tuple(rest), new)
        return [*value[:place], *([] if inner == DROP else [inner]), *value[place + 1 :]]
    return value


DROP = "<drop>"


IDENTITY = ("recipe", "sources", "files", "segments", "own_sources", "schema_version")


def forge(artifacts: Path, edits: tuple[tuple[tuple[Any, ...], Any], ...]) -> None:
    """Give the current generation an altered manifest that agrees with its files and carries its own id."""
    try:
        folder = artifacts / "generations" / (artifacts / "current").read_text().strip()
        value = json.loads((folder / "manifest.json").read_text())
        for name, entry in value["files"].items():
            if (folder / name).is_file():
                entry.update(sha1=sha1_file(folder / name), bytes=(folder / name).stat().st_size)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return  # it is damaged already
    for path, new in edits:
        value = edited(value, path, new)
    if isinstance(value, dict):
        identity = {key: value[key] for key in IDENTITY if key in value}
        with suppress(ValueError):  # an infinity has no canonical form
            value |= {"generation": sha1(identity)[:12], BUILT_SHA1: sha1(value.get("built"))}
        if not isinstance(value.get("generation"), str):
            value["generation"] = "0" * 12
        shutil.move(folder, folder.with_name(value["generation"]))
        folder = folder.with_name(value["generation"])
        (artifacts / "current").write_text(value["generation"] + "\n")
    (folder / "manifest.json").write_text(json.dumps(value))


# -------------------------------------------------------------------------------------------------------- places


def materialise(attack: Try, folder: Path, *, port: int) -> None:
    """Write the files of a try into its folder."""
    for name, content in attack.files.items():
        path = folder / _place(name, folder)
        if isinstance(content, tuple) and content[0] == "forge":
            forge(path, content[1])
            continue
        if isinstance(content, tuple) and content[0] in CHANGES:
            if path.is_file():
                CHANGES[content[0]](path, *content[1:])
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.exists() or path.is_symlink():
            path.unlink()
        if isinstance(content, bytes):
            path.write_bytes(content.replace(PORT.encode(), str(port).encode()))
        else:
            MAKES[content[0]](path, *content[1:])


def _place(name: str, folder: Path) -> str:
    if CURRENT not in name:
        return name
    current = (folder / "artifacts" / "current").read_text().strip()
    return name.replace(CURRENT, f"artifacts/generations/{current}")
