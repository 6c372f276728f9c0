"""Small corpora, the indexes that are made of them, and the program, run where an index lies.

Two corpora are catalogs beside this file; `gold.jsonl` has judged questions about the tools, not all of them easy.

Of `retrieve_cli` only the entry of its command line is known here, so that everything behind it may move.
"""

import io
import json
import os
import random
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from math import prod
from pathlib import Path
from typing import Any

import pytest
from splade_models import save_masked

from retrieve_cli.cli.main import main

_FOLDER = Path(__file__).parent
_CATALOGS: Mapping[str, str] = {"steps": "steps.jsonl", "sparse": "steps.jsonl"}
"""Catalogs of the indexes that are not made of the tools."""


def _records(catalog: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_FOLDER / catalog).read_text("utf-8").splitlines()]


TOOLS = _records("tools.jsonl")
"""Tools of several groups and owners; the longer descriptions become two chunks and more."""
STEPS = _records("steps.jsonl")
"""Steps of which some require others, with a circle and a name that leads nowhere."""

GUIDES: Mapping[str, str] = {
    "storage/volumes.md": """---
title: Volumes
tags: [disk]
---

# Volumes

A volume outlives the container that writes to it.

## Grow a volume

Stop whatever writes to the volume, raise the size in its claim, and wait until the file system has been resized. A
volume can grow while it is mounted on recent kernels, but it can never shrink again.

## Remove a volume

Unmount it first. What the reclaim policy says then happens to the disk: it is kept, wiped, or deleted for good.

| policy | disk afterwards | for |
|---|---|---|
| retain | kept as it is | databases |
| recycle | wiped with zeros | scratch space |
| delete | gone | caches |
""",
    "storage/snapshots.md": """# Snapshots

## Take a snapshot

A snapshot freezes the blocks of a disk at one moment. Flush the database beforehand, or it will have to replay its log.

## Restore a snapshot

Restoring writes the frozen blocks to a new disk; the old one stays untouched. Compare checksums before you switch.
""",
    "network/gateways.md": """# Gateways

## Open a port

Name the port, its protocol and the certificate. The gateway answers from outside as soon as the listener is ready.

## Limit traffic

A gateway refuses callers that ask more than a hundred times in a minute. Raise the limit for monitoring only.
""",
    "network/policies.md": """# Network policies

A policy says which pods may talk to each other. Without one everybody may.

## Deny by default

Select all pods and allow nothing; then open single paths, name resolution first.
""",
    "security/secrets.md": """# Secrets

## Rotate a secret

Write the new password next to the old one, restart the services that read it, and revoke the old one a day later.

## Audit access

Every reading of a secret leaves a line with the time, the account and the address it came from.
""",
    "notes.txt": "Minutes of the operators' meeting. The backup of the mail server took nine hours on Sunday. We "
    "agreed to snapshot its disk every night and to delete what is older than a week.\n",
}
"""Guides in three folders, with front matter, a table and a plain text file."""

_HASHED = {"encoder": {"kind": "hashed"}, "chunking": {"size": 24}}

INDEXES: Mapping[str, Mapping[str, Any]] = {
    "tools": _HASHED,
    "guides": {**_HASHED, "chunking": {"size": 40}},
    "steps": _HASHED,
    "sparse": {**_HASHED, "splade": {"model": "models/tiny-splade"}},
    "graph": {**_HASHED, "dense": {"index": "hnsw"}},
    "by chunk": {**_HASHED, "bm25": {"unit": "chunk"}},
    "model": {"encoder": {"kind": "onnx"}},
}
"""What is configured for each index that is built here, by its name."""


def build(name: str, folder: Path) -> Path:
    """The index of that name in the folder, with its configuration and all that questions name; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {**INDEXES[name]}
    if name == "sparse":
        exact_weights(save_masked(folder / "models" / "tiny-splade"))
        settings["models"] = {"dir": str(folder / "models"), "cache_dir": str(folder / "exports")}
        settings["splade"] = {"model": str(folder / "models" / "tiny-splade")}
    (folder / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
    shutil.copy(_FOLDER / "gold.jsonl", folder)
    (folder / "scan.nii").write_bytes(nifti(4, 5, 6))
    (folder / "series.dcm").touch()
    if name == "guides":
        for path, text in GUIDES.items():
            (folder / "docs" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "docs" / path).write_text(text)
            os.utime(folder / "docs" / path, (0, 1_700_000_000))
        source = ("--docs-dir", "docs")
    else:
        shutil.copy(_FOLDER / _CATALOGS.get(name, "tools.jsonl"), folder / "catalog.jsonl")
        source = ("--catalog", "catalog.jsonl")
    run(folder, "build", *source, "-q")
    return folder


def exact_weights(model: Path) -> None:
    """Replaces the drawn weights of a model by small multiples of 1/64.

    torch draws normal numbers in a different way on each kind of processor; these are the same numbers on all of them.
    """
    import numpy as np
    from safetensors.numpy import load_file, save_file

    drawn, path = random.Random(7), model / "model.safetensors"
    tensors = load_file(path)
    for name in sorted(tensors):
        shape = tensors[name].shape
        if "LayerNorm" not in name:
            low = -96 if name == "cls.predictions.bias" else -32
            numbers = [drawn.randint(low, low + 64) / 64 for _ in range(tensors[name].size)]
            tensors[name] = np.array(numbers, np.float32).reshape(shape)
    save_file(tensors, path, {"format": "pt"})


def nifti(*shape: int) -> bytes:
    """A NIfTI-1 file of zeros, one byte a voxel."""
    sizes = [len(shape), *shape, *[1] * (7 - len(shape))]
    head = bytearray(352)
    struct.pack_into("<i", head, 0, 348)
    struct.pack_into("<8h", head, 40, *sizes)
    struct.pack_into("<2h", head, 70, 2, 8)
    struct.pack_into("<8f", head, 76, *[1.0] * 8)
    struct.pack_into("<f", head, 108, 352.0)
    head[344:348] = b"n+1\0"
    return bytes(head) + bytes(prod(shape))


def run(folder: Path, *arguments: str, keys: Mapping[str, str] | None = None, stdin: str = "") -> str:
    """What the program prints in that folder; `keys` are keys of the configuration, as `SECTION__KEY`.

    Nothing else in the environment configures it. It has to end well.
    """
    out, err = io.StringIO(), io.StringIO()
    with _standing_in(folder, keys or {}, stdin), redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    assert code == 0, (arguments, err.getvalue())
    return out.getvalue()


@contextmanager
def _standing_in(folder: Path, keys: Mapping[str, str], stdin: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("RETRIEVE_")]:
            patch.delenv(name)
        patch.setenv("RETRIEVE_TRUST", "1")  # the model of an index lies in its folder
        for key, value in keys.items():
            patch.setenv(f"RETRIEVE_{key}", value)
        patch.chdir(folder)
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        yield


def values(printed: str) -> Sequence[Any]:
    """The JSON values that were printed: one, indented, or one a line."""
    try:
        return [json.loads(printed)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in printed.splitlines()]
