"""The model cache: a checkpoint laid out once for multiplying, with its ONNX graph, so that opening it is mapping it.

<cache_dir>/digests.json        SHA-1 of files already read
<cache_dir>/<name>-<revision>/
    model.onnx                  the graph; its weights are external
    weights.safetensors         laid out for multiplying
    card.json                   written last: format, revision, SHA-1 of each file
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from retrieve_cli.errors import Unavailable
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.runtimes.tensors import Digests, extents, write
from retrieve_cli.storage.durable import sync
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.models.runtimes.tensors import Extent

FORMAT = 1
"""Raised when the layout or the graph changes, so that older exports are written again."""
GRAPH, WEIGHTS, CARD = "model.onnx", "weights.safetensors", "card.json"

Contents: TypeAlias = "tuple[Mapping[str, Any], Callable[[Mapping[str, Extent]], bytes]]"
"""Tensors laid out for multiplying, and what writes the graph over where they lie in their file."""


class Export(Frozen):
    """A model's entry in the model cache: its folder, its validation, and its files."""

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
            if (card["format"], card["revision"]) == (FORMAT, self.revision) and all(
                digests.sha1(path / name) == digest for name, digest in card["files"].items()
            ):
                return "sound"
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        return "damaged" if path.exists() else "none"


def ensure(export: Export) -> None:
    """Write an export if it is absent, damaged or of an older format: into a scratch folder, then renamed into place.

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
    scratch = _folder(target.parent, ".export-")
    try:
        digested = {WEIGHTS: write(scratch / WEIGHTS, tensors)}
        written = graph(extents(scratch / WEIGHTS))
        (scratch / GRAPH).write_bytes(written)
        digested[GRAPH] = hashlib.sha1(written, usedforsecurity=False).hexdigest()
        for path in scratch.iterdir():
            sync(path)
        card = {"format": FORMAT, "name": export.name, "revision": export.revision, "files": digested}
        (scratch / CARD).write_text(json.dumps(card, indent=1), encoding="utf-8")
        scratch.chmod(0o755)
        _install(scratch, export, digests)
        for name, digest in digested.items():
            digests.remember(target / name, digest)
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
            aside = _folder(target.parent, ".damaged-")
            target.rename(aside / target.name)
            shutil.rmtree(aside, ignore_errors=True)
    scratch.rename(target)


def _folder(parent: Path, prefix: str) -> Path:
    import tempfile  # a query finds a sound export

    return Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
