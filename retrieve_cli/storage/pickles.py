"""Pickle files with memory-mapped arrays, read by a loader that never executes code.

A file is a protocol 5 pickle, then its arrays' buffers (each aligned to 64 bytes), then a table of their offsets and
lengths, and a footer. In the pickle an array is a persistent id, "number dtype shape". Loading maps the file and
returns views of the map, so opening costs the same for a thousand rows and for ten million.

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
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import numpy as np

from retrieve_cli.errors import IndexCorrupt, RetrieveError, UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage import durable
from retrieve_cli.storage.mapped import MappedFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_MAGIC = b"RTRVPKL1"
_FOOTER = struct.Struct("<QQQ8s")
"""Length of the pickle, offset of the table, number of buffers, magic."""
_ENTRY = struct.Struct("<QQ")
_ALIGNMENT = 64
_DTYPES = frozenset({"|u1", "<u2", "<i4", "<u4", "<i8", "<f4", "<f8"})
_OPCODES = frozenset(
    """
    PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE
    SHORT_BINBYTES BINBYTES     EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM SETITEMS BINPERSID
    """.split()
)
_HINT = "list the damaged files: retrieve inspect verify; then build again: retrieve build"


class Later(Frozen, eq=False):
    """Placeholder of an array that is written block by block, so that only one block is in memory."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)


class _Pickler(pickle.Pickler):
    """Pickler that separates arrays. Without a memo the bytes depend on values alone, not on shared objects."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=5)
        self.fast = True
        self.arrays: list[Array | Later] = []

    def persistent_id(self, value: Any) -> str | None:
        if not isinstance(value, np.ndarray | Later):
            return None
        dtype = value.dtype if isinstance(value, Later) else value.dtype.str
        if dtype not in _DTYPES:
            raise TypeError(f"arrays of {value.dtype} are not stored")
        self.arrays.append(value if isinstance(value, Later) else np.ascontiguousarray(value))
        return " ".join(map(str, (len(self.arrays) - 1, dtype, *value.shape)))


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, mapped: memoryview, table: list[tuple[int, int]]) -> None:
        super().__init__(stream)
        self._mapped = mapped
        self._table = table

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}")

    def persistent_load(self, pid: str) -> Array:
        number, dtype, *shape = pid.split()
        if dtype not in _DTYPES:
            raise pickle.UnpicklingError(f"it contains an array of {dtype}")
        offset, size = self._table[int(number)]
        return np.frombuffer(self._mapped[offset : offset + size], dtype).reshape([int(part) for part in shape])


def dump(value: Any, path: Path, blocks: Iterable[tuple[Later, Array]] = ()) -> None:
    """Write lists, dictionaries, strings, numbers and arrays; the same value gives the same bytes.

    `blocks` has the contents of each `Later` of the value: the blocks of one array in order, several arrays in any
    order. It is iterated once, while the file is written.

    Raises:
        TypeError: the type of an array is not supported.
        ValueError: a block belongs to no placeholder of the value, or a placeholder is not filled.
    """
    stream = io.BytesIO()
    pickler = _Pickler(stream)
    pickler.dump(value)
    with path.open("wb") as file:
        file.write(stream.getbuffer())
        table, end = [], file.tell()
        for array in pickler.arrays:
            end += -end % _ALIGNMENT
            table.append((end, array.nbytes))
            if not isinstance(array, Later):
                file.seek(end)
                durable.write(file, _bytes_of(array))
            end += array.nbytes
        places = zip(pickler.arrays, table, strict=True)
        _fill(file, {id(array): place for array, place in places if isinstance(array, Later)}, blocks)
        file.seek(end)
        for entry in table:
            file.write(_ENTRY.pack(*entry))
        file.write(_FOOTER.pack(stream.getbuffer().nbytes, end, len(table), _MAGIC))


def _fill(file: BinaryIO, places: Mapping[int, tuple[int, int]], blocks: Iterable[tuple[Later, Array]]) -> None:
    """Write blocks to their places: `places` has offset and length by the identity of a `Later`."""
    left = {key: [offset, offset + size] for key, (offset, size) in places.items()}
    for later, block in blocks:
        stored, span = np.ascontiguousarray(block, later.dtype), left.get(id(later), [0, 0])
        if span[0] + stored.nbytes > span[1]:
            raise ValueError("the value does not have the placeholder")
        file.seek(span[0])
        durable.write(file, _bytes_of(stored))
        span[0] += stored.nbytes
    if any(start < stop for start, stop in left.values()):
        raise ValueError("an array was not filled")


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def fill(value: dict[str, Any], blocks: Iterable[tuple[Later, Array]]) -> dict[str, Any]:
    """Return a dictionary with its arrays in memory, as `load` would return it after `dump`."""
    parts: dict[int, list[Array]] = {}
    for place, block in blocks:
        parts.setdefault(id(place), []).append(block)
    return {
        name: np.concatenate([np.empty((0, *item.shape[1:]), item.dtype), *parts.get(id(item), [])]).astype(item.dtype)
        if isinstance(item, Later)
        else item
        for name, item in value.items()
    }


def load(source: Path | MappedFile) -> Any:
    """Return the value, with arrays that are read-only views of the mapped file.

    Raises:
        IndexCorrupt: the file is missing, truncated, damaged, of another format, or contains anything but plain values
            and arrays.
    """
    path = source.path if isinstance(source, MappedFile) else source
    try:
        return _read(MappedFile.of(source))
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


def _read(file: MappedFile) -> Any:
    """Return the value. Raises: ValueError and others if the format is wrong."""
    mapped = file.memory
    length, start, count, magic = _FOOTER.unpack_from(mapped, len(mapped) - _FOOTER.size)
    if magic != _MAGIC or start + count * _ENTRY.size + _FOOTER.size != len(mapped) or length > start:
        raise ValueError("it is truncated, or not a file of this format")
    table = [_ENTRY.unpack_from(mapped, start + _ENTRY.size * number) for number in range(count)]
    if any(offset + size > start for offset, size in table):
        raise ValueError("its table points outside the file")
    stream = bytes(mapped[:length])
    for opcode, _, _ in pickletools.genops(stream):
        if opcode.name not in _OPCODES:
            raise pickle.UnpicklingError(f"it contains {opcode.name}, but only plain values and arrays are allowed")
    return _Unpickler(io.BytesIO(stream), mapped, table).load()
