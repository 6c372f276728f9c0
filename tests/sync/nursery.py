"""A process that has the program loaded and has begun nothing: each request is answered with a forked child.

A child starts in milliseconds where an interpreter takes half a second. The nursery has one thread, so that a fork
leaves nothing behind; each child has its own folder, environment, streams and signals, and may carry a `Fault` that
kills it at a numbered place. Started by forks.py as `python -m sync.nursery`: one JSON value a line, in and out.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import threading
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOADED = ("faiss", "numpy", "retrieve_cli.cli.main", "retrieve_cli.ingest.build", "retrieve_cli.ingest.sync",
          "retrieve_cli.search.searcher", "retrieve_cli.models.encoders.hashed",
          "retrieve_cli.models.encoders.onnx_encoder", "retrieve_cli.models.encoders.splade_encoder",
          "retrieve_cli.models.encoders.splade_queries", "sync.tasks")  # fmt: skip
"""What children need and would otherwise import one by one; onnxruntime starts a thread when it is imported."""

CHANGES = {"os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree", "fcntl.flock",
           "sqlite3.connect"}  # fmt: skip
"""Audit events of what changes the disk, beside `open` for writing and `os.fsync`, which has none."""


@dataclass(frozen=True)
class Fault:
    """Where a child is sent a signal. Places count from 1; none of them is 0."""

    step: int = 0
    """Just before the n-th change of the disk."""
    call: int = 0
    """At the n-th call of a function, in Python or C; -1 counts the calls to the end."""
    size: int = 0
    """In the middle of the write that makes a file larger than this many bytes."""
    within: str = ""
    """Only changes of paths with this in their names count as steps."""
    number: int = signal.SIGKILL


@dataclass
class Counted:
    """What a child did until its end."""

    calls: int = 0
    kinds: list[str] = field(default_factory=list)
    """Names of the events, step by step."""

    @property
    def steps(self) -> int:
        """How many changes of the disk there were."""
        return len(self.kinds)


# ------------------------------------------------------------------------------------------------------- faults


def inject(fault: Fault, counted: Counted) -> None:
    """Counts what this process does from now on, and sends it the signal at the place that the fault names."""
    if fault.size:
        # Python ignores SIGXFSZ to turn it into an error; as the kernel has it, it ends the process in mid-write.
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault.size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    _count_steps(fault, counted)
    if fault.call:
        _count_calls(fault, counted)


def _count_steps(fault: Fault, counted: Counted) -> None:
    def step(kind: str, path: object) -> None:
        if fault.within in str(path):
            counted.kinds.append(kind)
            if counted.steps == fault.step:
                os.kill(os.getpid(), fault.number)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & 3):
            step(event, arguments[0])

    def synced(descriptor: int) -> None:
        step("os.fsync", Path(f"/proc/self/fd/{descriptor}").readlink() if fault.within else "")
        fsync(descriptor)

    fsync = os.fsync
    os.fsync = synced  # type: ignore[assignment]
    sys.addaudithook(hook)


def _count_calls(fault: Fault, counted: Counted) -> None:
    def profile(_frame: object, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            counted.calls += 1
            if counted.calls == fault.call:
                os.kill(os.getpid(), fault.number)

    sys.setprofile(profile)


# ------------------------------------------------------------------------------------------------------ children


def run(request: dict[str, Any]) -> int:
    """What a child does: the requested function with the requested arguments; its exit code."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)  # a job under nohup ignores SIGHUP, one in the background SIGINT
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    streams = (
        (0, request.get("in", os.devnull), os.O_RDONLY),
        (1, request["out"], os.O_WRONLY),
        (2, request["err"], os.O_WRONLY),
    )
    for stream, path, mode in streams:
        opened = os.open(path, mode | (os.O_CREAT if stream else 0), 0o644)
        os.dup2(opened, stream)
        os.close(opened)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["retrieve", *request["arguments"]]
    os.nice(request["nice"])
    module, _, name = request["call"].partition(":")
    task = getattr(importlib.import_module(module), name)
    counted = Counted()
    report = os.open(request["report"], os.O_WRONLY | os.O_CREAT, 0o644)
    inject(Fault(**request["fault"]), counted)
    code = int(task(request["arguments"]) or 0)
    sys.setprofile(None)
    sys.stdout.flush()
    os.write(report, json.dumps(vars(counted)).encode())
    return code


def start(request: dict[str, Any]) -> int:
    """The process id of a child that has begun."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        code = run(request)
    except BaseException:  # noqa: BLE001  nothing of a child may reach the nursery's own loop
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def exit_code(child: int) -> int | None:
    """A child's exit code, negative for the signal that ended it; None if it still runs."""
    ended, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def serve() -> None:
    """Answers requests until standard input ends; modules on the command line are loaded, too."""
    for name in (*LOADED, *sys.argv[1:]):
        importlib.import_module(name)
    answers = os.dup(1)
    tasks = Path("/proc/self/task")
    threads = len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count()
    os.write(answers, json.dumps({"threads": threads}).encode() + b"\n")
    while line := sys.stdin.readline():
        request = json.loads(line)
        answer = exit_code(request["ended"]) if "ended" in request else start(request)
        os.write(answers, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    serve()
