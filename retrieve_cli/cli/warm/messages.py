"""Messages between a command and the warm process, and their meeting place. Imports nothing that takes time.

artifacts/serve-<uid>.sock    the socket, of mode 0600
artifacts/serve-<uid>.lock    held by the warm process, so that there is one

command -> process    a request: a frame (`processes.frames`) of what must be the same on both sides and of the call,
                      with three or four descriptors
process -> command    ACCEPTED, or DECLINED: then the command answers by itself
command -> process    GO. Only then does a copy of the process begin, so that never two answer
copy    -> command    BEGUN before anything is read, written or changed; ENDED and the exit code. DECLINED before BEGUN
process -> command    KILLED and the number of the signal that ended the copy
command -> process    the number of a signal for the copy, any time. The end of the connection: the command is gone
"""

from __future__ import annotations

import marshal
import os
import sys

from retrieve_cli.version import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

ACCEPTED, DECLINED, GO, BEGUN, ENDED, KILLED, READY = (b"Y", b"N", b"G", b"o", b"s", b"k", b"r")
LONGEST = 16_000_000
"""Most bytes of a request."""
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
    """Return the values that must be equal in the command and the process: program, interpreter, file system, and the
    variables that are read once."""
    places = [os.stat(place) for place in (FOLDER, "/")]  # noqa: PTH116
    values = [
        _VERSION.decode(), FOLDER, *(f"{place.st_dev}:{place.st_ino}" for place in places), sys.executable,
        sys.version, repr(sys.flags), repr(sys.warnoptions), repr(sys._xoptions),  # noqa: SLF001
        sys.getfilesystemencoding(), *sys.path[1:],
    ]  # fmt: skip
    variables = {**OURS, **{name: text for name, text in environment.items() if name.startswith(_STARTUP)}}
    pairs = [name + b"=" + variables[name] for name in sorted(variables)]
    return b"\n".join([*(os.fsencode(value) for value in values), *pairs])


def packed(own: bytes, call: tuple[Any, ...]) -> bytes:
    """Return a request: the frame of an identity and of the values of a `child.ProgramCall`."""
    body = marshal.dumps(call)
    return b"".join((len(own).to_bytes(4, "little"), len(body).to_bytes(8, "little"), own, body))
