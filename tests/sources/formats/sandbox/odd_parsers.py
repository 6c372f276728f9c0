"""A parser that does what a file says, as one might that crashes or that a document has taken over; files for it.

The child process imports it by its name, as it imports the parsers of formats.
"""

import ctypes
import hashlib
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
from retrieve_cli.contracts.layout import Block, DocumentPage, Dropped, Layout, Mark, Words
from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.processes.messages import ParseRequest
from retrieve_cli.sources.formats.processes.pool import ParserPool

MB = 1 << 20
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


def render(content: bytes, pages: Sequence[int], *, marks: Sequence[Mark], on_page: Callable[[int], None]) -> bytes:
    """Do what the file says on the last page that is wanted, and return a picture of one point, or what came of it."""
    told = json.loads(content)
    for page in pages:
        on_page(page)
    said = DEEDS[told["do"]](told.get("with"))
    return said if isinstance(said, bytes) else POINT


def request(
    folder: Path, do: str, argument: Any = None, *, page: int = 0, name: str = "a.odd", **limits: Any
) -> ParseRequest:
    """Return the request for a file on which the parser does something."""
    path = write(folder, name, do, argument, page)
    return ParseRequest(
        __name__, path, hashlib.sha1(path.read_bytes()).digest(), name, ParsingLimits(**limits), 10 * MB
    )


def write(folder: Path, name: str, do: str, argument: Any = None, page: int = 0) -> Path:
    """Write a file on which the parser does something."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({"do": do, "with": argument, "page": page}))
    return folder / name


def text_of(pool: ParserPool, asked: ParseRequest) -> str:
    """Return what the parser says, without the words in front of it."""
    parsed = pool.begin(asked).result()
    assert isinstance(parsed, Parsed)
    return parsed.text.partition(": ")[2]


def reason_of(pool: ParserPool, asked: ParseRequest) -> str:
    """Return the reason why a file is rejected."""
    try:
        outcome = pool.begin(asked).result()
    except BadDocument as error:
        return f"{error.message}; {error.hint}" if error.hint else error.message
    raise AssertionError(f"it was read: {outcome!r}")


def _eat_in_c(megabytes: int) -> None:
    """Use memory until there is none, and crash as a library does that does not expect it."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    for _ in range(megabytes):
        place = library.malloc(ctypes.c_size_t(MB))
        ctypes.memset(place, 1, MB)


def _hold(megabytes: int) -> int:
    HELD.append(b"x" * (megabytes << 20))
    return os.getpid()


def _spin(_: Any) -> None:
    while True:
        pass


def _kill(number: int) -> None:
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _raise(error: Exception) -> None:
    raise error


def _recurse(_: Any) -> Any:
    return _recurse(_)


def _state(_: Any) -> str:
    import resource

    names = ("CORE", "DATA", "FSIZE", "NPROC")
    limits = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1] for name in names}
    state = {"cwd": str(Path.cwd()), "session": os.getsid(0) == os.getpid(), "limits": limits}
    return json.dumps({**state, "environment": dict(os.environ)})


def _attempt(told: list[Any]) -> str:
    """Try something forbidden, past the guard of Python if the second word says so; return what came of it."""
    deed, native, *arguments = told
    if native:
        guard: Any = sys.modules["__main__"]
        guard._DENIED, guard._WRITES = ("nothing.",), 0
    try:
        return f"done: {FORBIDDEN[deed](*arguments)}"
    except OSError as error:
        return f"rejected: {type(error).__name__}: {error}"


FORBIDDEN: dict[str, Callable[..., Any]] = {
    "connect": lambda port: socket.create_connection(("127.0.0.1", int(port) if port.isdigit() else 9), 5),
    "udp": lambda _: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "write": lambda path: Path(path).write_text("x"),
    "append": lambda path: os.write(os.open(path, os.O_WRONLY | os.O_APPEND), b"x"),
    "remove": lambda path: Path(path).unlink(),
    "rename": lambda path: Path(path).rename(path + "-2"),
    "mkdir": lambda path: Path(path + "-folder").mkdir(),
    "link": lambda path: Path(path + "-link").symlink_to("/"),
    "chmod": lambda path: Path(path).chmod(0o777),
    "run": lambda _: subprocess.run(["/bin/true"], check=True),
    "fork": lambda _: os.fork(),
    "kill": lambda _: os.kill(os.getppid(), 0),
}


def _answer(message: str) -> None:
    """Write to the pipe of answers whatever the file says, and wait."""
    os.write(int(sys.argv[1]), message.encode("latin-1"))
    threading.Event().wait(100)


def framed(content: bytes, size: int | None = None) -> str:
    """Return a message as `multiprocessing.connection` writes it, which may lie about its size."""
    return (struct.pack("!i", len(content) if size is None else size) + content).decode("latin-1")


def chunk(name: bytes, content: bytes = b"") -> bytes:
    """Return a part of a PNG."""
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


SIGNATURE, HEADER = b"\x89PNG\r\n\x1a\n", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
PIXELS, END = chunk(b"IDAT", zlib.compress(b"\0\0\0\0")), chunk(b"IEND")
POINT = SIGNATURE + chunk(b"IHDR", HEADER) + PIXELS + END


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
    ("a notice",),
    (Dropped("running head", "Annals", 1),),
)

DEEDS: dict[str, Callable[[Any], Any]] = {
    "say": str, "eat": lambda n: len([bytearray(MB) for _ in range(n)]), "hold": _hold, "eat in c": _eat_in_c,
    "spin": _spin, "sleep": lambda seconds: threading.Event().wait(seconds), "kill": _kill, "recurse": _recurse,
    "reject": lambda text: _raise(BadDocument(text, hint="a hint")), "fail": lambda text: _raise(LookupError(text)),
    "print": lambda text: os.write(2, text.encode()), "exit": os._exit, "state": _state,
    "pid": lambda _: os.getpid(), "attempt": _attempt, "answer": _answer, "rich": lambda _: RICH,
    "bytes": lambda text: text.encode("latin-1"), "read": lambda pipe: Path(pipe).read_text(),
}  # fmt: skip
