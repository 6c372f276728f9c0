"""A worker that is a process of this machine: a fresh one, not a copy of this process, which has threads and locks."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import shortened
from retrieve_cli.models.executors import workers
from retrieve_cli.models.executors.workers import Hello, ProbeAnswer, UnitResults, WorkerEnded, WorkUnit
from retrieve_cli.untrusted.frames import framed
from retrieve_cli.untrusted.worker import Gone, WorkerProcess as Process, search_path

_MOST = 1 << 34
"""Most bytes of an answer."""
_GPUS = Path("/proc/driver/nvidia/gpus")


class MachineShare(NamedTuple):
    """Part of this machine that a worker gets."""

    threads: int
    device: str | None = None
    """Number of its GPU, as CUDA numbers them; None: as configured."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for the process."""
        one = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        return one if self.device is None else {**one, "CUDA_VISIBLE_DEVICES": self.device}


def shares(workers: int, cores: int, devices: Sequence[str] = ()) -> list[MachineShare]:
    """Return the part of the machine for each worker: cores as even as they can be, devices in turn."""
    base, more = divmod(cores, workers)
    return [
        MachineShare(max(1, base + (place < more)), devices[place % len(devices)] if devices else None)
        for place in range(workers)
    ]


def gpus() -> list[str]:
    """Return the numbers of this machine's GPUs, without loading a package that talks to them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [device.strip() for device in visible.split(",") if device.strip() not in ("", "-1")]
    try:
        return [str(place) for place, _ in enumerate(_GPUS.iterdir())]
    except OSError:
        return []


class LocalWorker:
    """`EncodingWorker` in a separate process, which ends with this one, however this one ends.

    Requests and answers are pickles: both are of this program, and the process may do what this one may.
    """

    def __init__(self, factory: str, settings: Json, share: MachineShare) -> None:
        """`factory` is "module:function"; it returns `encoding.Encoders` for `settings`."""
        self._hello = Hello(factory, settings, share.threads, search_path(), ())
        self._process = Process("retrieve_cli.models.executors.child", environment={**os.environ, **share.environment})

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def start(self, probes: Sequence[str]) -> ProbeAnswer:
        self._send(self._hello._replace(probes=list(probes)))
        answer: ProbeAnswer | workers.Unfit = self._receive()
        if isinstance(answer, workers.Unfit):
            raise answer
        return answer

    def encode(self, work: WorkUnit) -> Iterator[UnitResults]:
        self._send(work)
        while True:
            unit, what = self._receive()
            if unit != work.unit:
                raise WorkerEnded("it answered another request")
            if what is None:
                return
            if isinstance(what, workers.NotEncoded):
                raise what
            yield what

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """End it and free what belongs to it."""
        self._process.close()

    def _send(self, request: Hello | WorkUnit) -> None:
        self._process.send(framed(b"", pickle.dumps(request)))

    def _receive(self) -> Any:
        try:
            return pickle.loads(self._process.receive(head=0, body=_MOST)[1])  # noqa: S301  see above
        except Gone:
            raise WorkerEnded(self._process.ending()) from None
        except Exception as error:
            self.kill()
            raise WorkerEnded(f"it sent something that makes no sense ({shortened(str(error))})") from error
