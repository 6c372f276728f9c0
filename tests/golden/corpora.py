"""Small corpora, the indexes that are made of them, and the program, run where an index lies.

Of `retrieve_cli` only the entry of its command line is known here, so that everything behind it may move.
"""

import io
import json
import os
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from splade_models import save_masked

from retrieve_cli.cli.main import main

Rows = list[dict[str, Any]]

TOOLS: Rows = [
    {
        "id": "lungs",
        "name": "LungMapper",
        "description": "Segments lungs and lobes in chest CT volumes. Each lobe gets a label of its own, and a table "
        "lists the volume of air in every one of them. Airways are traced down to the smallest branch that the "
        "resolution shows, and nodules along the way are marked for a radiologist.",
        "license": "MIT",
        "group": "radiology",
        "tenant": "acme",
        "keywords": ["lung", "CT", "lobes"],
        "supportingData": {"datasetFormat": "dcm", "imagingModality": "CT", "hasDimensionality": 3},
    },
    {
        "id": "ribs",
        "name": "RibCounter",
        "description": "Counts and labels ribs in chest CT scans and warns where one of them is broken.",
        "license": "Apache-2.0",
        "group": "radiology",
        "tenant": "acme",
        "keywords": ["ribs", "fracture"],
        "supportingData": {"datasetFormat": ["dcm", "nii.gz"], "imagingModality": "CT", "hasDimensionality": 3},
    },
    {
        "id": "liver",
        "name": "HepatoCut",
        "description": "Plans the resection of a liver: vessels, tumours and the part that remains are shown together.",
        "license": "GPL-3.0",
        "group": "radiology",
        "supportingData": {"datasetFormat": "nrrd", "imagingModality": "MRI", "hasDimensionality": 3},
    },
    {
        "id": "brain",
        "name": "BrainStrip",
        "description": "Removes the skull from brain MRI scans. It works on T1 and T2 contrasts alike, keeps the "
        "cerebellum, and writes a mask beside the stripped volume, so that a later step can undo what was cut.",
        "license": "MIT",
        "group": "neuroimaging",
        "tenant": "globex",
        "keywords": ["MRI", "skull stripping"],
        "supportingData": [{"datasetFormat": ["nii.gz"], "imagingModality": ["MRI"], "hasDimensionality": 3}],
    },
    {
        "id": "align",
        "name": "WarpAlign",
        "description": "Registers two brain volumes by affine and elastic transforms.",
        "group": "neuroimaging",
        "tenant": "globex",
        "supportingData": {"datasetFormat": "nii.gz", "hasDimensionality": [3, 4]},
    },
    {
        "id": "fibres",
        "name": "TractoGraph",
        "description": "Follows bundles of nerve fibres through diffusion weighted images and draws them as tubes.",
        "license": "BSD-3-Clause",
        "group": "neuroimaging",
        "keywords": ["diffusion", "tractography"],
        "supportingData": {"imagingModality": "dMRI", "hasDimensionality": 4},
    },
    {
        "id": "cells",
        "name": "CellFinder",
        "description": "Finds and counts cells in fluorescence microscopy images.",
        "license": "BSD-3-Clause",
        "group": "microscopy",
        "tenant": "ACME",
        "keywords": ["cells", "counting"],
        "supportingData": {"datasetFormat": "tif", "hasDimensionality": 2},
    },
    {
        "id": "nuclei",
        "name": "NucleoNet",
        "description": "A network that outlines every nucleus of a stained tissue section, touching ones included.",
        "license": "MIT",
        "group": "microscopy",
        "keywords": ["nuclei", "histology"],
        "supportingData": {"datasetFormat": ["tif", "png"], "hasDimensionality": 2},
    },
    {
        "id": "stitch",
        "name": "TileJoin",
        "description": "Stitches microscope tiles into one large mosaic image.",
        "group": "microscopy",
        "url": "https://example.org/tilejoin",
        "keywords": ["stitching"],
    },
    {
        "id": "tracks",
        "name": "MotionTrail",
        "description": "Tracks migrating cells from frame to frame, closes gaps, and reports divisions as a tree.",
        "license": "MIT",
        "group": "microscopy",
        "keywords": ["tracking", "cells"],
        "supportingData": {"datasetFormat": "tif", "hasDimensionality": 3},
    },
    {
        "id": "denoise",
        "name": "QuietPixels",
        "description": "Takes noise out of low dose pictures without blurring edges.",
        "license": "Apache-2.0",
        "group": "restoration",
    },
    {
        "id": "convert",
        "name": "FormatFerry",
        "description": "Converts DICOM series to NIfTI files and keeps what the headers say in a JSON sidecar.",
        "license": "MIT",
        "group": "conversion",
        "keywords": ["conversion", "BIDS"],
        "supportingData": {"datasetFormat": ["dcm", "nii.gz"]},
    },
    {
        "id": "viewer",
        "name": "SliceGlass",
        "description": "Shows slices of a scan in three planes, with windows, overlays and a ruler.",
        "group": "viewers",
        "url": "https://example.org/sliceglass",
    },
]
"""Tools of several groups and owners; the longer descriptions become two chunks and more."""

