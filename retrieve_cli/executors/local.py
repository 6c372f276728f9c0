"""A worker that is a process of this machine: a fresh one, not a copy of this process, which has threads and locks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable, shortened
from retrieve_cli.executors import messages
from retrieve_cli.executors.child import read_exactly
from retrieve_cli.executors.messages import Answer, Results, Work
from retrieve_cli.executors.workers import NotEncoded, Unfit, WorkerEnded

_SAID = 4096
"""Last bytes of its standard error that are looked at."""
_LINE = 200
"""Characters of the last line on it that are quoted."""
_GPUS = Path("/proc/driver/nvidia/gpus")
_END_S = 5.0
"""Seconds in which a killed process is gone."""


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
        self._hello = {"factory": factory, "settings": settings, "threads": share.threads, "paths": _paths()}
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  closed by `kill`'s thread, with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "retrieve_cli.executors.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            bufsize=0,
            env={**os.environ, **share.environment, "PYTHONPATH": os.pathsep.join(_paths()), "PYTHONSAFEPATH": "1"},
        )
        streams: tuple[Any, Any] = (self._process.stdin, self._process.stdout)
        self._input, self._output = streams

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
        with suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """End it and free what belongs to it."""
        self.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        for stream in (self._input, self._output, self._said):
            stream.close()

    def _send(self, head: Json) -> None:
        view = memoryview(messages.pack(head))
        try:
            while view:
                view = view[os.write(self._input.fileno(), view) :]
        except (BrokenPipeError, ValueError):
            raise WorkerEnded(self._reason()) from None

    def _receive(self) -> tuple[Json, messages.Arrays]:
        try:
            return messages.unpack(lambda size: read_exactly(self._output.fileno(), size))
        except messages.Cut:
            raise WorkerEnded(self._reason()) from None
        except (ValueError, KeyError, TypeError) as error:
            self.kill()
            raise WorkerEnded(f"it sent something that makes no sense ({shortened(str(error))})") from error

    def _reason(self) -> str:
        """Return how the process ended, in words."""
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        with suppress(OSError, ValueError):
            size = self._said.seek(0, os.SEEK_END)
            self._said.seek(max(0, size - _SAID))
        last = self._said.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        name = signal.Signals(-code).name if code < 0 and -code in set(signal.Signals) else ""
        end = f"signal {name}" if name else f"exit code {code}"
        return f"{end}: {shortened(printable(last), _LINE)}" if last and not name else end


def _paths() -> list[str]:
    """Return the search path for modules of this process, without the folder that is current at the time."""
    package = str(Path(__file__).parents[2])
    return [package, *(path for path in sys.path if Path(path).is_absolute() and path != package)]
