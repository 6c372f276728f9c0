"""The model cache: a checkpoint laid out once for multiplying, with its ONNX graph, so that opening it is mapping it.

<cache_dir>/digests.json        SHA-1 of files already read
<cache_dir>/<name>-<revision>/
    model.onnx                  the graph; its weights are external
    weights.safetensors         laid out for multiplying
    card.json                   written last: format, revision, SHA-1 of each file
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from retrieve_cli.encoders.bert import Architecture
from retrieve_cli.encoders.digests import Digests

FORMAT = 1
"""Raised when the layout or the graph changes, so that older exports are made again."""
GRAPH, WEIGHTS, CARD = "model.onnx", "weights.safetensors", "card.json"


@dataclass(frozen=True, slots=True)
class Exported:
    """A model in the cache, checked."""

    path: Path
    architecture: Architecture

    @property
    def graph(self) -> Path:
        return self.path / GRAPH

    @property
    def weights(self) -> Path:
        return self.path / WEIGHTS


def export_folder(cache_dir: Path, name: str, revision: str) -> Path:
    """The folder of a model's export."""
    return cache_dir / f"{re.sub(r'[^A-Za-z0-9._-]+', '--', name)}-{revision[:12]}"


def sound(path: Path, revision: str, digests: Digests) -> bool:
    """Whether an export is whole, of this format and of this revision of the model."""
    try:
        card = json.loads((path / CARD).read_bytes())
        return (
            card["format"] == FORMAT
            and card["revision"] == revision
            and all(digests.sha1(path / name) == digest for name, digest in card["files"].items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
