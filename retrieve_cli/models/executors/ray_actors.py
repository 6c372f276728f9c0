"""Workers that are actors of a Ray cluster (https://docs.ray.io)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable, shortened
from retrieve_cli.models.executors.workers import Encoded, Encoders, Unit, Worker, WorkerDied

_REASON = 300


class RayCrew:
    """`workers.Crew` of actors, which end with this process."""

    def __init__(
        self, address: str, make: Callable[[], Encoders], cards: Mapping[str, Json], *, size: int, gpus: float
    ) -> None:
        """`size` 0: an actor for each CPU of the cluster; `gpus` is what an actor needs.

        Raises:
            Unavailable: Ray is not installed, or there is no cluster.
        """
        try:
            self._ray: Any = import_module("ray")
            self._pool_of: Any = import_module("ray.util").ActorPool
        except ImportError as error:
            hint = "pip install 'retrieve-cli[ray]'"
            raise Unavailable("the package ray is not installed", hint=hint) from error
        if not self._ray.is_initialized():
            try:
                self._ray.init(address=address, log_to_driver=False)
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                raise Unavailable(
                    f"there is no Ray cluster at {address}: {shortened(str(error), _REASON)}",
                    hint="start one: ray start --head; or use this machine alone: --workers N",
                ) from error
        self.size = size or int(self._ray.cluster_resources().get("CPU", 1))
        self._arguments = make, cards
        self._gpus = gpus
        self._actors: list[Any] = []

    def hire(self, count: int) -> None:
        self.close()
        actor = self._ray.remote(num_cpus=1, num_gpus=self._gpus, max_restarts=0)(Worker)
        self._actors = [actor.remote(*self._arguments) for _ in range(count)]
        self._pool = self._pool_of(self._actors)

    def submit(self, unit: Unit) -> None:
        if not self._actors:
            self.hire(self.size)
        self._pool.submit(lambda actor, work: actor.encode.remote(work), unit)

    def next(self) -> Encoded:
        try:
            encoded: Encoded = self._pool.get_next_unordered()
        except self._ray.exceptions.RayTaskError as error:  # the worker lives, and raised an error
            raise error.cause from error
        except self._ray.exceptions.RayError as error:
            reason = f"{type(error).__name__}: {shortened(str(error), _REASON)}"
            raise WorkerDied(reason) from error
        return encoded

    def close(self) -> None:
        for actor in self._actors:
            with suppress(Exception):  # it has died, or the cluster is gone
                self._ray.kill(actor)
        self._actors = []
