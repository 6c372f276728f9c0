"""Writing a model into the model cache: into a scratch folder first, then renamed into place."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from retrieve_cli.encoders.digests import Digests
from retrieve_cli.encoders.exports import CARD, FORMAT, GRAPH, WEIGHTS, Export
from retrieve_cli.encoders.tensors import extents, write
from retrieve_cli.errors import Unavailable


def ensure(export: Export) -> None:
    """Write an export if it is absent, damaged or of an older format.

    Raises:
        Unavailable: the cache cannot be written, or the weights are not safetensors.
        UsageError: the weights lack a tensor.
    """
    digests = Digests(export.cache_dir)
    if export.state(digests) == "sound":
        return
    try:
        _publish(export, digests)
    except OSError as error:
        raise Unavailable(
            f"The model cache {export.cache_dir} cannot be written: {error.strerror or error}.",
            hint="choose a folder that can be written as the model cache, or free disk space",
        ) from error


def _publish(export: Export, digests: Digests) -> None:
    """Write weights, and the graph over where they lie; two exporters at once, or one that is killed, do no harm."""
    tensors, graph = export.contents()
    target = export.path
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
        card = {"format": FORMAT, "name": export.name, "revision": export.revision, "files": files}
        (scratch / CARD).write_text(json.dumps(card, indent=1), encoding="utf-8")
        scratch.chmod(0o755)
        _install(scratch, export, digests)
        for file_name, digest in files.items():
            digests.remember(target / file_name, digest)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _install(scratch: Path, export: Export, digests: Digests) -> None:
    """Rename into place; what lies there is moved aside first unless another exporter has just put a sound one."""
    target = export.path
    for _ in range(3):
        try:
            scratch.rename(target)
        except OSError:
            if not target.exists():
                raise
        else:
            return
        if export.state(digests) == "sound":
            return
        with contextlib.suppress(OSError):
            aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=".damaged-"))
            target.rename(aside / target.name)
            shutil.rmtree(aside, ignore_errors=True)
    scratch.rename(target)
