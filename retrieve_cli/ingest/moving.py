"""Rows of an older generation copied, with new line numbers if their records moved within their source."""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise

import numpy as np

from retrieve_cli.storage.tables import Table, TableWriter, encode_row

RECORD_LINES = (("line",), re.compile(rb'"line":(\d{1,15})(,"sha1":"[0-9a-f]{40}"\}\n)'))
CHUNK_LINES = (
    ("start_line", "end_line"),
    re.compile(rb'"start_line":(\d{1,15})(,"end_line":)(\d{1,15})(,"tokens":\d{1,15}\}\n)'),
)
"""Keys of a row that hold a line of the source, and the end of a row, where they are: a line feed is nowhere else in
it, and within a text a quotation mark follows a backslash."""


def copy_moved(
    old: Table, rows: range, new: TableWriter, shift: int, lines: tuple[tuple[str, ...], re.Pattern[bytes]]
) -> None:
    """Append adjacent rows of a table, their line numbers moved by `shift`."""
    keys, pattern = lines
    for block, offsets in old.raw_rows(rows):
        if not shift:
            new.copy_rows(block, offsets)
            continue
        moved, count = pattern.subn(partial(_moved, shift), block)
        if count == len(offsets) - 1:
            new.copy_rows(moved, np.append(0, np.flatnonzero(np.frombuffer(moved, np.uint8) == ord("\n")) + 1))
            continue
        for start, end in pairwise((offsets - offsets[0]).tolist()):  # not as this version writes them
            value = orjson_loads(block[start:end])
            new.copy(encode_row({**value, **{key: value[key] + shift for key in keys}}))


def _moved(shift: int, found: re.Match[bytes]) -> bytes:
    """Return the end of a row with other line numbers: every other group is one."""
    parts = [found[number] for number in range(1, found.re.groups + 1)]
    name = found[0][: found.start(1) - found.start()]
    return name + b"".join(part if number % 2 else b"%d" % (int(part) + shift) for number, part in enumerate(parts))


def orjson_loads(line: bytes) -> dict[str, int]:
    """Return a row of which only lines are changed."""
    import orjson

    value: dict[str, int] = orjson.loads(line)
    return value
