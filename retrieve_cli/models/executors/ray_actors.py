"""A worker that is an actor of a Ray cluster (https://docs.ray.io): plain actors, no data sets, nothing that spills."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError, Unavailable, shortened
from retrieve_cli.models.executors.workers import NotEncoded, ProbeAnswer, Unfit, UnitResults, WorkerEnded, WorkUnit

if TYPE_CHECKING:
    from retrieve_cli.models.executors.encoding import Encoders

_REASON = 300
_STARTS_S = 300.0
"""Seconds in which an actor is placed and has loaded its model."""


class Actor:
    """The side of a worker that runs in the cluster."""

    def __init__(self, factory: str, settings: Json) -> None:
        module, _, name = factory.partition(":")
        self._encoders: Encoders = getattr(import_module(module), name)(settings)

    def start(self, probes: Sequence[str]) -> ProbeAnswer:
        """Return the cards of the encoders, and the encoded probes."""
        return self._encoders.answer(probes)

    def encode(self, work: WorkUnit) -> UnitResults:
        """Return the encodings of a unit."""
        before = self._encoders.truncated
        encoded = self._encoders.encode_all(work.texts, work.wanted)
        return UnitResults(range(len(work.texts)), encoded, self._encoders.truncated - before)


class RayWorker:
    """`EncodingWorker` in an actor, which ends with this process."""

    def __init__(self, factory: str, settings: Json, *, gpus: float) -> None:
        """`factory` and `settings` are as for a local worker; `gpus` is what the actor asks of its machine."""
        self._ray = _package()
        self._actor = self._ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0)(Actor).remote(factory, settings)

    def start(self, probes: Sequence[str]) -> ProbeAnswer:
        try:
            answer: ProbeAnswer = self._get(self._actor.start.remote(list(probes)), _STARTS_S)
        except NotEncoded as error:
            raise Unfit(str(error)) from error
        return answer

    def encode(self, work: WorkUnit) -> Iterator[UnitResults]:
        yield UnitResults((), ())  # an actor does not say when it begins
        yield self._get(self._actor.encode.remote(work), None)

    def kill(self) -> None:
        with suppress(Exception):  # the cluster may be gone
            self._ray.kill(self._actor)

    def close(self) -> None:
        """End the actor."""
        self.kill()

    def _get(self, pending: Any, seconds: float | None) -> Any:
        """Return an answer of the actor. Raises: WorkerEnded, NotEncoded."""
        failures = self._ray.exceptions
        try:
            return self._ray.get(pending, timeout=seconds)
        except failures.RayTaskError as error:
            cause = error.cause
            said = cause.message if isinstance(cause, RetrieveError) else f"{type(cause).__name__}: {cause}"
            raise NotEncoded(shortened(said, _REASON)) from None
        except failures.RayError as error:
            raise WorkerEnded(f"{type(error).__name__}: {shortened(str(error), _REASON)}") from None


def connect(address: str) -> int:
    """Connect to a cluster, or start one on this machine (`local`), and return the number of its CPUs.

    Raises:
        Unavailable: Ray is not installed, or the cluster does not exist.
    """
    ray = _package()
    where = {"include_dashboard": False} if address == "local" else {"address": address}
    if not ray.is_initialized():
        try:
            ray.init(**where, log_to_driver=False)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise Unavailable(
                f"there is no Ray cluster at {address}: {shortened(str(error), _REASON)}",
                hint="start one: ray start --head; or use this machine alone: --executor ray:local",
            ) from error
    return int(ray.cluster_resources().get("CPU", 1))


def _package() -> Any:
    try:
        return import_module("ray")
    except ImportError as error:
        raise Unavailable("the package ray is not installed", hint="pip install 'retrieve-cli[ray]'") from error
