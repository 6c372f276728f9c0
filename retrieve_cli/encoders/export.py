"""Writing a model into the model cache: into a scratch folder first, then renamed into place."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from retrieve_cli.encoders.bert import Architecture, arrange
from retrieve_cli.encoders.cache import CARD, FORMAT, GRAPH, WEIGHTS, sound
from retrieve_cli.encoders.digests import Digests
from retrieve_cli.encoders.folder import ModelFolder
from retrieve_cli.encoders.graph import write_graph
from retrieve_cli.encoders.tensors import extents, read, write
from retrieve_cli.errors import Unavailable


def publish(folder: ModelFolder, architecture: Architecture, target: Path, *, revision: str, digests: Digests) -> None:
    """Export a model to `target`; two exporters at once, or one that is killed, do no harm.

    Raises:
        OSError: the folder cannot be written.
        Unavailable: the weights are not safetensors.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=".export-"))
    try:
        files = _write(folder, architecture, scratch)
        card = {"format": FORMAT, "name": folder.name, "revision": revision, "files": files}
        (scratch / CARD).write_text(json.dumps(card, indent=1), encoding="utf-8")
        scratch.chmod(0o755)
        _install(scratch, target, revision=revision, digests=digests)
        for name, digest in files.items():
            digests.remember(target / name, digest)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write(folder: ModelFolder, architecture: Architecture, scratch: Path) -> dict[str, str]:
    """Write all files but the card; SHA-1 by name."""
    if folder.weights[0].suffix != ".safetensors":
        raise Unavailable(
            f"{folder.weights[0]} is a pickle, which the onnx encoder does not open.",
            hint="fetch the model's safetensors file, or set `encoder.kind: torch`",
        )
    files = {WEIGHTS: write(scratch / WEIGHTS, arrange(read(folder.weights), architecture))}
    graph = write_graph(architecture, extents(scratch / WEIGHTS), weights=WEIGHTS)
    (scratch / GRAPH).write_bytes(graph)
    files[GRAPH] = hashlib.sha1(graph, usedforsecurity=False).hexdigest()
    for path in scratch.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return files


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
