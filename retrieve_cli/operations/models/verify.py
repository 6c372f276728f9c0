"""Verification of models: every file against its known digest, weights and tokenizer read, the export checked."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path

from retrieve_cli.assemble.encoders import cache_dir
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.models.encoders.splade_folder import SpladeFolder, StaticWeights
from retrieve_cli.models.runtimes.packages import require
from retrieve_cli.models.runtimes.tensors import Digests, read
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer
from retrieve_cli.operations.models.needs import Folder, ModelNeed, export_of, find, pull_hint, wanted
from retrieve_cli.storage.manifest import sha1_file
from retrieve_cli.untrusted import files

RECORD = ".retrieve.json"
"""File beside a model that was pulled into `models.dir`, with the SHA-1 of each of its files."""
_AFRESH = Path(os.devnull)
"""Not a folder: cached digests are neither read nor written."""
_OLDER = ("vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
_HASHES = {40: "git", 64: "sha256"}
"""Digests by the length of a blob's name in the cache of the hub: small files have git's own SHA-1."""


def verify(settings: Settings, name: str | None) -> dict[str, Json]:
    """Read every byte of the models and of their exports.

    Raises:
        UsageError: no stage has that name.
    """
    models = [_checked(need, settings) for need in wanted(settings, name)]
    return {"schema_version": 1, "ok": all(model["state"] == "sound" for model in models), "models": models}


def _checked(need: ModelNeed, settings: Settings) -> dict[str, Json]:
    entry: dict[str, Json] = {"stage": need.stage, "model": need.model, "state": "sound", "path": None}
    entry |= {"files_with_digest": 0, "export": None, "problems": [], "hint": None}
    again = f"{pull_hint(need)} --force"
    try:
        model = find(need, settings)
    except Unavailable as error:
        return {**entry, "state": "missing", "problems": [error.message], "hint": pull_hint(need)}
    except (UsageError, OSError) as error:
        return {**entry, "state": "damaged", "problems": [str(error)], "hint": again}
    entry |= {"path": str(model.path), "files_with_digest": len(published(model.path))}
    if not (problems := damages(model)):
        # Bytes that changed while size and time did not are a disk's fault, which no query would notice.
        digests = Digests(cache_dir(settings))
        problems = [
            f"{path} changed since it was first read, though its size and time are the same"
            for part in model.transformers
            for path in part.weights
            if digests.sha1(path) != sha1_file(path)
        ]
    if problems:
        return {**entry, "state": "damaged", "problems": problems, "hint": again}
    export = export_of(model, cache_dir(settings), Digests(_AFRESH))
    if isinstance(export, str):
        return {**entry, "export": {"state": "none", "path": None}}
    state = export.state(Digests(_AFRESH))
    entry["export"] = {"state": state, "path": None if state == "none" else str(export.path)}
    if state == "damaged":
        problem = f"{export.path} is damaged, or of an older format; the next use writes it again"
        entry |= {"state": "damaged", "problems": [problem], "hint": f"retrieve models export {need.stage}"}
    return entry


def damages(model: Folder) -> list[str]:
    """Return the problems of the files of a model, a sentence each; empty if it is sound.

    Raises:
        Unavailable: the package that reads tokenizers is not installed.
    """
    require("tokenizers")
    problems = [
        f"{path} differs from the published file"
        for path, (kind, digest) in published(model.path).items()
        if not path.is_file() or _digest(path, kind) != digest
    ]
    for part in model.transformers:
        safe = [path for path in part.weights if path.suffix == ".safetensors"]
        problems += _tried(partial(read, safe))
        empty = (path for path in part.weights if not (path.is_file() and path.stat().st_size > 0))
        problems += [f"{path} is missing or empty" for path in empty]
        problems += _tokenizer(part.transformer)
    if isinstance(model, SpladeFolder) and isinstance(static := model.query, StaticWeights):
        problems += _tried(lambda: ModelTokenizer.read(static.tokenizer).special_tokens)
        if static.weights.suffix == ".safetensors":
            problems += _tried(lambda: read([static.weights]))
    return list(dict.fromkeys(problems))


def _tokenizer(folder: Path) -> list[str]:
    if (folder / "tokenizer.json").is_file():
        return _tried(lambda: ModelTokenizer.read(folder / "tokenizer.json").special_tokens)
    older = any((folder / name).is_file() for name in _OLDER)
    return [] if older else [f"{folder} does not hold a tokenizer"]


def _tried(attempt: Callable[[], object]) -> list[str]:
    try:
        attempt()
    except (UsageError, Unavailable) as error:
        return [error.message]
    except (OSError, ValueError) as error:
        return [str(error)]
    return []


def published(folder: Path) -> Mapping[Path, tuple[str, str]]:
    """The kind and the digest of each file, as the pull, the cache of the hub or the installed package has it."""
    return _recorded(folder) or _blobs(folder) or _packaged(folder)


def _recorded(folder: Path) -> dict[Path, tuple[str, str]]:
    try:
        known = json.loads(files.read_bytes(folder / RECORD, limit=files.MANIFEST))["files"]
        return {folder / name: ("sha1", str(digest)) for name, digest in known.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _blobs(folder: Path) -> dict[Path, tuple[str, str]]:
    """A file in the cache of the hub links to a blob that is named by its digest."""
    blobs = {path: path.resolve() for path in folder.rglob("*") if path.is_symlink()}
    return {
        path: (_HASHES[len(blob.name)], blob.name)
        for path, blob in blobs.items()
        if blob.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", blob.name)
    }


def _packaged(folder: Path) -> dict[Path, tuple[str, str]]:
    """A model that was installed with pip has the digests of its wheel."""
    if not (folder.parent / "__init__.py").is_file():
        return {}
    try:
        files = metadata.files(folder.parent.name) or []
    except (metadata.PackageNotFoundError, ValueError):
        return {}
    digests = {}
    for file in files:
        path = Path(str(file.locate()))
        if folder in path.parents and file.hash is not None and file.hash.mode == "sha256":
            digests[path] = ("sha256", base64.urlsafe_b64decode(f"{file.hash.value}==").hex())
    return digests


def _digest(path: Path, kind: str) -> str:
    if kind == "sha1":
        return sha1_file(path)
    if kind == "sha256":
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
