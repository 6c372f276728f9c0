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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from retrieve_cli.encoders.digests import Digests
from retrieve_cli.frozen import Frozen
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.encoders.tensors import Extent

FORMAT = 1
"""Raised when the layout or the graph changes, so that older exports are written again."""
GRAPH, WEIGHTS, CARD = "model.onnx", "weights.safetensors", "card.json"

Contents: TypeAlias = "tuple[Mapping[str, Any], Callable[[Mapping[str, Extent]], bytes]]"
"""Tensors laid out for multiplying, and what writes the graph over where they lie in their file."""


class Export(Frozen):
    """A model's entry in the model cache: where it lies, whether it is sound, and what is written there."""

    cache_dir: Path
    name: str
    revision: str
    contents: Callable[[], Contents]
    """Function that reads the model's own files; called only to write the export."""
    suffix: str = ""
    """Follows the name in the folder's name."""

    @property
    def path(self) -> Path:
        name = re.sub(r"[^A-Za-z0-9._-]+", "--", self.name + self.suffix)
        return self.cache_dir / f"{name}-{self.revision[:12]}"

    @property
    def graph(self) -> Path:
        return self.path / GRAPH

    @property
    def weights(self) -> Path:
        return self.path / WEIGHTS

    def state(self, digests: Digests) -> Literal["sound", "damaged", "none"]:
        """Return "sound" if it is whole, of this format and of this revision of the model."""
        path = self.path
        try:
            card = json.loads(files.read_bytes(path / CARD, limit=files.CONFIG))
            sound = (
                card["format"] == FORMAT
                and card["revision"] == self.revision
                and all(digests.sha1(path / name) == digest for name, digest in card["files"].items())
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            sound = False
        if sound:
            return "sound"
        return "damaged" if path.exists() else "none"
