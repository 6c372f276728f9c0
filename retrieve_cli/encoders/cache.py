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
from retrieve_cli.encoders.folder import ModelFolder
from retrieve_cli.errors import Unavailable

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


def open_exported(folder: ModelFolder, cache_dir: Path) -> Exported:
    """The model's place in the cache, written now if it is absent, damaged or of an older format.

    It is written into a scratch folder and renamed, so that two exporters at once, or one that is killed, do no harm.

    Raises:
        Unavailable: the model is of a family that this encoder does not know, or the cache cannot be written.
    """
    architecture = Architecture.read(folder.config)
    digests = Digests(cache_dir)
    revision = folder.revision(digests)
    target = cache_dir / f"{re.sub(r'[^A-Za-z0-9._-]+', '--', folder.name)}-{revision[:12]}"
    if not sound(target, revision, digests):
        from retrieve_cli.encoders.export import publish  # a query finds the export there already

        try:
            publish(folder, architecture, target, revision=revision, digests=digests)
        except OSError as error:
            raise Unavailable(
                f"The model cache {cache_dir} cannot be written: {error.strerror or error}.",
                hint="choose a folder that can be written as the model cache, or make room on its disk",
            ) from error
    return Exported(target, architecture)


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
