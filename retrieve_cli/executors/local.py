"""A worker that is a process of this machine: a fresh one, not a copy of this process, which has threads and locks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import shortened
from retrieve_cli.executors import messages
from retrieve_cli.executors.messages import Answer, Results, Work
from retrieve_cli.executors.workers import NotEncoded, Unfit, WorkerEnded
from retrieve_cli.processes.frames import framed
from retrieve_cli.processes.worker import Gone, Worker, search_path

_GPUS = Path("/proc/driver/nvidia/gpus")


class Share(NamedTuple):
    """Part of this machine that a worker gets."""

    threads: int
    device: str | None = None
    """Number of its GPU, as CUDA numbers them; None: as configured."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for the process."""
        one = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        return one if self.device is None else {**one, "CUDA_VISIBLE_DEVICES": self.device}


def shares(workers: int, cores: int, devices: Sequence[str] = ()) -> list[Share]:
    """Return the part of the machine for each worker: cores as even as they can be, devices in turn."""
    base, more = divmod(cores, workers)
    return [
        Share(max(1, base + (place < more)), devices[place % len(devices)] if devices else None)
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
    """`workers.Worker` in a process of its own, which ends with this one, however this one ends."""

    def __init__(self, factory: str, settings: Json, share: Share) -> None:
        """`factory` is "module:function"; it returns `encoding.Encoders` for `settings`, which are sent as JSON."""
        self._hello = {"factory": factory, "settings": settings, "threads": share.threads, "paths": search_path()}
        self._process = Worker("retrieve_cli.executors.child", environment={**os.environ, **share.environment})

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def start(self, probes: Sequence[str]) -> Answer:
        self._send({"hello": {**self._hello, "probes": list(probes)}})
        head, arrays = self._receive()
        if "failed" in head:
            raise Unfit(f"{head['failed']} ({head['hint']})" if head["hint"] else head["failed"])
        return Answer(head["ready"], messages.results_of(head, arrays), head["about"])

    def encode(self, work: Work) -> Iterator[Results]:
        self._send(messages.work_head(work))
        while True:
            head, arrays = self._receive()
            if head["unit"] != work.unit:
                raise WorkerEnded("it answered another request")
            if "end" not in head:
                yield Results(head["places"], messages.results_of(head, arrays))
                continue
            yield Results((), (), head["truncated"])
            if head["end"]:
                raise NotEncoded(head["end"])
            return

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """End it and free what belongs to it."""
        self._process.close()

    def _send(self, head: Json) -> None:
        self._process.send(framed(json.dumps(head).encode()))

    def _receive(self) -> tuple[Json, messages.Arrays]:
        try:
            head, body = self._process.receive(head=messages.MOST_HEAD, body=messages.MOST_BODY)
            return messages.unpacked(json.loads(head), body)
        except Gone:
            raise WorkerEnded(self._process.ending()) from None
        except (ValueError, KeyError, TypeError) as error:
            self.kill()
            raise WorkerEnded(f"it sent something that makes no sense ({shortened(str(error))})") from error
