"""Ids, fields and values of the current index that begin like a word, of the records that the command may see."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.storage.generation import Generation

_SCANNED = 256 * files.MB
"""Bytes of records that are looked through for an id."""
_LOOKED_AT = 50_000
"""Records of a tenant that are looked through for an id."""
_LONGEST = 4096
"""Bytes of an id."""
_VALUES = 200


class CompletionScope(NamedTuple):
    """The records that a command may find."""

    tenant: str | None = None
    closed: bool = False
    """True if it may find none: the configuration wants a tenant, and none is named; or another folder is searched."""

    @classmethod
    def of(cls, command: str, given: Mapping[str, str]) -> CompletionScope:
        """Return the scope of a command with the given options."""
        if command != "query":
            return cls(given.get("--tenant"))
        from retrieve_cli.config.loading import load

        config = given.get("--config")
        search = load(None if config is None else Path(config)).search
        return cls(given.get("--tenant"), "--docs-dir" in given or (search.require_tenant and "--tenant" not in given))


def ids(artifacts: Path, word: str, scope: CompletionScope) -> Iterator[str]:
    """Yield the ids of records that start with a word, in the order of the index."""
    if scope.closed:
        return
    if scope.tenant is None:
        yield from _scanned_ids(artifacts, word)
        return
    generation, visible = _opened(artifacts, scope)
    rows = range(len(generation.records)) if visible is None else visible.nonzero()[0][:_LOOKED_AT].tolist()
    for row in rows:
        if (name := generation.record_id(row)).startswith(word):
            yield name


def _scanned_ids(artifacts: Path, word: str) -> Iterator[str]:
    """Look for ids in the records as they lie in their file, without NumPy: a line begins with its id."""
    live = files.read_text(artifacts / "current", limit=files.CONFIG, encoding="ascii").strip()
    if not re.fullmatch(r"[0-9a-f]{12}", live):
        return
    start = b'{"id":"'
    wanted = start + json.dumps(word, ensure_ascii=False)[1:-1].encode()
    with (
        files.open_regular(artifacts / "generations" / live / "records.jsonl") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as rows,
    ):
        place = 0 if rows[: len(wanted)] == wanted else _next(rows, wanted, 0)
        while place >= 0:
            text = rows[place + len(start) - 1 : place + _LONGEST].decode("utf-8", "ignore")
            yield str(json.JSONDecoder().raw_decode(text)[0])
            place = _next(rows, wanted, place + 1)


def _next(rows: mmap.mmap, wanted: bytes, start: int) -> int:
    """The offset of the next line that begins with `wanted`; -1 if no line does."""
    place = rows.find(b"\n" + wanted, start, _SCANNED)
    return place + 1 if place >= 0 else -1


def conditions(artifacts: Path, word: str, scope: CompletionScope) -> Iterator[str]:
    """Yield the fields that a filter may name (`license=`), or behind `=` their values (`license=MIT`)."""
    if scope.closed:
        return
    from retrieve_cli.retrieval.queries.filters import Condition
    from retrieve_cli.search.access import columns_seen

    columns = columns_seen(*_opened(artifacts, scope))
    negation = "!" if word.startswith("!") else ""
    field, equals, value = word.removeprefix("!").partition("=")
    if not equals:
        yield from (f"{negation}{name}=" for name in columns.fields if name.startswith(field))
        return
    column = columns.column(field.removesuffix("!"))
    for text in () if column is None else column.starting(value.lstrip('"'), most=_VALUES):
        yield str(Condition(field, "=", (text,), bool(negation)))


def _opened(artifacts: Path, scope: CompletionScope) -> tuple[Generation, Mask | None]:
    """The current generation, and its records that the command may see; None: all."""
    from retrieve_cli.assemble.trusted import own_store
    from retrieve_cli.search.access import of_tenant
    from retrieve_cli.storage.generation import open_generation

    with open_generation(own_store(artifacts)) as generation:
        return generation, None if scope.tenant is None else of_tenant(generation, scope.tenant)
