"""Records as Python programs have them: dicts, objects with fields, tables; as plain objects of JSON.

A table is known by its methods, so that no package is imported for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import isinf, isnan
from typing import Any

from msgspec import to_builtins

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted

Records = Iterable[Any] | str | os.PathLike[str]
"""Records, a table of them, or paths; tables of pandas, Polars and pyarrow are iterable."""
_EXAMPLE = 'for example: [{"id": "lungmask", "name": "lungmask", "description": "Segments lungs in CT."}]'
_KEPT = (bytes, bytearray, memoryview, Decimal)
"""Kinds that would become Base64, and texts."""
_ROWS = 10_000
"""Rows of a table that are made objects at a time."""


def paths_in(given: Records) -> list[str]:
    """Return the paths that were given instead of records; empty if they are records.

    Raises:
        UsageError: there are both.
    """
    several = [given] if isinstance(given, str | os.PathLike) else given if isinstance(given, list | tuple) else []
    paths = [os.fspath(each) for each in several if isinstance(each, str | os.PathLike)]
    if paths and len(paths) < len(several):
        raise UsageError(f"there are both paths and records: {quoted(paths[0])}", hint="give one of the two")
    return paths


def rows_of(given: Any) -> Iterator[dict[str, Json] | str]:
    """Return each record as an object of JSON, or the reason why it is not one.

    Raises:
        UsageError: these are not records.
    """
    return map(_row, _each(given))


def _row(record: Any) -> dict[str, Json] | str:
    key: Any = ""
    row: dict[str, Json] = {}
    if (fields := _fields(record)) is None:
        return f"a record is a dict or an object with fields, not {quoted(record)}"
    try:
        for key, value in fields.items():
            kept = to_builtins(value, enc_hook=_other, str_keys=True, order="deterministic", builtin_types=_KEPT)
            if (plain := _present(kept)) is not None:
                row[str(key)] = plain
    except RecursionError:
        return "it is nested too deeply"
    except (TypeError, ValueError) as error:
        return f"its key {quoted(str(key))}: {error}"
    return row


def _each(given: Any) -> Iterator[Any]:
    """Return the records of a table or of any other iterable; a single record is one."""
    if hasattr(given, "iter_rows"):  # Polars
        return iter(given.iter_rows(named=True))
    if hasattr(given, "to_pylist") and hasattr(given, "slice"):  # pyarrow
        slices = (given.slice(start, _ROWS) for start in range(0, given.num_rows, _ROWS))
        return (row for part in slices for row in part.to_pylist())
    if hasattr(given, "iloc") and hasattr(given, "columns"):  # pandas
        given = given.reset_index([name for name in given.index.names if name is not None and name not in given])
        slices = (given.iloc[start : start + _ROWS] for start in range(0, len(given), _ROWS))
        return (row for part in slices for row in part.to_dict("records"))
    if _fields(given) is not None:
        return iter((given,))
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return iter(given)
    raise UsageError(f"records are dicts or a table of them, not {quoted(given)}", hint=_EXAMPLE)


def _fields(record: Any) -> Mapping[Any, Any] | None:
    if isinstance(record, Mapping | type):
        return record if isinstance(record, Mapping) else None
    for method in ("model_dump", "_asdict"):  # Pydantic, a named tuple
        if hasattr(record, method):
            return dict(getattr(record, method)())
    names = getattr(record, "__struct_fields__", None) or getattr(record, "__dataclass_fields__", None)
    return None if names is None else {name: getattr(record, name) for name in names}


def _other(value: Any) -> Any:
    """Return a value of a kind that `to_builtins` does not know as one that it does."""
    kind = type(value).__name__
    if kind in ("NAType", "NaTType"):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, str | os.PathLike) or kind in ("datetime64", "timedelta64"):  # `item` may be an integer
        return None if (text := str(value)) == "NaT" and kind.endswith("64") else text
    if (fields := _fields(value)) is not None:
        return dict(fields)
    if isinstance(value, Sequence) or getattr(value, "ndim", False):
        return list(value)
    if hasattr(value, "item"):  # a scalar of NumPy
        return value.item()
    raise TypeError(f"JSON has no {kind}")


def _present(value: Any) -> Json:
    """Return a value without the parts of it that are None or NaN; None if it is one of these itself."""
    if isinstance(value, dict):
        return {key: each for key, part in value.items() if (each := _present(part)) is not None}
    if isinstance(value, list | tuple):
        return [each for part in value if (each := _present(part)) is not None]
    value = float(value) if isinstance(value, Decimal) else value
    if isinstance(value, float) and isinf(value):
        raise ValueError(f"{value} is not a finite number")
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("JSON has no bytes")
    return None if isinstance(value, float) and isnan(value) else value
