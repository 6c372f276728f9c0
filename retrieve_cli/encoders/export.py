"""Writing a model into the model cache: into a scratch folder first, then renamed into place."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieve_cli.encoders.bert import Architecture, arrange
from retrieve_cli.encoders.cache import CARD, FORMAT, GRAPH, WEIGHTS, sound
from retrieve_cli.encoders.digests import Digests
from retrieve_cli.encoders.graph import write_graph
from retrieve_cli.encoders.model_folder import ModelFolder
from retrieve_cli.encoders.tensors import extents, read, write
from retrieve_cli.errors import Unavailable

if TYPE_CHECKING:
    from retrieve_cli.encoders.tensors import Extent


def publish(folder: ModelFolder, architecture: Architecture, target: Path, *, revision: str, digests: Digests) -> None:
    """Export a dense model to `target`.

    Raises:
        OSError: the folder cannot be written.
        Unavailable: the weights are not safetensors.
    """
    if folder.weights[0].suffix != ".safetensors":
        raise Unavailable(
            f"{folder.weights[0]} is a pickle, which the onnx encoder does not open.",
            hint="fetch the model's safetensors file, or set `encoder.kind: torch`",
        )
    arranged = arrange(read(folder.weights), architecture)
    graph = partial(write_graph, architecture, weights=WEIGHTS)
    publish_files(target, arranged, graph, name=folder.name, revision=revision, digests=digests)


def publish_files(
    target: Path,
    tensors: Mapping[str, Any],
    graph: Callable[[Mapping[str, Extent]], bytes],
    *,
    name: str,
    revision: str,
    digests: Digests,
) -> None:
    """Weights, and the graph over where they lie, as one entry of the cache; two exporters at once, or one that is
    killed, do no harm.

    Raises:
        OSError: the folder cannot be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=".export-"))
    try:
        files = {WEIGHTS: write(scratch / WEIGHTS, tensors)}
        written = graph(extents(scratch / WEIGHTS))
        (scratch / GRAPH).write_bytes(written)
        files[GRAPH] = hashlib.sha1(written, usedforsecurity=False).hexdigest()
        for path in scratch.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        card = {"format": FORMAT, "name": name, "revision": revision, "files": files}
        (scratch / CARD).write_text(json.dumps(card, indent=1), encoding="utf-8")
        scratch.chmod(0o755)
        _install(scratch, target, revision=revision, digests=digests)
        for file_name, digest in files.items():
            digests.remember(target / file_name, digest)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _install(scratch: Path, target: Path, *, revision: str, digests: Digests) -> None:
    """Rename into place; what lies there is moved aside first unless another exporter has just put a sound one."""
    for _ in range(3):
        try:
            scratch.rename(target)
        except OSError:
            if not target.exists():
                raise
        else:
            return
        if sound(target, revision, digests):
            return
        with contextlib.suppress(OSError):
            aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=".damaged-"))
            target.rename(aside / target.name)
            shutil.rmtree(aside, ignore_errors=True)
    scratch.rename(target)
