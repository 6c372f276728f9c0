"""A parser that does what the file says, as a parser might that a document has taken over or crashed.

The child process imports it by its name, as it imports the parsers of formats.
"""

import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import Block, DocumentPage, Layout, Mark, Words
from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.processes import confinement

HELD: list[bytes] = []


def parse(
    content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None], sidecar: bytes = b""
) -> Parsed:
    """Do what the file says on the page that it says, and return what came of it."""
    told = json.loads(content)
    for page in range(1, told.get("page", 0) + 1):
        on_page(page)
    if told["do"] == "limits":
        return Parsed(json.dumps(limits._asdict()))
    said = DEEDS[told["do"]](told.get("with"))
    return said if isinstance(said, Parsed) else Parsed(f"{told['do']} of {name}: {said}{sidecar.decode()}")


def render(
    content: bytes, pages: Sequence[int], *, marks: Sequence[Mark] = (), on_page: Callable[[int], None] = print
) -> bytes:
    """Do what the file says on the last page that is wanted, and return a picture of one point, or what came of it."""
    told = json.loads(content)
    for page in pages:
        on_page(page)
    said = DEEDS[told["do"]](told.get("with"))
    return said if isinstance(said, bytes) else POINT


def _eat(megabytes: int) -> int:
    parts = [bytearray(1 << 20) for _ in range(megabytes)]
    return len(parts)


def _hold(megabytes: int) -> int:
    HELD.append(b"x" * (megabytes << 20))
    return os.getpid()


def _eat_in_c(megabytes: int) -> None:
    """Use memory until there is none, and crash as a library does that does not expect it."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    for _ in range(megabytes):
        place = library.malloc(ctypes.c_size_t(1 << 20))
        ctypes.memset(place, 1, 1 << 20)


def _spin(_: Any) -> None:
    while True:
        pass


def _sleep(seconds: float) -> None:
    """Do nothing for longer than anybody waits for it."""
    threading.Event().wait(seconds)


def _kill(number: int) -> None:
    signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
    signal.raise_signal(number)


def _reject(message: str) -> None:
    raise BadDocument(message, hint="a hint")


def _recurse(_: Any) -> Any:
    return _recurse(_)


def _fail(message: str) -> None:
    raise LookupError(message)


def _print(text: str) -> None:
    print(text, flush=True)
    print(text, file=sys.stderr, flush=True)
    os.write(1, text.encode())


def _abort(text: str) -> None:
    os.write(2, f"first line\n{text}\n".encode())
    os.abort()


def _state(_: Any) -> str:
    ignored = [n.name for n in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM) if signal.getsignal(n) == signal.SIG_IGN]
    import resource

    limits = {name: resource.getrlimit(getattr(resource, name)) for name in ("RLIMIT_CORE", "RLIMIT_DATA")}
    return json.dumps({"pid": os.getpid(), "cwd": str(Path.cwd()), "ignored": ignored, "limits": limits})


def _attempt(told: list[Any]) -> str:
    """Try something forbidden, past the guard of Python if the second word says so; return what came of it."""
    deed, native = told[0], "native" in told[1:]
    if native:
        confinement._DENIED = ("nothing.",)
        confinement._WRITES = 0
    try:
        return f"done: {(FORBIDDEN | ATTEMPTS)[deed](*told[2:])}"
    except OSError as error:
        return f"rejected: {error}"


def chunk(name: bytes, content: bytes = b"") -> bytes:
    """Return a part of a PNG."""
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


SIGNATURE, HEADER = b"\x89PNG\r\n\x1a\n", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
PIXELS, END = chunk(b"IDAT", zlib.compress(b"\0\0\0\0")), chunk(b"IEND")
POINT = SIGNATURE + chunk(b"IHDR", HEADER) + PIXELS + END


def _call(name: str, *arguments: Any) -> int:
    """Call a function of the C library, as code would that a document has brought along. Raises: OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    result = int(getattr(library, name)(*arguments) or 0)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _type_into_terminal() -> int:
    import fcntl
    import termios

    return len(fcntl.ioctl(2, termios.TIOCSTI, b"x"))


def _limit_of_another(pid: str) -> None:
    import resource

    resource.prlimit(int(pid), resource.RLIMIT_CPU, (1, 1))


def _thread() -> None:
    try:
        threading.Thread(target=print).start()
    except RuntimeError as error:  # Python does not say which error it was
        raise PermissionError(1, str(error)) from error


def _fork() -> int:
    pid = os.fork()
    if not pid:
        os._exit(0)
    return pid


