"""Whole runs of the program, or of a task, each in a forked process of its own; see nursery.py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sync.nursery import Counted, Fault
from waiting import until

__all__ = ["Child", "Counted", "Fault", "Forks", "Nursery"]


def models() -> dict[str, str]:
    """Return the settings of this process, for a child that must have them."""
    return {key: value for key, value in os.environ.items() if key.startswith("RETRIEVE_")}


TESTS = Path(__file__).resolve().parents[1]
MAIN = "retrieve_cli.cli.main:main"


class Nursery:
    """The process that forks; one for a whole session of tests."""

    def __init__(self, *modules: str) -> None:
        """Loads these modules beside those that every child needs."""
        paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("RETRIEVE_")},
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sync.nursery", *modules],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        ready = self._answer()
        assert ready == {"threads": 1}, f"a process with more than one thread must not be forked: {ready}"

    def ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self._process.communicate()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the nursery has ended"
        return json.loads(line)


@dataclass
class Child:
    """A process that was started."""

    pid: int
    files: Path
    nursery: Nursery
    code: int | None = None

    def wait(self) -> int:
        """Return its exit code, negative for the signal that ended it."""
        until(self.ended, f"the end of process {self.pid}")
        assert self.code is not None
        return self.code

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def ended(self) -> bool:
        """Return whether it has come to its end by itself."""
        if self.code is None:
            self.code = self.nursery.ask({"ended": self.pid})
        return self.code is not None

    @property
    def out(self) -> str:
        return (self.files / "out").read_text("utf-8")

    @property
    def err(self) -> str:
        return (self.files / "err").read_text("utf-8")

    @property
    def json(self) -> Any:
        """What it printed, once it has ended."""
        self.wait()
        assert self.out, self.err
        return json.loads(self.out)

    @property
    def counted(self) -> Counted:
        """What it did until its end, to which it came by itself."""
        assert self.wait() == 0, self.err
        return Counted(**json.loads((self.files / "report").read_text()))


class Forks:
    """Starts children in one folder; those that still run at the end of a test are killed."""

    def __init__(self, nursery: Nursery, folder: Path, files: Path) -> None:
        self._nursery = nursery
        self._folder = folder
        self._files = files
        self._children: list[Child] = []

    def start(
        self, *arguments: object, call: str = MAIN, fault: Fault | None = None, nice: int = 0, **environment: str
    ) -> Child:
        """Start the program, or a function `module:name`, with the hashed encoder unless `environment` says else."""
        files = self._files / str(len(self._children))
        files.mkdir()
        for name in ("out", "err"):
            (files / name).touch()
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("RETRIEVE_")}
        pid = self._nursery.ask(
            {
                "call": call,
                "arguments": [str(argument) for argument in arguments],
                "folder": str(self._folder),
                "environment": {**inherited, "RETRIEVE_ENCODER__KIND": "hashed", **environment},
                "fault": asdict(fault or Fault()),
                "nice": nice,
                **{name: str(files / name) for name in ("out", "err", "report")},
            }
        )
        self._children.append(Child(pid, files, self._nursery))
        return self._children[-1]

    def close(self) -> None:
        """Kill what still runs."""
        for child in self._children:
            if not child.ended():
                child.send(signal.SIGKILL)
                child.wait()
