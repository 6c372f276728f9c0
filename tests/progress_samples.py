"""What tests of progress stand on: a display that remembers, counts in printed lines, a slow encoder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from samples import ROOT

from retrieve_cli.contracts.progress import Task


class Ended(NamedTuple):
    """A task at its end."""

    unit: str
    done: int
    total: int | None


class Recorder:
    """Remembers each task at its end, and its counts on the way."""

    def __init__(self) -> None:
        self.tasks: dict[str, Ended] = {}
        self.counts: dict[str, list[int]] = {}
        self.sizes: dict[str, tuple[list[int], int | None]] = {}

    def began(self, task: Task) -> None:
        self.counts[task.name] = [task.done]
        self.sizes[task.name] = [], None

    def changed(self, task: Task) -> None:
        self.counts[task.name].append(task.done)
        self.sizes[task.name] = [*self.sizes[task.name][0], task.sized], task.size

    def ended(self, task: Task) -> None:
        self.tasks[task.name] = Ended(task.unit, task.done, task.total)


def counts(said: str, name: str) -> list[tuple[int, int]]:
    """What lines of a task say: how many are done, of how many."""
    found = re.findall(rf"^{name}: ([\d,]+) of ([\d,]+) ", said, re.MULTILINE)
    return [(int(done.replace(",", "")), int(total.replace(",", ""))) for done, total in found]


def texts(count: int) -> list[dict[str, Any]]:
    """Tools, one chunk each, of many lengths."""
    return [
        {"id": f"t{number}", "name": "tool", "description": f"segment lungs {number} " + "word the " * (number % 9)}
        for number in range(count)
    ]


SLOW = """
import sys, time
from retrieve_cli.contracts import progress
from retrieve_cli.models.encoders import onnx_encoder
from retrieve_cli.ingest import encodings
progress.MEASURED_S = 0.1
pause, encodings.KEPT, encodings.PAUSE_S = float(sys.argv.pop(1)), 8, 0.0
pool = onnx_encoder.pool
def slow(hidden, kind):
    time.sleep(pause)
    return pool(hidden, kind)
onnx_encoder.pool = slow
from retrieve_cli.__main__ import run
run()
"""
"""The program, whose onnx encoder pauses after each text, and whose results are kept every eight texts."""


def start(pause: float, *arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """Begin a run of the program with a slow encoder."""
    words = [sys.executable, "-c", SLOW, str(pause), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("environment", {})}
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, **{"stderr": subprocess.PIPE, **options})


def use(model: Path, monkeypatch: Any) -> None:
    """Let the onnx encoder of this process, and of those that it starts, be a small model."""
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "onnx")
    monkeypatch.setenv("RETRIEVE_ENCODER__MODEL", str(model))
    monkeypatch.setenv("RETRIEVE_MODELS__CACHE_DIR", str(model.parent / "cache"))
