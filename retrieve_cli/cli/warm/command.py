"""The warm command line: start and end the process that answers for `retrieve query`, and the parts it keeps ready."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from retrieve_cli.cli.failures import Failure, failure_of
from retrieve_cli.cli.warm import messages
from retrieve_cli.cli.warm.client import command, flags
from retrieve_cli.cli.warm.ready import PreparedIndex
from retrieve_cli.cli.warm.server import Door, WarmServer
from retrieve_cli.config.bounds import seconds
from retrieve_cli.errors import RetrieveError, unwritable
from retrieve_cli.http import local
from retrieve_cli.storage import lock

if TYPE_CHECKING:
    from retrieve_cli.cli.options import Shared

_LEAVING_S = 1.0
"""Seconds that a server waits at its end for its child, which may have calls to finish."""
_ENDING_S = 10.0
"""Seconds that `--stop` waits for the process to let go of its lock."""


def serve(shared: Shared, *, stop: bool, idle: str, attached: bool) -> None:
    """Start or end the warm process, or be it.

    Raises:
        RetrieveError: there is no index, or the folder cannot be written.
    """
    if stop:
        end(shared)
    elif attached:
        be(shared)
    else:
        background(shared, idle=seconds(idle, "--idle"))


def background(shared: Shared, *, idle: float) -> None:
    """Start the warm process of the artifacts folder, unless it runs, and return when it answers.

    Raises:
        RetrieveError: there is no index, or the folder cannot be written.
    """
    descriptor = _lock(shared)
    if descriptor is None:
        shared.talk.say(f"note: already running{lock.holder(_lock_file(shared))}")
        if shared.format == "json" and (owner := _owner(shared)) is not None:
            _print_json(owner[0], shared)
        return
    ours, theirs = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        _detach(theirs, descriptor)
        _run(shared, descriptor, idle=idle, leash=None, ready=lambda failure: _tell(theirs, failure))
    os.close(theirs)
    os.close(descriptor)
    os.waitpid(pid, 0)
    with os.fdopen(ours, "rb") as stream:
        text = stream.read()
    lost = b'{"code": 1, "kind": "error", "message": "the process has ended at its start", "hint": ""}'
    said = json.loads(text or lost)
    if "pid" not in said:
        raise typer.Exit(shared.talk.error(**said))
    if shared.format == "json":
        _print_json(said["pid"], shared)
    shared.talk.say(f"ready: process {said['pid']} answers `retrieve query` for {shared.artifacts}")


def be(shared: Shared) -> None:
    """Be the warm process of the artifacts folder until stdin ends; see `running`."""
    _close_others()
    descriptor = _lock(shared)
    if descriptor is not None:
        _run(shared, descriptor, idle=0.0, leash=0, ready=lambda _: None)


def end(shared: Shared) -> None:
    """End the warm process of the artifacts folder; calls that it has begun are done to their end."""
    owner = _owner(shared)
    if owner is None:
        shared.talk.say(f"note: no process is running for {shared.artifacts}")
        return
    pid, user = owner
    if user == os.geteuid():
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + _ENDING_S
    while lock.is_held(_lock_file(shared)) and time.monotonic() < until:
        time.sleep(0.01)
    shared.talk.say(f"stopped: process {pid}")


def _owner(shared: Shared) -> tuple[int, int] | None:
    """Return process and user of the warm process of the artifacts folder; None if it is not running."""
    path = Path(messages.place_of(str(shared.artifacts)))
    try:
        with local.connect(path) as connection:
            return local.owner(connection)
    except OSError:
        return None


@contextmanager
def running(shared: Shared) -> Iterator[None]:
    """Run a warm process of the artifacts folder as a child, for as long as the context lasts or this process lives."""
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    theirs, ours = os.pipe()
    stdin = [(os.POSIX_SPAWN_DUP2, theirs, 0)]
    words = [*command(), "serve", "--attached", *flags(shared)]
    pid = os.posix_spawn(words[0], words, os.environ, file_actions=[*stdin, *null], setsid=True)
    os.close(theirs)
    try:
        yield
    finally:
        os.close(ours)
        until = time.monotonic() + _LEAVING_S
        with suppress(ChildProcessError):
            while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < until:
                time.sleep(0.01)


# ------------------------------------------------------------------------------------------- the process itself


def _lock_file(shared: Shared) -> Path:
    return Path(messages.place_of(str(shared.artifacts))).with_suffix(".lock")


def _lock(shared: Shared) -> int | None:
    """Return a descriptor that holds the lock of the warm process; None if the process runs. Raises: IndexMissing,
    IndexCorrupt: there is no index. RetrieveError: the folder cannot be written."""
    shared.store.open()
    try:
        return lock.take(_lock_file(shared))
    except OSError as error:
        raise unwritable(shared.artifacts, error) from error


def _detach(*kept: int) -> None:
    """Leave the terminal, the session and every descriptor but those that are kept."""
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    _close_others(*kept)


def _close_others(*kept: int) -> None:
    """Close every descriptor but the standard streams and those that are kept."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  names of descriptors are no paths
        if int(name) > 2 and int(name) not in kept:
            with suppress(OSError):
                os.close(int(name))


def _run(
    shared: Shared, descriptor: int, *, idle: float, leash: int | None, ready: Callable[[Failure | None], None]
) -> NoReturn:
    """Be the warm process, and end this process."""
    code = 0
    try:
        lock.sign(descriptor)
        path = Path(messages.place_of(str(shared.artifacts.resolve())))
        state = PreparedIndex(shared)
        with local.listening(path) as listener:
            mine = path.stat().st_ino
            wanted = partial(_is, path, mine)
            door = Door(
                listener, state.prepare, wanted, state.let_go, _call, state.rehearse, idle, leash, (descriptor,)
            )
            server = WarmServer(door)
            ready(None)
            server.run()
        _lock_file(shared).unlink(missing_ok=True)
        os.close(descriptor)
        server.finish()
    except (RetrieveError, OSError) as error:
        code = 1
        ready(failure_of(error))
    os._exit(code)


def _is(path: Path, number: int) -> bool:
    """Return True if a path still leads to the file with this inode number."""
    try:
        return path.stat().st_ino == number
    except OSError:
        return False


def _call() -> int:
    from retrieve_cli.cli.main import main

    return main()


def _tell(pipe: int, failure: Failure | None) -> None:
    """Report to the command that started this process that it answers, or why it does not."""
    said = {"pid": os.getpid()} if failure is None else failure.to_json()
    os.write(pipe, json.dumps(said).encode())
    os.close(pipe)


def _print_json(pid: int, shared: Shared) -> None:
    print(json.dumps({"pid": pid, "artifacts": str(shared.artifacts)}))
