"""What tests build on: a small catalog, the places of the test collections, a finished run of the program."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from retrieve_cli.contracts import Item, Notice, Record, Refused, Source

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"

TOOLS: list[dict[str, Any]] = [
    {
        "id": "lungs",
        "name": "LungMapper",
        "description": "Segments lungs and lobes in chest CT volumes.",
        "license": "MIT",
        "group": "radiology",
        "keywords": ["lung", "CT"],
        "supportingData": {"datasetFormat": "dcm", "hasDimensionality": 3},
    },
    {
        "id": "cells",
        "name": "CellFinder",
        "description": "Finds and counts cells in fluorescence microscopy images.",
        "license": "BSD-3-Clause",
        "group": "microscopy",
        "keywords": ["cells", "counting"],
    },
    {
        "id": "brain",
        "name": "BrainStrip",
        "description": "Removes the skull from brain MRI scans.",
        "license": "MIT",
        "group": "neuroimaging",
        "keywords": ["MRI"],
        "supportingData": [{"datasetFormat": ["nii.gz"]}],
    },
    {
        "id": "stitch",
        "name": "TileJoin",
        "description": "Stitches microscope tiles into one large mosaic image.",
        "group": "microscopy",
        "url": "https://example.org/tilejoin",
    },
    {
        "id": "align",
        "name": "WarpAlign",
        "description": "Registers two brain volumes by affine and elastic transforms.",
        "group": "neuroimaging",
    },
]


@dataclass(frozen=True)
class Done:
    """What a run of the program left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Program = Callable[..., Done]


def succeeds(done: Done) -> Done:
    """Check that the program ended well, and return what it left."""
    assert done.code == 0, done.err
    return done


def fails(done: Done, code: int, *messages: str) -> Done:
    """Check the exit code of a failure and what its message contains, and return what the program left."""
    assert done.code == code, done.err
    for message in messages:
        assert message in done.err, done.err
    return done


def write_catalog(path: Path, records: list[dict[str, Any]]) -> Path:
    """A catalog file of the given records."""
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), "utf-8")
    return path


def collection(name: str) -> Path:
    """The folder of a test collection; the test is skipped where it is absent."""
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"the test collection {name} is not at {folder}")
    return folder


def pieces(source: Source) -> Iterator[Record | Refused | Notice]:
    """Everything that a source has, read."""
    for item in source.scan():
        yield from item.read() if isinstance(item, Item) else (item,)
