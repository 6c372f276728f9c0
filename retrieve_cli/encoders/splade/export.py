"""Writing a masked language model into the model cache."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from retrieve_cli.encoders.bert import Architecture
from retrieve_cli.encoders.cache import WEIGHTS
from retrieve_cli.encoders.digests import Digests
from retrieve_cli.encoders.export import publish_files
from retrieve_cli.encoders.splade.head import arrange_masked, write_head_graph
from retrieve_cli.encoders.splade.splade_folder import Masked
from retrieve_cli.encoders.tensors import read


def publish_masked(
    route: Masked, architecture: Architecture, target: Path, *, name: str, revision: str, digests: Digests
) -> None:
    """Export a model to `target`.

    Raises:
        OSError: the folder cannot be written.
        UsageError: the weights lack a tensor.
    """
    arranged = arrange_masked(read(route.folder.weights), architecture)
    graph = partial(write_head_graph, architecture, weights=WEIGHTS)
    publish_files(target, arranged, graph, name=name, revision=revision, digests=digests)
