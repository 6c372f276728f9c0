"""The side of the command: hand the call to the warm process of the artifacts folder, and end as its copy ends; with
`query.keep_warm`, start that process for the next queries.

A whole query by the warm process takes little more than Python needs to start, so that this imports modules that are
part of the interpreter, and `_socket`, on which `socket` is built.
"""

from __future__ import annotations

import os
import sys

from retrieve_cli.cli.warm import messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from retrieve_cli.cli.options import Shared

    Handlers: TypeAlias = dict[int, Any]

_PATIENCE_S = 5.0
"""Seconds to wait for a silent process; it may be opening a new generation."""
_LONGEST_PATH = 100
"""Most bytes of the path of a socket, with some to spare."""
_LOST = ("the process that was answering has ended", "run it again; with --server never, the command answers itself")
state = ""
"""`declined` or `absent`: why the command answers by itself, although it may be answered for."""


def answer() -> int | None:
    """Return the exit code of the call, done by the warm process; None if this process has to do it."""
    global state  # noqa: PLW0603  read by the command that starts a warm process
    artifacts = _artifacts(sys.argv[2:])
    if artifacts is None or sys.gettrace() is not None or sys.getprofile() is not None or sys.flags.inspect:
        return None
    state, path = "absent", messages.place_of(artifacts)
    try:
        os.stat(path)  # noqa: PTH116
        import _socket

        connection = _connected(path)
        owner = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        if int.from_bytes(owner[4:8], sys.byteorder) != os.geteuid() or not any(owner[:4]):
            return None
        state = "declined"
        return _end(connection) if _accepted(connection) else None
    except (OSError, AttributeError):  # no socket, nobody behind it, or a system without this kind of credentials
        return None


def _artifacts(words: Sequence[str]) -> str | None:
    """Return the artifacts folder of a command line; None if it wants no other process.

    A word that is the value of another flag may be taken for a flag here: then another process or this one answers,
    and the answer is the same.
    """
    artifacts, server = "artifacts", os.environ.get("RETRIEVE_QUERY__SERVER", "auto")
    for place, word in enumerate(words):
        if word == "--":
            break
        flag, given, value = word.partition("=")
        if flag in ("--artifacts", "--server"):
            value = value if given else words[place + 1] if place + 1 < len(words) else ""
            artifacts, server = (value, server) if flag == "--artifacts" else (artifacts, value)
    return artifacts if server == "auto" and "\0" not in artifacts else None


def _connected(path: str) -> socket:
    """Return a connection to the socket at a path, which may be longer than an address: then by its own folder."""
    import _socket

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(_PATIENCE_S)
    if len(os.fsencode(path)) > _LONGEST_PATH:
        folder, name = os.path.split(path)
        path = f"/proc/self/fd/{os.open(folder, os.O_PATH)}/{name}"  # open to the end of this process
    connection.connect(path)
    return connection


def _accepted(connection: socket) -> bool:
    import _socket
    import signal

    umask = os.umask(0o77)
    os.umask(umask)
    standard = (sys.stdin, sys.stdout, sys.stderr)  # None if it was closed; its number may be another file's now
    streams = [number for number, stream in enumerate(standard) if stream is not None]
    own = messages.identity(os.environb)
    signals = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP)
    ignored = [int(number) for number in signals if signal.getsignal(number) is signal.SIG_IGN]
    call = (sys.argv, dict(os.environb), streams, ignored, umask, sys.path[0])
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        request = messages.packed(own, call)
        descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in (here, *streams))
        sent = connection.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
        connection.sendall(request[sent:])
    finally:
        os.close(here)
    if connection.recv(1) != messages.ACCEPTED:
        return False
    connection.sendall(messages.GO)
    return True


def _end(connection: socket) -> int | None:
    """Pass signals on, and return the exit code; None if the call was not done, and nothing read or written."""
    connection.settimeout(None)
    before = _pass_on(connection)
    begun = False
    while True:
        kind = _next(connection)
        if kind == messages.BEGUN:
            begun = True
        elif kind == messages.ENDED:
            return _next(connection)[0]
        elif kind == messages.KILLED:
            _end_by(_next(connection)[0])
        else:
            import signal

            for number, handler in before.items():
                signal.signal(number, handler)
            return _lost() if begun else None


def _next(connection: socket) -> bytes:
    try:
        return connection.recv(1)
    except OSError:
        return b""


def _pass_on(connection: socket) -> Handlers:
    import signal

    def tell(number: int, _: object) -> None:
        try:
            connection.sendall(bytes([number]))
        except OSError:
            os._exit(128 + number)
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT)
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, tell) for number in heeded}


def _end_by(number: int) -> None:
    """End as the process that answered: by a signal."""
    import signal

    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _lost() -> int:
    """Report that the answer is incomplete, and cannot be given again: input may be read already."""
    as_json = any(word.startswith(("--json", "--format=json", "jsonl", "json")) for word in sys.argv[1:])
    message, hint = _LOST
    text = f'{{"error": {{"code": 1, "kind": "error", "message": "{message}", "hint": "{hint}"}}}}\n'
    os.write(2, (text if as_json else f"error: {message}\nhint: {hint}\n").encode())
    return 1


def keep_warm(shared: Shared, seconds: float) -> None:
    """Start the warm process for later commands without waiting for it, unless one runs or cannot run."""
    if state != "absent" or not os.access(shared.artifacts, os.W_OK | os.X_OK):
        return
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    words = [*command(), "serve", "--background", "--idle", f"{seconds:g}", "--quiet", *flags(shared)]
    try:
        os.posix_spawn(words[0], words, os.environ, file_actions=null)
    except OSError:
        return


def command() -> list[str]:
    """Return the command that started this program, without its arguments."""
    given = len(sys.argv) - 1
    return [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - given]]


def flags(shared: Shared) -> list[str]:
    """Return the flags that name the index and the configuration of a command."""
    return ["--artifacts", str(shared.artifacts), *shared.config_flags]
