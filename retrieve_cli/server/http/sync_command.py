"""The command that syncs, as a child process of a server: its progress and its outcome."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from threading import Lock
from typing import Any, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import Exit, RetrieveError, shortened
from retrieve_cli.server.http.jobs import error_json

STOPPED = "the server was stopped; changes that are not in the index yet stay queued"
_WAIT_S = 600
"""Seconds that a sync waits for another writer."""
_WRITTEN_S = 0.5
"""Seconds between two reports of the progress."""
_NICE = 10
"""Lower priority than the server, which answers meanwhile."""
_LONGEST = 1 << 20
"""Bytes of a line of the child that are read."""
_SAID = 500
"""Most characters that are kept of the last output of a failed child."""


class Outcome(NamedTuple):
    """The end of a command."""

    report: Mapping[str, Json] | None
    error: Mapping[str, Json] | None


class Command:
    """Runs `retrieve sync`, one process at a time."""

    def __init__(self, flags: Sequence[str]) -> None:
        """`flags` are those with which it finds the index and the configuration."""
        self._flags = flags
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def stop(self, *, kill: bool = False) -> None:
        """End the process if one runs, and let no other begin."""
        with self._lock:
            self._stopped = True
            if self._child is not None:
                self._child.kill() if kill else self._child.terminate()

    def run(self, words: Sequence[str], progress: Callable[[Json], None]) -> Outcome:
        """Run it with some more words, and return its outcome; `progress` receives unit, done, total and rate.

        Raises:
            RetrieveError: it was stopped.
            OSError: no process can be started.
        """
        command = [sys.executable, "-m", "retrieve_cli", "sync", "--json", "--progress", "--wait", str(_WAIT_S)]
        command += [*self._flags, *words]
        with TemporaryFile() as out:
            with self._lock:
                if self._stopped:
                    raise RetrieveError(STOPPED)
                child = self._child = subprocess.Popen(  # noqa: S603  this program
                    command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE
                )
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, child.pid, _NICE)
            try:
                said = _follow(child, progress)
                code = child.wait()
            finally:
                with self._lock:
                    self._child = None
            out.seek(0)
            report = _object(out.read().strip().rpartition(b"\n")[2])
        error = report.pop("error", None)
        if code not in (Exit.OK, Exit.PARTIAL) and (self._stopped or error is None):
            message = STOPPED if self._stopped else said or f"the sync ended with code {code}"
            error = error_json(RetrieveError(message))
        return Outcome(report or None, error)


def _follow(child: subprocess.Popen[bytes], progress: Callable[[Json], None]) -> str:
    """Pass on the progress that a child reports until it ends; return the last line that is something else."""
    said, reported = "", 0.0
    stream: Any = child.stderr
    with stream:
        while line := stream.readline(_LONGEST):
            value = _object(line)
            if "progress" in value:
                if time.monotonic() - reported >= _WRITTEN_S:
                    reported = time.monotonic()
                    progress(value["progress"])
            elif not value and line.strip():
                said = shortened(line.decode("utf-8", "replace"), _SAID)
    return said


def _object(line: bytes) -> dict[str, Json]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
