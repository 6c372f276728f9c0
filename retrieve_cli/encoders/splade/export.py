"""Writing a masked language model into the model cache: into a scratch folder first, then renamed into place."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from retrieve_cli.encoders.bert import Architecture
from retrieve_cli.encoders.cache import CARD, FORMAT, GRAPH, WEIGHTS
from retrieve_cli.encoders.digests import Digests
from retrieve_cli.encoders.export import _install
from retrieve_cli.encoders.splade.folder import Masked
from retrieve_cli.encoders.splade.head import arrange_masked, write_head_graph
from retrieve_cli.encoders.tensors import extents, read, write


def publish_masked(
    route: Masked, architecture: Architecture, target: Path, *, name: str, revision: str, digests: Digests
) -> None:
    """Export a model to `target`; two exporters at once, or one that is killed, do no harm.

    Raises:
        OSError: the folder cannot be written.
        UsageError: the weights lack a tensor.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=".export-"))
    try:
        files = _write(route, architecture, scratch)
        card = {"format": FORMAT, "name": name, "revision": revision, "files": files}
        (scratch / CARD).write_text(json.dumps(card, indent=1), encoding="utf-8")
        scratch.chmod(0o755)
        _install(scratch, target, revision=revision, digests=digests)
        for file, digest in files.items():
            digests.remember(target / file, digest)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write(route: Masked, architecture: Architecture, scratch: Path) -> dict[str, str]:
    """Write all files but the card; SHA-1 by name."""
    arranged = arrange_masked(read(route.folder.weights), architecture)
    files = {WEIGHTS: write(scratch / WEIGHTS, arranged)}
    graph = write_head_graph(architecture, extents(scratch / WEIGHTS), weights=WEIGHTS)
    (scratch / GRAPH).write_bytes(graph)
    files[GRAPH] = hashlib.sha1(graph, usedforsecurity=False).hexdigest()
    for path in scratch.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return files
