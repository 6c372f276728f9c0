"""A process that runs tries when it is asked to: one JSON value a line, in and out. Started by `Worker`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hostile.generators import attack
from hostile.limits import WALL_S
from hostile.running import CALL, Runner, remove
from hostile.shrinking import shrunk
from hostile.tries import Try

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent


class HarnessError(Exception):
    """A try that could not be run."""


class Worker:
    """A process that runs tries, and the pipe to it."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._place = Path(tempfile.mkdtemp(prefix="hostile-"))
        self._process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("RETRIEVE_")}
        paths = [str(TESTS), str(ROOT), environment.get("PYTHONPATH", "")]
        return subprocess.Popen(
            [sys.executable, "-m", "hostile.worker", "--place", str(self._place), *self._arguments],
            env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **request: Any) -> Any:
        """Return the answer to a request: `attack`, the Python of a try, or `category` and `seed`; with `shrink`, a
        signature, the smallest try that shows it; with `wall`, a command has so many seconds.

        Raises:
            HarnessError: the try could not be run; the process is there again if it has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = ""
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            code = self._ended()
            self._process = self._started()
            raise HarnessError(f"the worker has ended with {code}")
        answer = json.loads(line)
        if "fault" in answer:
            raise HarnessError(answer["fault"])
        return answer

    def close(self) -> None:
        """Let it end, and remove what it wrote."""
        self._ended()
        remove(self._place)

    def _ended(self) -> int:
        with suppress(BrokenPipeError):
            self._process.communicate()
        return self._process.wait()


def main() -> None:
    """Answer requests until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--call", default=CALL)
    parser.add_argument("--place", type=Path, required=True)
    options = parser.parse_args()
    requests, answers = sys.stdin, os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever is printed here is no answer
    runner = Runner(options.place, call=options.call)
    for line in requests:
        try:
            answer = _answered(runner, json.loads(line))
        except Exception:  # noqa: BLE001  a fault of the harness is told to who asked
            answer = {"fault": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _answered(runner: Runner, request: dict[str, Any]) -> dict[str, Any]:
    one = _attack(request)
    if signature := request.get("shrink"):
        return {"attack": repr(shrunk(one, lambda less: _shows(runner, less, signature)))}
    runner.wall = request.get("wall", WALL_S)
    result = runner.run(one)
    findings = [{**asdict(finding), "signature": finding.signature} for finding in result.findings]
    ended = [(one.command, one.code, _text(one.out), _text(one.err)) for one in result.ended]
    answer = {"findings": findings, "cpu": result.cpu, "commands": result.commands}
    return {**answer, "ended": ended} if request.get("show") else answer


def _shows(runner: Runner, one: Try, signature: str) -> bool:
    try:
        return any(found.signature == signature for found in runner.run(one).findings)
    except Exception:  # noqa: BLE001  what was made smaller may make no sense any more
        return False


def _attack(request: dict[str, Any]) -> Try:
    if "attack" in request:
        made = eval(request["attack"], {"Try": Try, "inf": float("inf"), "nan": float("nan")})  # our own repr
        assert isinstance(made, Try)
        return made
    return attack(request["category"], request["seed"])


def _text(content: bytes) -> str:
    return content[-4000:].decode("utf-8", "backslashreplace")


if __name__ == "__main__":
    main()
