"""Values in PostgreSQL's binary format: arrays, vectors, rows of COPY. NumPy arrays become bytes and back without a
Python object for each number."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts.values import Rows, Terms, Vectors

_INT4, _FLOAT4, _UUID = 23, 700, 2950
"""Numbers of the element types in the catalog of types, the same in every server."""
_ARRAY = struct.Struct(">iiIii")
_EMPTY_ARRAY = struct.Struct(">iiI")
_VECTOR = struct.Struct(">hh")
_FIELD = struct.Struct(">i")
HIGHEST = 2**31 - 1
"""The largest `int4`."""
COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END = b"\xff\xff"


class Wire(bytes):
    """A value in binary format, whose type the server infers from its place in the statement."""


def integer(value: int) -> bytes:
    """Return an `int4`."""
    return _FIELD.pack(value)


def integers(values: Rows | Terms) -> Wire:
    """Return an `int4[]`, without numbers that an `int4` does not hold: no row has them."""
    given: NDArray[np.integer[Any]] = np.asarray(values)
    kept = given[(given >= -HIGHEST - 1) & (given <= HIGHEST)]
    return _array(kept.astype(">i4"), _INT4)


def _array(values: NDArray[np.void], kind: int) -> Wire:
    if not len(values):
        return Wire(_EMPTY_ARRAY.pack(0, 0, kind))
    elements = np.empty(len(values), dtype=[("length", ">i4"), ("value", values.dtype)])
    elements["length"] = 4
    elements["value"] = values
    return Wire(_ARRAY.pack(1, 0, kind, len(values), 1) + elements.tobytes())


def uuids(values: Sequence[bytes]) -> Wire:
    """Return a `uuid[]` of values of 16 bytes each."""
    if not values:
        return Wire(_EMPTY_ARRAY.pack(0, 0, _UUID))
    return Wire(_ARRAY.pack(1, 0, _UUID, len(values), 1) + b"".join(_FIELD.pack(16) + value for value in values))


def vectors(values: Vectors) -> list[Wire]:
    """Return each row of (n, dim) float32 as a `vector`."""
    rows = np.ascontiguousarray(values, dtype=">f4")
    head = _VECTOR.pack(rows.shape[1], 0)
    return [Wire(head + row.tobytes()) for row in rows]


def to_integers(data: bytes | None) -> Terms:
    """Return an `int4[]` as (n,) int32; none for NULL."""
    return _elements(data, ">i4").astype(np.int32)


def to_reals(data: bytes | None) -> Vectors:
    """Return a `float4[]` as (n,) float32; none for NULL."""
    return _elements(data, ">f4").astype(np.float32)


def _elements(data: bytes | None, kind: str) -> NDArray[np.void]:
    if data is None or len(data) <= _ARRAY.size:
        return np.zeros(0, dtype=kind)
    elements: NDArray[np.void] = np.frombuffer(data, dtype=[("length", ">i4"), ("value", kind)], offset=_ARRAY.size)
    return elements["value"]


def copy_row(fields: Sequence[bytes | None]) -> bytes:
    """Return one row of a COPY in binary format; None is NULL."""
    parts = [struct.pack(">h", len(fields))]
    for field in fields:
        parts += [_FIELD.pack(-1)] if field is None else [_FIELD.pack(len(field)), field]
    return b"".join(parts)


def shown(text: str) -> str:
    """Return a text that a `text` column holds: without NUL and lone surrogates, which are replaced."""
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def shown_bytes(text: str | None) -> bytes | None:
    """Return such a text in UTF-8; None for None."""
    return None if text is None else shown(text).encode()


def fields_json(fields: Mapping[str, Sequence[str]]) -> bytes:
    """Return fields as `jsonb`, for people: what a text column cannot hold is replaced."""
    cleaned = {shown(name): [shown(value) for value in values] for name, values in fields.items()}
    return b"\x01" + json.dumps(cleaned, ensure_ascii=False).encode()


def digest(*texts: str) -> bytes:
    """Return 16 bytes that represent some texts.

    Ids and values of fields may be any text: longer than an entry of a B-tree or a GIN index, or with characters that
    PostgreSQL has no place for. Their digests can be compared and indexed, and equal digests mean equal texts.
    """
    hashed = hashlib.blake2b(digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        hashed.update(struct.pack(">Q", len(data)) + data)
    return hashed.digest()
