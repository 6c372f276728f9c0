"""Runs tries: each command in a forked child of this process, which has one thread and has loaded the program."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostile import answering, prepared
from hostile.checks import Finding, command_findings
from hostile.kills import killed
from hostile.limits import WALL_S, Ended, wait
from hostile.tries import PORT, Try, materialise
from sync import nursery
from waiting import pause

import retrieve_cli

LOADED = ("Stemmer", "rich.table", "yaml", "pydicom", "nibabel", "tifffile", "nrrd", "PIL.Image", "pyoxigraph",
          "obonet", "ir_measures", "scipy.stats", "jinja2", "matplotlib.figure")  # fmt: skip
"""Modules that every child would otherwise import, in addition to those that the nursery loads."""
ROOMS = ("cli", "evaluation", "http", "ingest", "operations", "output", "retrieval", "search", "sources", "storage",
         "untrusted")  # fmt: skip
"""Packages whose modules are loaded as well: their import takes half of a command's time."""
CALL = "hostile.limits:limited"


@dataclass
class Result:
    """Result of a try."""

    findings: list[Finding] = field(default_factory=list)
    cpu: float = 0.0
    """Seconds that the slowest of its commands took."""
    ended: list[Ended] = field(default_factory=list)
    commands: int = 0
    """Number of commands that were run, including those that check the result."""


