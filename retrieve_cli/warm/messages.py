"""Messages between a command and the warm process, and their meeting place. Imports nothing that takes time.

artifacts/serve-<uid>.sock    the socket, of mode 0600
artifacts/serve-<uid>.lock    held by the warm process, so that there is one

command -> process    a request: its length, what must be the same on both sides, the call, three or four descriptors
process -> command    ACCEPTED, or DECLINED: then the command answers by itself
command -> process    GO. Only then does a copy of the process begin, so that never two answer
copy    -> command    BEGUN before anything is read, written or changed; ENDED and the exit code. DECLINED before BEGUN
process -> command    KILLED and the number of the signal that ended the copy
command -> process    the number of a signal for the copy, any time. The end of the connection: nobody waits any more
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NamedTuple

    class Call(NamedTuple):
        """A call of the program: all that decides what it does."""

        words: Sequence[str]
        environment: Mapping[bytes, bytes]
        streams: Sequence[int]
        """Those of 0, 1 and 2 that are open."""
        ignored: Sequence[int]
        """Signals that the caller ignores."""
        umask: int
        path: str
        """The first entry of `sys.path`: the folder of the script, or of the call."""
else:

    class Call:
        """A call of the program: see above. `collections` would take longer to import than this whole file."""

        def __init__(self, words, environment, streams, ignored, umask, path):
            self.words, self.environment, self.streams = words, environment, streams
            self.ignored, self.umask, self.path = ignored, umask, path


ACCEPTED, DECLINED, GO, BEGUN, ENDED, KILLED, READY = (b"Y", b"N", b"G", b"o", b"s", b"k", b"r")
LONGEST = 16_000_000
"""Most bytes of a request."""
LONGEST_PATH = 100
"""Most bytes of the path of a socket, with some to spare."""
HEAD = 8
"""Bytes before a request, which say its size."""
_VERSION = b"retrieve 1"
_STARTUP = (
    b"PYTHON", b"LD_", b"LC_", b"LANG", b"TZ", b"OPENBLAS_", b"GOTO_", b"OMP_", b"MKL_", b"KMP_", b"BLIS_", b"NPY_",
    b"GLIBC_", b"MALLOC_", b"HOME", b"XDG_", b"HF_", b"HUGGINGFACE_", b"TRANSFORMERS_", b"TOKENIZERS_", b"CUDA_",
    b"ORT_", b"TORCH", b"TYPER_", b"_TYPER",
)  # fmt: skip
"""Beginnings of the variables that Python, libraries and the search for models read once."""
OURS = {b"OPENBLAS_NUM_THREADS": b"1"}
"""Variables that the program sets by itself where they are not set: see cli/main.py."""


def place_of(artifacts: str) -> str:
    """Return the path of the socket of a folder: each user has an own one."""
    return os.path.join(artifacts, f"serve-{os.geteuid()}.sock")  # noqa: PTH118  pathlib takes as long as the answer


def identity(environment: Mapping[bytes, bytes]) -> bytes:
    """Return what must be the same in the command and in the process: program, interpreter, file system, and the
    variables that are read once."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    places = [os.stat(place) for place in (package, "/")]  # noqa: PTH116
    values = [
        _VERSION.decode(), package, *(f"{place.st_dev}:{place.st_ino}" for place in places), sys.executable,
        sys.version, repr(sys.flags), repr(sys.warnoptions), repr(sys._xoptions),  # noqa: SLF001
        sys.getfilesystemencoding(), *sys.path[1:],
    ]  # fmt: skip
    variables = {**OURS, **{name: text for name, text in environment.items() if name.startswith(_STARTUP)}}
    pairs = [name + b"=" + variables[name] for name in sorted(variables)]
    return b"\n".join([*(os.fsencode(value) for value in values), *pairs])


def packed(own: bytes, call: Call) -> bytes:
    """Return a request."""
    fields = [
        own,
        *(b"%d" % len(part) for part in (call.words, call.environment, call.streams, call.ignored)),
        b"%d" % call.umask,
        os.fsencode(call.path),
        *map(os.fsencode, call.words),
        *(name + b"=" + text for name, text in call.environment.items()),
        *(b"%d" % number for number in (*call.streams, *call.ignored)),
    ]
    return framed(b"\0".join(fields))


def framed(body: bytes) -> bytes:
    """Return a request with its size before it."""
    return len(body).to_bytes(HEAD, "big") + body


def size_of(head: bytes) -> int:
    """Return the bytes of a request after the first eight. Raises: ValueError."""
    size = int.from_bytes(head[:HEAD], "big")
    if len(head) < HEAD or size > LONGEST:
        raise ValueError("not a request")
    return size


def is_from(own: bytes, body: bytes) -> bool:
    """Return True if a request is from a process of the same identity."""
    return body.startswith(own + b"\0")


def unpacked(body: bytes) -> Call:
    """Return the call of a request. Raises: ValueError."""
    _, *fields = body.split(b"\0")
    counts = [int(field) for field in fields[:4]]
    umask, path, *rest = fields[4:]
    parts = []
    for count in counts:
        parts.append(rest[:count])
        rest = rest[count:]
    words, variables, streams, ignored = parts
    pairs = [pair.partition(b"=") for pair in variables]
    return Call(
        [os.fsdecode(word) for word in words],
        {name: text for name, _, text in pairs},
        [int(number) for number in streams],
        [int(number) for number in ignored],
        int(umask),
        os.fsdecode(path),
    )
