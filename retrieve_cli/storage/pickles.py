"""Pickle files with memory-mapped arrays, read by a loader that never executes code.

A file has the buffers of its arrays (each aligned to 64 bytes), then a protocol 5 pickle, and a footer with the place
of the pickle. In the pickle an array is a persistent id, "offset dtype shape". Loading maps the file and returns views
of the map, so opening costs the same for a thousand rows and for ten million.

Pickle executes any function that a file names, and an artifact may come from anywhere. So before anything is loaded,
every opcode is checked against the few that plain lists, dictionaries, strings and numbers need. None of these can name
a class or a function.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import numpy as np

from retrieve_cli.errors import IndexCorrupt, RetrieveError, UsageError
from retrieve_cli.storage import durable
from retrieve_cli.storage.mapped import MappedFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_MAGIC = b"RTRVPKL2"
_FOOTER = struct.Struct("<Q8s")
"""Offset of the pickle, magic."""
_ALIGNMENT = 64
_DTYPES = frozenset({"|u1", "<u2", "<i4", "<u4", "<i8", "<f4", "<f8"})
_OPCODES = frozenset(
    """
    PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE
    SHORT_BINBYTES BINBYTES     EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM SETITEMS BINPERSID
    """.split()
)
_HINT = "list the damaged files: retrieve inspect verify; then build again: retrieve build"


class Later:
    """Placeholder of an array that is written block by block, so that only one block is in memory."""

    def __init__(self, dtype: str, shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.shape = shape
        self.nbytes = np.dtype(dtype).itemsize * math.prod(shape)
        self.span = range(0)
        """Bytes of the file that are still to be written."""


class _Pickler(pickle.Pickler):
    """Pickler that separates arrays. Without a memo the bytes depend on values alone, not on shared objects."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=5)
        self.fast = True
        self.arrays: list[tuple[int, Array | Later]] = []
        """With the offset of each."""
        self.end = 0
        """Bytes of the arrays."""

    def persistent_id(self, value: Any) -> str | None:
        if not isinstance(value, np.ndarray | Later):
            return None
        dtype = value.dtype if isinstance(value, Later) else value.dtype.str
        if dtype not in _DTYPES:
            raise TypeError(f"arrays of {value.dtype} are not stored")
        start = self.end + -self.end % _ALIGNMENT
        self.end = start + value.nbytes
        self.arrays.append((start, value))
        return " ".join(map(str, (start, dtype, *value.shape)))


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, mapped: memoryview) -> None:
        super().__init__(stream)
        self._mapped = mapped

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}")

    def persistent_load(self, pid: str) -> Array:
        start, dtype, *shape = pid.split()
        if dtype not in _DTYPES:
            raise pickle.UnpicklingError(f"it contains an array of {dtype}")
        sizes = [int(size) for size in shape]
        end = int(start) + np.dtype(dtype).itemsize * math.prod(sizes)
        return np.frombuffer(self._mapped[int(start) : end], dtype).reshape(sizes)


def dump(value: Any, path: Path, blocks: Iterable[tuple[Later, Array]] = ()) -> None:
    """Write lists, dictionaries, strings, numbers and arrays; the same value gives the same bytes.

    `blocks` has the contents of each `Later` of the value: the blocks of one array in order, several arrays in any
    order. It is iterated once, while the file is written.

    Raises:
        TypeError: the type of an array is not supported.
        ValueError: a block belongs to no placeholder of the value, or a placeholder is not filled.
    """
    with path.open("wb") as file:
        _write(value, file, blocks)


def in_memory(value: Any, blocks: Iterable[tuple[Later, Array]]) -> Any:
    """Return a value as `load` returns it after `dump`, without a file."""
    file = io.BytesIO()
    _write(value, file, blocks)
    return _read(file.getbuffer())


def _write(value: Any, file: BinaryIO, blocks: Iterable[tuple[Later, Array]]) -> None:
    stream = io.BytesIO()
    pickler = _Pickler(stream)
    pickler.dump(value)
    for start, array in pickler.arrays:
        if isinstance(array, Later):
            array.span = range(start, start + array.nbytes)
        else:
            file.seek(start)
            durable.write(file, _bytes_of(np.ascontiguousarray(array)))
    for later, block in blocks:
        stored = np.ascontiguousarray(block, later.dtype)
        if stored.nbytes > len(later.span):
            raise ValueError("the value does not have the placeholder")
        file.seek(later.span.start)
        durable.write(file, _bytes_of(stored))
        later.span = later.span[stored.nbytes :]
    if any(isinstance(array, Later) and array.span for _, array in pickler.arrays):
        raise ValueError("an array was not filled")
    file.seek(pickler.end)
    file.write(stream.getbuffer())
    file.write(_FOOTER.pack(pickler.end, _MAGIC))


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def load(source: Path | MappedFile) -> Any:
    """Return the value, with arrays that are read-only views of the mapped file.

    Raises:
        IndexCorrupt: the file is missing, truncated, damaged, of another format, or contains anything but plain values
            and arrays.
    """
    path = source.path if isinstance(source, MappedFile) else source
    try:
        return _read(MappedFile.of(source).memory)
    except RetrieveError:
        raise
    except OSError as error:
        raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    except Exception as error:
        raise IndexCorrupt(f"{path} was rejected: {error}", hint=_HINT) from error


def read_artifact(path: Path) -> Any:
    """Return the value of a file, compared first with the manifest of its folder. Raises: UsageError, IndexCorrupt."""
    from retrieve_cli.storage import manifest as manifests

    if path.suffix != ".pkl":
        hint = "dense.faiss: faiss.read_index(PATH); records.jsonl and chunks.jsonl: one JSON object a line"
        raise UsageError(f"{path} is not a .pkl file", hint=hint)
    if (place := path.with_name("manifest.json")).exists():
        entry = manifests.Manifest.read(place).files.get(path.name)
        if entry is not None and (fault := manifests.digest_fault(path, entry)):
            raise IndexCorrupt(fault, hint=_HINT)
    return load(path)


def _read(mapped: memoryview) -> Any:
    """Return the value. Raises: ValueError and others if the format is wrong."""
    end = len(mapped) - _FOOTER.size
    start, magic = _FOOTER.unpack_from(mapped, end)
    if magic != _MAGIC or start > end:
        raise ValueError("it is truncated, or not a file of this format")
    stream = bytes(mapped[start:end])
    for opcode, _, _ in pickletools.genops(stream):
        if opcode.name not in _OPCODES:
            raise pickle.UnpicklingError(f"it contains {opcode.name}, but only plain values and arrays are allowed")
    return _Unpickler(io.BytesIO(stream), mapped[:start]).load()
