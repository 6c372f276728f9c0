"""Runs tries: each command in a forked child of a process that has loaded the program (sync/nursery.py)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hostile import answering, prepared
from hostile.checks import Ended, Finding, command_findings
from hostile.tries import PORT, Try, materialise
from sync.forks import Nursery
from waiting import PATIENCE_S, until

CALL = "hostile.child:limited"


class Runner:
    """Runs tries one after the other in a folder of its own."""

    def __init__(self, place: Path, *, call: str = CALL) -> None:
        """`call` is what a child runs, `module:function`."""
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a process with several threads must not be forked
        self._nursery = Nursery("hostile.child")
        self._call = call
        self.wall = PATIENCE_S
        """Seconds that a command may take."""
        self.place = place
        (place / "home").mkdir(parents=True)
        self._before: dict[str, Any] = {}

    def close(self) -> None:
        self._nursery.close()

    def run(self, attack: Try) -> list[Finding]:
        """Run the commands of a try; return what does not hold."""
        folder = self.place / "try"
        if attack.index:
            self._copy(self._prepared(attack.index), folder)
        else:
            remove(folder)
            folder.mkdir()
        ended = []
        with answering.serving(attack.answers) as port:
            materialise(attack, folder, port=port)
            for command in attack.commands:
                words = tuple(word.replace(PORT, str(port)) for word in command)
                ended.append(self.command(words, folder, attack))
        findings = [finding for one in ended for finding in command_findings(one)]
        return findings + list(self._left(attack, folder, ended, findings))

    def command(self, command: tuple[str, ...], folder: Path, attack: Try | None = None) -> Ended:
        """Run one command to its end, or kill it when it takes too long."""
        files = self.place / "streams"
        shutil.rmtree(files, ignore_errors=True)
        files.mkdir()
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
        pid, end = self._nursery.ask(request), time.monotonic() + self.wall
        codes: list[int] = []

        def has_ended() -> bool:
            code = self._nursery.ask({"ended": pid})
            codes.extend([] if code is None else [code])
            return bool(codes)

        until(lambda: has_ended() or time.monotonic() > end, f"the end of {command}")
        if over := not codes:
            os.kill(pid, signal.SIGKILL)
            until(has_ended, f"the end of {command}")
        return Ended(command, codes[0], (files / "out").read_bytes(), (files / "err").read_bytes(), over=over)

    # ------------------------------------------------------------------------------------------------ the folder

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.place / "home"),
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

    def _copy(self, from_: Path, to: Path) -> None:
        remove(to)
        shutil.copytree(from_, to, symlinks=True)

    # ------------------------------------------------------------------------------------------------ afterwards

    def _left(self, attack: Try, folder: Path, ended: list[Ended], findings: list[Finding]) -> Iterator[Finding]:
        """Yield what is wrong with the folder that a try left."""
        if (folder / "canary").exists():
            noted = (folder / "canary").read_text() or "code of the input was run"
            yield Finding("executed", noted, attack.commands[-1])
        if any(finding.kind in ("limit", "cpu") for finding in findings):
            return
        if attack.control:
            yield from self._controlled(attack, folder)
        if attack.category in ("inbox", "keys"):
            yield from self._as_before(ended)

    def _controlled(self, attack: Try, folder: Path) -> Iterator[Finding]:
        """The index answers as before, or as a newly published one does."""
        ended = self.command(prepared.CONTROL, folder)
        if ended.code:
            yield Finding("control", f"the control query ends with {ended.code}", ended.command, ended.tail)
            return
        before, after = self._before[attack.index], answer_of(ended)
        if before["generation"] == after["generation"] and before != after:
            yield Finding("control", "the same generation answers otherwise", ended.command, ended.tail)
        yield from command_findings(ended)

    def _as_before(self, ended: list[Ended]) -> Iterator[Finding]:
        """Damaged files give the same as before, or exit code 5."""
        for one in ended:
            if one.code == 0 and one.command[0] in ("sync", "keys"):
                value = json.loads(one.out)
                same = value["status"] == "unchanged" if one.command[0] == "sync" else value == self._before["keys"]
                if not same:
                    yield Finding("silent damage", f"{one.command[0]} took damage for content", one.command)
            elif one.code not in (0, 5) and b"nothing was published" not in one.err:
                yield Finding("code", f"{one.code} for damage", one.command, one.tail)


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