STEPS: Rows = [
    {
        "id": "cluster",
        "name": "CellCluster",
        "description": "Clusters single-cell data.",
        "requires_tool": ["doublets", "batch"],
    },
    {
        "id": "doublets",
        "name": "Twins",
        "description": "Scores pairs that were captured as one.",
        "requires_tool": ["loader"],
    },
    {
        "id": "batch",
        "name": "Harmoniser",
        "description": "Removes effects of the day from counts.",
        "requires_tool": ["Reader", "nobody"],
    },
    {
        "id": "loader",
        "name": "Reader",
        "description": "Opens sparse matrices of any maker.",
        "compatible_with": ["writer"],
    },
    {"id": "writer", "name": "Saver", "description": "Stores tables on disk.", "requires_tool": ["mirror"]},
    {"id": "mirror", "name": "Copy", "description": "Doubles files for safety.", "requires_tool": ["writer"]},
    {"id": "paint", "name": "Brush", "description": "Paints a garden wall green."},
    {"id": "music", "name": "Organ", "description": "Plays slow music in a church at night."},
    {"id": "bread", "name": "Oven", "description": "Bakes rye bread with caraway."},
    {"id": "train", "name": "Timetable", "description": "Says when the next tram leaves the harbour."},
    {"id": "chess", "name": "Gambit", "description": "Suggests an opening move against a strong player."},
]
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

GOLD: Rows = [
    {"id": "g1", "query": "segment lungs in chest CT", "relevant": {"lungs": 2, "ribs": 1}},
    {"id": "g2", "query": "count cells", "relevant": {"cells": 2, "tracks": 1}},
    {"id": "g3", "query": "remove the skull", "relevant": ["brain"]},
    {"id": "g4", "query": "DICOM to NIfTI", "relevant": ["convert"]},
    {"id": "g5", "query": "register volumes of a head", "relevant": {"align": 2, "brain": 1}},
    {"id": "g6", "query": "mosaic of microscope tiles", "relevant": ["stitch"]},
    {"id": "g7", "query": "cell division in a film", "relevant": ["tracks"]},
    {"id": "g8", "query": "less grain in photographs", "relevant": ["denoise"]},
    {"id": "g9", "query": "look at a scan", "relevant": {"viewer": 2, "brain": 1}},
]
"""Judged questions about the tools; not all of them are easy."""

_HASHED = {"encoder": {"kind": "hashed"}, "chunking": {"size": 24}}

INDEXES: Mapping[str, Mapping[str, Any]] = {
    "tools": _HASHED,
    "guides": {**_HASHED, "chunking": {"size": 40}},
    "steps": _HASHED,
    "sparse": {**_HASHED, "splade": {"model": "models/tiny-splade"}},
    "graph": {**_HASHED, "dense": {"index": "hnsw"}},
    "plain": {**_HASHED, "bm25": {"backend": "rank_bm25", "variant": "okapi"}},
    "by chunk": {**_HASHED, "bm25": {"unit": "chunk"}},
    "model": {"encoder": {"kind": "onnx"}},
}
"""What is configured for each index that is built here, by its name."""

_MADE_OF: Mapping[str, Rows] = {"steps": STEPS, "sparse": STEPS}


def build(name: str, folder: Path) -> Path:
    """The index of that name in the folder, with its configuration and all that questions name; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {**INDEXES[name]}
    if name == "sparse":
        exact_weights(save_masked(folder / "models" / "tiny-splade"))
        settings["models"] = {"dir": str(folder / "models"), "cache_dir": str(folder / "exports")}
        settings["splade"] = {"model": str(folder / "models" / "tiny-splade")}
    (folder / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
    _write_lines(folder / "gold.jsonl", GOLD)
    (folder / "scan.nii").write_bytes(nifti(4, 5, 6))
    (folder / "series.dcm").touch()
    if name == "guides":
        for path, text in GUIDES.items():
            (folder / "docs" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "docs" / path).write_text(text)
        source = ("--docs-dir", "docs")
    else:
        _write_lines(folder / "catalog.jsonl", _MADE_OF.get(name, TOOLS))
        source = ("--catalog", "catalog.jsonl")
    run(folder, "build", *source, "-q")
    return folder


def _write_lines(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


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
    voxels = 1
    for size in shape:
        voxels *= size
    return bytes(head) + bytes(voxels)


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
