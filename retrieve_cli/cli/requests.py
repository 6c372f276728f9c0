"""Requests of `query`: from the command line, or from lines of standard input and of files."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from retrieve_cli.api.requests import exact, names, sound
from retrieve_cli.config.plugins import answering_names, installed
from retrieve_cli.contracts import Json, KnownFile, Request
from retrieve_cli.errors import RetrieveError, UsageError, quoted
from retrieve_cli.terms.tenants import KEYS
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.nearest import nearest

_HINT = 'a line is plain text or {"id": "q1", "query": "…"}'
_NARROWING = ("also", "files", "filters", "doc_ids", *KEYS, "retrievers")
"""Keys of a line besides its text and id. A key with nearly such a name is misspelt: no line may lose its filter
silently."""
_ALIKE = 0.8
"""Similarity from which on a key counts as misspelt: that of filter and tenantid, not of fields and title."""


__all__ = ["BadLine", "exact", "from_run", "from_stdin", "names", "read_lines", "read_requests", "sound"]


class BadLine(NamedTuple):
    """A line that is not a request, or one that cannot be answered."""

    id: str
    """The id that it gives itself, or the number of the line."""
    error: RetrieveError


def from_stdin(asked: Request) -> Iterator[Request | BadLine]:
    """Yield the requests of standard input, one per line, each as soon as its line is there; flags apply to all.

    Raises:
        UsageError: stdin is closed.
    """
    if sys.stdin is None:
        raise UsageError("stdin is closed, and - reads the queries from it", hint="echo TEXT | retrieve query -")
    return read_lines(files.lines(sys.stdin.buffer, limit=files.CONFIG), "stdin", asked)


def read_requests(lines: Iterable[bytes], where: str, asked: Request, *, folder: Path = Path()) -> Iterator[Request]:
    """Yield the request of each line, as `read_lines` does.

    Raises:
        UsageError: a line is not a request; names it.
    """
    for request in read_lines(lines, where, asked, folder=folder):
        if isinstance(request, BadLine):
            raise request.error
        yield request


def read_lines(
    lines: Iterable[bytes], where: str, asked: Request, *, folder: Path = Path()
) -> Iterator[Request | BadLine]:
    """Yield one request per line: a JSON object with `query` (`text`) and `id` (`_id`), or text under its line number.

    An object may have `also`, `files`, `filters`, `doc_ids`, `retrievers` (lists of strings) and `tenant` besides; they
    add to those of `asked`, and none of them widens what may be found. Other keys are ignored, unless they have nearly
    the name of one of these. Paths are relative to `folder`. A line that is neither is a `BadLine`.
    """
    for number, raw in enumerate(lines, 1):
        place = f"line {number} of {where}"
        line = ""
        try:
            line = _decoded(raw, place, first=number == 1)
            if line.startswith("{"):
                yield _from_json(line, place, str(number), asked, folder)
            elif line:
                yield replace(asked, text=line, id=str(number))
        except UsageError as error:
            yield BadLine(_id_within(line) or str(number), error)


def _decoded(raw: bytes, place: str, *, first: bool) -> str:
    if len(raw) > files.CONFIG:
        raise UsageError(f"{place} is longer than {files.CONFIG // files.MB} MB", hint=_HINT)
    try:
        return raw.decode("utf-8-sig" if first else "utf-8").strip()
    except UnicodeDecodeError as error:
        raise UsageError(f"{place} is not UTF-8", hint="convert it with iconv") from error


def _id_within(line: str) -> str:
    """Return the id of a line that is a JSON object; empty for any other."""
    try:
        item = jsonlib.loads(line)
    except (ValueError, RecursionError):
        return ""
    return _id(item) if isinstance(item, dict) else ""


def _id(item: Mapping[str, Json]) -> str:
    names = (item[key] for key in ("id", "_id") if item.get(key) is not None)
    return sound(str(next(names, "")))


def _from_json(line: str, where: str, number: str, asked: Request, folder: Path) -> Request:
    try:
        item = jsonlib.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON ({error})", hint=_HINT) from error
    _check_keys(item, where)
    return _request(item, where, number, asked, folder)


def _request(item: Mapping[str, Json], where: str, number: str, asked: Request, folder: Path) -> Request:
    text = item.get("query", item.get("text"))
    if not isinstance(text, str):
        raise UsageError(f"{where} has no query", hint=_HINT)
    return Request(
        text=sound(text),
        id=_id(item) or number,
        also=(*asked.also, *map(sound, _strings(item, "also", where))),
        files=(*asked.files, *(str(folder / name) if name else "" for name in _strings(item, "files", where))),
        filters=(*asked.filters, *exact(_strings(item, "filters", where), f"`filters` of {where}")),
        doc_ids=_doc_ids(item, where, asked),
        tenant=_tenant(item, where, asked),
        retrievers=_retrievers(item, where, asked),
    )


def from_run(item: Json, where: str) -> Request:
    """Return the request of a saved run: an object as a line of standard input, and the facts from each file,
    which is not read again.

    Raises:
        UsageError: it is not such an object, or a key of it is unknown; names it.
    """
    known = ("id", "query", *_NARROWING)
    if not isinstance(item, dict) or not isinstance(item.get("files", []), list):
        raise UsageError(f"{where} is not a request", hint="save the run again: retrieve query TEXT --save-run")
    if strange := [key for key in item if key not in known]:
        from retrieve_cli.config.values import unknown

        raise unknown(f"key {quoted(strange[0])} of {where}", strange[0], known)
    entries = [_entry_of_file(entry, f"{where}, file {at}") for at, entry in enumerate(item.get("files", []), 1)]
    request = _request({**item, "files": None}, where, "1", Request(""), Path())
    return replace(
        request,
        files=tuple(path for path, _ in entries),
        known=tuple(file for _, file in entries if file is not None),
    )


def _entry_of_file(entry: Json, where: str) -> tuple[str, KnownFile | None]:
    """Return a path, and the facts from its file if it was read."""
    if not isinstance(entry, dict) or not isinstance(path := entry.get("path"), str):
        raise UsageError(f"{where} has no path", hint="save the run again: retrieve query TEXT --save-run")
    if "tokens" not in entry:
        return sound(path), None
    tokens, warnings = (tuple(map(sound, _strings(entry, key, where))) for key in ("tokens", "warnings"))
    return sound(path), KnownFile(sound(path), tokens, warnings)


def _check_keys(item: Mapping[str, Json], where: str) -> None:
    """Raises: UsageError: a key is a misspelt one that narrows what may be found."""
    for key in item:
        near = nearest(key.casefold(), _NARROWING, cutoff=_ALIKE)
        if near and key not in _NARROWING:
            raise UsageError(f"{where} has an unknown key {quoted(key)}", hint=f"did you mean `{near}`?")


def _strings(item: Mapping[str, Json], key: str, where: str) -> list[str]:
    value = item.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise UsageError(f"`{key}` of {where} must be a list of strings", hint=f'for example: "{key}": ["…"]')
    return value


def _doc_ids(item: Mapping[str, Json], where: str, asked: Request) -> tuple[str, ...]:
    """Return the ids of a line; if the command names some, a line chooses among these.

    An empty list allows nothing, and must not be read as one that allows everything.
    """
    ids = exact(_strings(item, "doc_ids", where), f"`doc_ids` of {where}")
    if item.get("doc_ids") == []:
        hint = "remove the key to search every record"
        raise UsageError(f"`doc_ids` of {where} is empty: no record may be found", hint=hint)
    if asked.doc_ids and (others := [name for name in ids if name not in asked.doc_ids]):
        message = f"{where} asks for the record {quoted(others[0])}, which is not among those of --doc-id"
        raise UsageError(message, hint="remove one of them")
    return ids or asked.doc_ids


def _retrievers(item: Mapping[str, Json], where: str, asked: Request) -> tuple[str, ...]:
    """Return the retrievers that answer a line; if the command names some, a line chooses among these."""
    chosen = tuple(dict.fromkeys(_strings(item, "retrievers", where)))
    if item.get("retrievers") == []:
        hint = "remove the key to ask every retriever"
        raise UsageError(f"`retrievers` of {where} is empty: no retriever may answer", hint=hint)
    known = answering_names() if set(chosen) <= set(answering_names()) else (*answering_names(), *installed())
    for name in chosen:
        if name not in known:
            from retrieve_cli.config.values import unknown

            raise unknown(f"retriever {quoted(sound(name))} of {where}", name, known)
    if asked.retrievers and (others := [name for name in chosen if name not in asked.retrievers]):
        message = f"{where} asks for the retriever {quoted(others[0])}, which is not among those of --retrievers"
        raise UsageError(message, hint="remove one of them")
    return chosen or asked.retrievers


def _tenant(item: Mapping[str, Json], where: str, asked: Request) -> str | None:
    """Return the tenant of a line; if the command names one, no line may name another."""
    named, place = asked.tenant, "--tenant"
    for key in KEYS:
        if (tenant := item.get(key)) is None:
            continue
        if not isinstance(tenant, str):
            raise UsageError(f"`{key}` of {where} is not a string", hint=f'for example: "{key}": "acme"')
        if named not in (None, tenant):
            message = f"{where} asks for the tenant {quoted(tenant)}, and {place} is {quoted(named)}"
            raise UsageError(message, hint="remove one of them")
        named, place = exact([tenant], f"`{key}` of {where}")[0], f"its `{key}`"
    return named