class Runner:
    """Runs tries one after the other in a folder of its own."""

    def __init__(self, place: Path, *, call: str = CALL) -> None:
        """`place` is a folder that is its own; `call` is what a child runs, `module:function`."""
        for name in (*nursery.LOADED, *LOADED, *_modules()):
            importlib.import_module(name)
        _load_spacy()
        threads = len(list(Path("/proc/self/task").iterdir()))
        assert threads == 1, f"a process with {threads} threads must not be forked"
        self._call = call
        self.wall: float = WALL_S
        """Seconds that a command may take."""
        remove(place)
        self.place = place
        self._home = self.place / "home"
        self._home.mkdir(parents=True)
        self._before: dict[str, Any] = {}
        self._log: list[Ended] = []

    def run(self, attack: Try) -> Result:
        """Run the commands of a try, and hold them to what must hold."""
        result, folder = Result(), self.place / "try"
        self._fresh(folder, attack.index)
        self._log = []
        if attack.kill:
            materialise(attack, folder, port=0)
            result.findings += killed(self, attack, folder)
        else:
            self._run(attack, folder, result)
        result.commands, result.cpu = len(self._log), max((ended.cpu for ended in self._log), default=0.0)
        return result

    def _run(self, attack: Try, folder: Path, result: Result) -> None:
        with answering.serving(attack.answers) as port:
            materialise(attack, folder, port=port)
            for command in attack.commands:
                given = tuple(word.replace(PORT, str(port)) for word in command)
                result.ended.append(self.command(given, folder, attack))
        for ended in result.ended:
            result.findings += command_findings(ended)
        result.findings += self._left(attack, folder, result)

    def command(self, command: tuple[str, ...], folder: Path, attack: Try | None = None) -> Ended:
        """Run one command to its end."""
        files = self.place / "streams"
        pid = self.start(command, folder, attack)
        self._log.append(wait(pid, command, files / "out", files / "err", seconds=self.wall))
        return self._log[-1]

    def start(self, command: tuple[str, ...], folder: Path, attack: Try | None = None) -> int:
        """Start one command; return its process id."""
        files = self.place / "streams"
        shutil.rmtree(files, ignore_errors=True)
        files.mkdir()
        for name in ("out", "err"):
            (files / name).touch()
        (files / "in").write_bytes(attack.stdin if attack else b"")
        environment = {**self._environment(), **(attack.environment if attack else {})}
        request = {
            "call": self._call,
            "arguments": list(command),
            "folder": str(folder),
            "environment": {name: value for name, value in environment.items() if value},
            "fault": {},
            "nice": 0,
            **{name: str(files / name) for name in ("in", "out", "err", "report")},
        }
        return nursery.start(request)

    # ------------------------------------------------------------------------------------------------ the folder

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self._home),
            "LANG": "C.UTF-8",
            "HF_HUB_OFFLINE": "1",
            "RETRIEVE_ENCODER__KIND": "hashed",
            "RETRIEVE_TRUST": "1",
        }

    def _prepared(self, name: str) -> Path:
        """Return the folder that tries start from, with the index built."""
        place = self.place / name
        if not place.exists():
            place.mkdir()
            prepared.write(place)
            ended = self.command(("build",), place)
            assert ended.code == 0, ended
            if name == prepared.OWN:
                prepared.add_own(place / "artifacts")
                assert self.command(("sync",), place).code == 0
                self._before["keys"] = json.loads(self.command(("keys", "list", "--json"), place).out)
            self._before[name] = answer_of(self.command(prepared.CONTROL, place))
        return place

    def _fresh(self, folder: Path, index: str) -> None:
        if index:
            self.copy(self._prepared(index), folder)
        else:
            remove(folder)
            folder.mkdir()

    def copy(self, from_: Path, to: Path) -> None:
        """Copy a folder to a place, from which what was there is removed."""
        remove(to)
        shutil.copytree(from_, to, symlinks=True)

    # ------------------------------------------------------------------------------------------------ afterwards

    def _left(self, attack: Try, folder: Path, result: Result) -> Iterator[Finding]:
        """Yield what is wrong with the folder that a try left."""
        if (folder / "canary").exists():
            noted = (folder / "canary").read_text() or "code of the input was run"
            yield Finding("executed", noted, attack.commands[-1])
        if any(finding.kind in ("limit", "cpu") for finding in result.findings):
            return
        if attack.control:
            yield from self._controlled(attack, folder)
        if attack.category in ("inbox", "keys"):
            yield from self._as_before(result)

    def _controlled(self, attack: Try, folder: Path) -> Iterator[Finding]:
        """The index answers as before, or as a newly published one does."""
        ended = self.command(prepared.CONTROL, folder)
        if ended.code:
            yield Finding("control", f"the control query ends with {ended.code}", ended.command, _tail(ended))
            return
        before, after = self._before[attack.index], answer_of(ended)
        if before["generation"] == after["generation"] and before != after:
            yield Finding("control", "the same generation answers otherwise", ended.command, _tail(ended))
        yield from command_findings(ended)

    def _as_before(self, result: Result) -> Iterator[Finding]:
        """Damaged files give the same as before, or exit code 5."""
        for ended in result.ended:
            if ended.code == 0 and ended.command[0] in ("sync", "keys"):
                found = json.loads(ended.out)
                same = found["status"] == "unchanged" if ended.command[0] == "sync" else found == self._before["keys"]
                if not same:
                    yield Finding("silent damage", f"{ended.command[0]} took damage for content", ended.command)
            elif ended.code not in (0, 5) and b"nothing was published" not in ended.err:
                yield Finding("code", f"{ended.code} for damage", ended.command, _tail(ended))


def _modules() -> Iterator[str]:
    for room in ROOMS:
        folder = Path(retrieve_cli.__file__).with_name(room)
        yield from (info.name for info in pkgutil.walk_packages([str(folder)], f"retrieve_cli.{room}."))


def _load_spacy() -> None:
    """Load spaCy without torch, which it would load to find out that it is there: 200 MB for every fork to copy."""
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("spacy")
    finally:
        del sys.modules["torch"]


def remove(folder: Path) -> None:
    """Remove a folder, whatever rights its parts have."""
    if folder.exists():
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)
        shutil.rmtree(folder)


def answer_of(ended: Ended) -> Any:
    """Return what an answer says, without the circumstances."""
    answer = json.loads(ended.out)
    for key in ("timings_ms", "deadline", "trace", "pipeline_info"):
        answer.pop(key, None)
    for hit in answer["results"]:
        hit.pop("freshness", None)
    return answer


def _tail(ended: Ended) -> str:
    return ended.err[-1500:].decode("utf-8", "backslashreplace")


def kill_after(pid: int, after: float) -> int:
    """Kill a child after some seconds; return how it ended."""
    pause(after, why="a kill at a random moment; a child that has ended stays until it is waited for")
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
