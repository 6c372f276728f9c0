"""A process that runs tries when it is asked to: one JSON value a line, in and out. Started by `Worker`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hostile.generators import attack
from hostile.running import CALL, Runner
from hostile.shrinking import shrunk
from hostile.tries import Try

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent


class Worker:
    """A process that runs tries, and the pipe to it."""

    def __init__(self, *arguments: str) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("RETRIEVE_")}
        paths = [str(TESTS), str(ROOT), environment.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hostile.worker", *arguments],
            env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **request: Any) -> Any:
        """Return the answer to a request: `attack`, the Python of a try, or `category` and `seed`; with `shrink`, a
        signature, the smallest try that shows it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the worker has ended"
        answer = json.loads(line)
        assert "fault" not in answer, answer["fault"]
        return answer

    def close(self) -> None:
        """Let it end; it removes what it wrote."""
        self._process.communicate()


def main() -> None:
    """Answer requests until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--call", default=CALL)
    parser.add_argument("--wall", type=float)
    options = parser.parse_args()
    requests, answers = sys.stdin, os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever is printed here is no answer
    runner = Runner(call=options.call, wall=options.wall)
    try:
        for line in requests:
            try:
                answer = _answered(runner, json.loads(line))
            except Exception:  # noqa: BLE001  a fault of the harness is told to who asked
                answer = {"fault": traceback.format_exc()}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    finally:
        runner.close()


def _answered(runner: Runner, request: dict[str, Any]) -> dict[str, Any]:
    one = _attack(request)
    if signature := request.get("shrink"):
        return {"attack": repr(shrunk(one, lambda less: _shows(runner, less, signature)))}
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
