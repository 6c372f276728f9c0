"""Workers by which a build embeds, by the configuration: processes of this machine, or actors of a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from retrieve_cli.assemble import encoders
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Encoder, SparseEncoder
from retrieve_cli.contracts.models import EmbeddingWorkers
from retrieve_cli.errors import UsageError, quoted

if TYPE_CHECKING:
    from retrieve_cli.models.executors.workers import Crew, Encoders

_UNIT_CHARACTERS = {"cpu": 32_768, "cuda": 262_144}
"""Texts of a unit: about a second of a core, or the batches that fill a GPU."""


def workers_for(
    settings: Settings,
    dense: Encoder | None,
    sparse: SparseEncoder | None,
    keeps_tokens: bool,
    say: Callable[[str], None],
) -> EmbeddingWorkers | None:
    """Return the configured workers for these encoders; None if no workers are configured.

    Raises:
        UsageError: they cannot be used with this configuration.
        Unavailable: Ray is not installed, or has no cluster.
    """
    settings.expect_trusted("executors")
    count, where = settings.executors.workers, settings.executors.executor
    if (count == 0 and where is None) or (dense is None and sparse is None):
        return None
    if dense is not None and settings.encoder.kind == "remote":
        raise UsageError(
            "a server encodes already (encoder.kind: remote); workers would only pass texts on to it",
            hint="name a model of this machine in encoder.kind",
        )
    from retrieve_cli.models.executors.workers import Encoders, PassageWorkers, Worker

    cards = Encoders(dense, sparse, keeps_tokens).cards
    make = partial(encoders_of, settings, dense is not None, sparse is not None, keeps_tokens)
    kind, _, address = (where or "").partition(":")
    device = "cuda" if dense is not None and dense.device.startswith("cuda") else "cpu"
    crew: Crew
    if kind == "ray" and address:
        from retrieve_cli.models.executors.ray_actors import RayCrew

        gpus = 1.0 if device == "cuda" else 0.0
        crew = RayCrew(address, make, cards, size=count, gpus=gpus)
    elif where is None:
        from retrieve_cli.models.executors.processes import ProcessCrew

        crew = ProcessCrew(count, partial(Worker, make, cards), _gpus() if device == "cuda" else [])
    else:
        raise UsageError(f"--executor takes no {quoted(where)}", hint="--executor ray:auto, or ray:ADDRESS")
    return PassageWorkers(crew, _UNIT_CHARACTERS[device], say)


def encoders_of(settings: Settings, dense: bool, sparse: bool, keeps_tokens: bool) -> Encoders:
    """Return the encoders of a worker, in its process."""
    from retrieve_cli.models.executors.workers import Encoders

    return Encoders(
        encoders.encoder_to_build(settings) if dense else None,
        encoders.sparse_encoder_to_build(settings) if sparse else None,
        keeps_tokens,
    )


def _gpus() -> list[str]:
    """Return the numbers of this machine's GPUs."""
    from retrieve_cli.models.runtimes.packages import require

    every = ",".join(map(str, range(require("torch").cuda.device_count())))
    return [number for number in os.environ.get("CUDA_VISIBLE_DEVICES", every).split(",") if number]