FORBIDDEN: dict[str, Callable[..., Any]] = {
    "socket": socket.socket,
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "unix": lambda: socket.socket(socket.AF_UNIX),
    "write": lambda path: Path(path).write_text("x"),
    "append": lambda path: Path(path).open("a").close(),
    "remove": lambda path: Path(path).unlink(),
    "rename": lambda path: Path(path).rename(path + "-2"),
    "mkdir": lambda path: Path(path + "-folder").mkdir(),
    "link": lambda path: Path(path + "-link").symlink_to("/"),
    "chmod": lambda path: Path(path).chmod(0o777),
    "run": lambda: subprocess.run(["/bin/true"], check=True),
    "fork": _fork,
    "kill": lambda pid: os.kill(int(pid), signal.SIGTERM),
}

ATTEMPTS: dict[str, Callable[..., Any]] = {
    "read": lambda path: Path(path).read_text(),
    "list": lambda path: list(Path(path).parent.iterdir()),
    "read the home folder": lambda _: list(Path.home().iterdir()),
    "read passwords": lambda _: Path("/etc/passwd").read_text(),
    "read its memory": lambda _: Path("/proc/self/environ").read_bytes(),
    "device": lambda _: Path("/dev/tty").read_bytes(),
    "type": lambda _: _type_into_terminal(),
    "limit another": _limit_of_another,
    "thread of another": lambda pid: _call("tgkill", int(pid), int(pid), 15),
    "trace": lambda pid: _call("ptrace", 16, int(pid), 0, 0),
    "memory of another": lambda pid: _call("process_vm_readv", int(pid), None, 0, None, 0, 0),
    "thread": lambda _: _thread(),
    "socket pair": lambda _: socket.socketpair(),
    "memory file": lambda _: os.memfd_create("program"),
    "session": lambda _: os.setsid(),
    "priority": lambda pid: os.setpriority(os.PRIO_PROCESS, int(pid), 19),
    "watch": lambda path: _call("inotify_init1", 0),
    "names": lambda _: _call("unshare", 0x10000000),
    "ring": lambda _: _call("syscall", 425, 1, None),
}
"""Deeds of native code that has taken over the process, each with the path of a file of the user or another process."""
OF_PROCESSES = ("limit another", "thread of another", "trace", "memory of another", "priority")


def _answer(told: list[Any]) -> None:
    """Write something else than an answer to the pipe of answers, whichever it is, and wait."""
    for descriptor in range(3, 64):
        try:
            if Path(f"/proc/self/fd/{descriptor}").readlink().name.startswith("pipe:"):
                os.write(descriptor, told[0].encode("latin-1"))
        except OSError:
            continue
    _sleep(told[1])


def _answer_later(told: list[str]) -> None:
    """Write an answer to no request between reading two named pipes: after the answer to this request."""
    raw, before, after = told
    child = sys.modules["__main__"]
    ask = child._request

    def answer_first(pipe: Any) -> Any:
        child._request = ask
        Path(before).read_text()
        _answer([raw, 0])
        Path(after).read_text()
        return ask(pipe)

    child._request = answer_first


def _words() -> Words:
    words = Words()
    words.add(0, 5, 1, 72.0, 72.0, 100.5, 84.0)
    words.add(7, 12, 2, 72.0, 72.0, 101.5, 84.0)
    return words


RICH = Parsed(
    "Tïtle\n\nWords \U0001f600 here",
    Layout(
        (Block(0, 5, "heading", 1, "title"), Block(7, 19, "paragraph")),
        (DocumentPage(1, "i", 595.0, 842.0, 0, 7), DocumentPage(2, "", 842.0, 595.5, 7, 19, image_only=True)),
        _words(),
    ),
    {"title": "A title", "pages": 2, "ratio": 0.5, "author": ["A", "B"], "deep": {"a": [None, True]}},
    "Another title",
    7,
    ("a notice",),
)

DEEDS: dict[str, Callable[[Any], Any]] = {
    "say": str, "eat": _eat, "hold": _hold, "eat in c": _eat_in_c, "spin": _spin, "sleep": _sleep,
    "kill": _kill, "reject": _reject, "recurse": _recurse, "fail": _fail,
    "print": _print, "abort": _abort, "exit": os._exit, "state": _state, "pid": lambda _: os.getpid(),
    "attempt": _attempt, "answer": _answer, "answer later": _answer_later, "rich": lambda _: RICH,
    "bytes": lambda text: text.encode("latin-1"), "environment": lambda _: json.dumps(dict(os.environ)),
    "read": lambda pipe: Path(pipe).read_text(),
}  # fmt: skip
