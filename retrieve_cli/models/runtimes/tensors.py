"""Tensors on disk: safetensors files mapped into memory, and written so that they can be multiplied in place.

Format: https://github.com/huggingface/safetensors#format (8 bytes of header length, a JSON header, the data).

SHA-1 of files, remembered, so that a query does not read 90 MB of weights to know which weights they are.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage.manifest import sha1_file
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Vectors

    Stored = NDArray[Any]

_ALIGNMENT = 64
"""Bytes: a cache line, and what AVX-512 loads at once."""
_PADDING = "padding."
_DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
"""NumPy has no bfloat16: such a tensor is held as its 16 bits and widened by `to_float32`."""


class Extent(Frozen):
    """Place of a tensor in its file: offset in bytes from the start of the file, shape and dtype."""

    offset: int
    shape: tuple[int, ...]
    dtype: str


def extents(path: Path) -> dict[str, Extent]:
    """The tensors of one safetensors file by name, padding left out.

    Raises:
        UsageError: the file is not a safetensors file.
    """
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(size, path.stat().st_size)))
        return {
            name: Extent(8 + size + entry["data_offsets"][0], tuple(entry["shape"]), entry["dtype"])
            for name, entry in header.items()
            if name != "__metadata__" and not name.startswith(_PADDING)
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "fetch the model's files again; a small text file in their place is a Git LFS pointer"
        raise UsageError(f"{path} is not a safetensors file: {error}.", hint=hint) from error


def read(files: Sequence[Path]) -> dict[str, Stored]:
    """Return the floating-point tensors of one or several safetensors files, memory-mapped.

    Raises:
        UsageError: a file is not a safetensors file.
    """
    tensors: dict[str, Stored] = {}
    for path in files:
        places = extents(path)
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for name, extent in places.items():
            if extent.dtype in _DTYPES:
                dtype = np.dtype(_DTYPES[extent.dtype])
                count = int(np.prod(extent.shape, dtype=np.int64))
                if extent.offset + count * dtype.itemsize > len(mapped):
                    raise UsageError(f"{path} is cut short.", hint="fetch the model's files again")
                tensors[name] = np.frombuffer(mapped, dtype, count, extent.offset).reshape(extent.shape)
    return tensors


def to_float32(stored: Stored) -> Vectors:
    """A stored tensor in single precision, without a copy where it is already."""
    if stored.dtype == np.uint16:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32, copy=False)


def write(path: Path, tensors: Mapping[str, Stored]) -> str:
    """Write tensors as float32 in C order, each at a multiple of 64 bytes, and return the file's SHA-1.

    The format allows no holes, so that what fills them is itself declared as tensors of bytes.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "np"}}
    end = 0
    for name, tensor in tensors.items():
        size = tensor.size * 4
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [end, end + size]}
        end += size
        if gap := -end % _ALIGNMENT:
            header[f"{_PADDING}{name}"] = {"dtype": "U8", "shape": [gap], "data_offsets": [end, end + gap]}
            end += gap
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    digest = hashlib.sha1(usedforsecurity=False)
    with path.open("wb") as file:

        def put(data: bytes | memoryview) -> None:
            digest.update(data)
            file.write(data)

        put(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            data = np.ascontiguousarray(to_float32(tensor)).reshape(-1).view(np.uint8).data
            put(data)
            put(bytes(-len(data) % _ALIGNMENT))
    return digest.hexdigest()


class Digests:
    """SHA-1 of files, kept in the model cache under path, size and time of last change.

    A file that was touched is read again; a memory that cannot be written costs that reading and nothing else.
    """

    def __init__(self, cache_dir: Path) -> None:
        self._path = cache_dir / "digests.json"
        self._known: dict[str, Any] | None = None

    def sha1(self, path: Path) -> str:
        """SHA-1 of a file's bytes in hexadecimal."""
        mark = _mark(path)
        remembered = self._remembered().get(str(path.resolve()))
        if isinstance(remembered, list) and remembered[:2] == mark:
            return str(remembered[2])
        digest = sha1_file(path)
        self.remember(path, digest)
        return digest

    def remember(self, path: Path, digest: str) -> None:
        """Take over a digest that was computed while the file was written."""
        self._known = None
        known = self._remembered()
        known[str(path.resolve())] = [*_mark(path), digest]
        with contextlib.suppress(OSError):
            _replace(self._path, json.dumps(known, indent=1, sort_keys=True))

    def _remembered(self) -> dict[str, Any]:
        if self._known is None:
            try:
                known = json.loads(files.read_bytes(self._path, limit=files.CONFIG))
            except (OSError, ValueError, RecursionError):
                known = {}
            self._known = known if isinstance(known, dict) else {}
        return self._known


def _replace(path: Path, text: str) -> None:
    """Write a small file so that a reader sees the old or the new one, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}-{os.getpid()}-{get_ident()}")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise


def _mark(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]
