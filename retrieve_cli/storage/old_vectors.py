"""Reader of vectors that versions up to 0.1.0 cached, so that they need not be computed again; nothing writes them.

header      magic, SHA-1 of the model card, dim
checkpoint  magic, rows, SHA-1 of the rest; keys (rows, 20) bytes; zeros up to 64; vectors (rows, dim) float32
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.storage.manifest import sha1
from retrieve_cli.storage.mapped import MappedFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUFFIX = ".vectors"
_HEADER = struct.Struct("<8s20sI")
_MAGIC = b"RTRVVEC1"
_CHECKPOINT = struct.Struct("<4sQ20s")
_MARK = b"CKPT"
_KEY, _ALIGNMENT = 20, 64


def read(path: Path, card: Json, say: Callable[[str], None]) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield the contents of each intact checkpoint; a truncated checkpoint at the end is ignored."""
    try:
        data = MappedFile(path).data
    except OSError:
        return
    dim, end = card["dim"], _HEADER.size
    if data[:end].tobytes() != _HEADER.pack(_MAGIC, bytes.fromhex(sha1(card)), dim):
        return
    while end + _CHECKPOINT.size <= len(data):
        begin = end + _CHECKPOINT.size
        mark, rows, digest = _CHECKPOINT.unpack(data[end:begin].tobytes())
        first = begin + rows * _KEY - (begin + rows * _KEY) % -_ALIGNMENT
        stop = first + 4 * rows * dim
        if mark != _MARK or stop > len(data):
            return
        if hashlib.sha1(data[begin:stop].data, usedforsecurity=False).digest() == digest:
            vectors = data[first:stop].view("<f4").reshape(rows, dim)
            yield {"keys": data[begin : begin + rows * _KEY], "starts": np.arange(rows + 1), "vectors": vectors}
        else:
            say(f"{path} is damaged: {rows} of its vectors are computed again")
        end = stop
