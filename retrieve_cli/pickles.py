"""Pickle files whose arrays are memory-mapped, and an unpickler that runs nobody's code.

A file is a protocol 5 pickle, then its arrays' buffers (each aligned to 64 bytes), then a table of (offset, length)
pairs and a footer. Loading maps the file and hands slices of the map to the unpickler as out-of-band buffers
(PEP 574), so opening costs the same at a thousand rows and at ten million. Only NumPy arrays and plain containers are
admitted: pickle runs whatever a file names, and an artifact may come from anywhere.
"""

from __future__ import annotations

import io
import mmap
import pickle
import struct
from pathlib import Path
from typing import Any, NoReturn

from retrieve_cli.errors import IndexCorrupt

_MAGIC = b"RTRVPKL1"
_FOOTER = struct.Struct("<QQQ8s")
"""Length of the pickle, offset of the table, number of buffers, magic."""
_ALIGNMENT = 64

_ADMITTED = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "_reconstruct"),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ADMITTED:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}, and only arrays and plain containers are admitted")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError(f"it holds a persistent id {pid!r}")


def dump(value: Any, path: Path) -> None:
    """Writes arrays and plain containers; the same value gives the same bytes."""
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    table: list[tuple[int, int]] = []
    with path.open("wb") as file:
        file.write(stream)
        for buffer in buffers:
            file.write(b"\0" * (-file.tell() % _ALIGNMENT))
            raw = buffer.raw()
            table.append((file.tell(), raw.nbytes))
            file.write(raw)
        start = file.tell()
        for entry in table:
            file.write(struct.pack("<QQ", *entry))
        file.write(_FOOTER.pack(len(stream), start, len(table), _MAGIC))


def load(path: Path) -> Any:
    """The value, its arrays read-only views of the mapped file.

    Raises:
        IndexCorrupt: the file is absent, cut short, not such a pickle, or names anything but arrays and containers.
    """
    try:
        with path.open("rb") as file:
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        length, start, count, magic = _FOOTER.unpack_from(mapped, len(mapped) - _FOOTER.size)
        if magic != _MAGIC:
            raise ValueError("it has no footer of this format")
        table = [struct.unpack_from("<QQ", mapped, start + 16 * number) for number in range(count)]
        if any(offset + size > start for offset, size in table) or length > start:
            raise ValueError("its table points outside the file")
        buffers = [mapped[offset : offset + size] for offset, size in table]
        return _Unpickler(io.BytesIO(mapped[:length]), buffers=buffers).load()
    except OSError as error:
        raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    except Exception as error:  # a damaged pickle may raise anything at all
        raise IndexCorrupt(f"{path} was refused: {error}", hint=_HINT) from error


_HINT = "see which files are damaged: retrieve inspect verify; then build again: retrieve build"
