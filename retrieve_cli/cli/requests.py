"""Requests of `query`: from the command line, or from lines of standard input and of files."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from retrieve_cli.api.asked import Asked, read_line
from retrieve_cli.api.requests import exact, sound
from retrieve_cli.contracts import Request
from retrieve_cli.errors import RetrieveError, UsageError, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.untrusted import files

_HINT = 'a line is plain text or {"id": "q1", "query": "…"}'


__all__ = ["BadLine", "exact", "from_stdin", "read_lines", "read_requests", "sound"]


class BadLine(NamedTuple):
    """A line that is not a request, or one that cannot be answered."""

    id: str
    """The id that it gives itself, or the number of the line."""
    error: RetrieveError


def from_stdin(asked: Request) -> Iterator[Asked | BadLine]:
    """Yield the requests of standard input, one per line, each as soon as its line is there; flags apply to all.

    Raises:
        UsageError: stdin is closed.
    """
    if sys.stdin is None:
        raise UsageError("stdin is closed, and - reads the queries from it", hint="echo TEXT | retrieve query -")
    return read_lines(files.lines(sys.stdin.buffer, limit=files.CONFIG), "stdin", asked)


def read_requests(lines: Iterable[bytes], where: str, asked: Request, *, folder: Path = Path()) -> Iterator[Request]:
    """Yield the request of each line, as `read_lines` does, without its choices.

    Raises:
        UsageError: a line is not a request; names it.
    """
    for line in read_lines(lines, where, asked, folder=folder):
        if isinstance(line, BadLine):
            raise line.error
        yield line.request


def read_lines(
    lines: Iterable[bytes], where: str, asked: Request, *, folder: Path = Path()
) -> Iterator[Asked | BadLine]:
    """Yield one request per line: a JSON object with `query` and other keys, or text under its line number.

    Conditions of a line add to the conditions of `asked`, and cannot widen the search; its other choices replace
    them. Keys that a request does not have are ignored, unless they have nearly the name of one. Paths are relative to
    `folder`. A line that is neither is a `BadLine`.
    """
    for number, raw in enumerate(lines, 1):
        place = f"line {number} of {where}"
        line = ""
        try:
            line = _decoded(raw, place, first=number == 1)
            if line.startswith("{"):
                yield _from_json(line, place, str(number), asked, folder)
            elif line:
                yield Asked(replace(asked, text=line, id=str(number)), {})
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
    try:
        item = jsonlib.loads(line)
    except (ValueError, RecursionError):
        return ""
    names = (item[key] for key in ("id", "_id") if isinstance(item, dict) and item.get(key) is not None)
    return sound(str(next(names, "")))


def _from_json(line: str, where: str, number: str, asked: Request, folder: Path) -> Asked:
    try:
        item = jsonlib.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON ({error})", hint=_HINT) from error
    read = read_line(item, where=where, id_=number, folder=folder)
    if read.at_least is not None:
        raise UsageError(f"{where} has `at_least`, which a server answers", hint="retrieve serve, or remove the key")
    return read._replace(request=_narrowed(read.request, asked, where))


def _narrowed(own: Request, asked: Request, where: str) -> Request:
    """The request of a line under the conditions of the flags, which it cannot widen. Raises: UsageError: it asks for a
    record, a tenant or a retriever that the flags do not allow."""
    for flag, given, chosen in (
        ("--doc-id", asked.doc_ids, own.doc_ids or ()),
        ("--retrievers", asked.retrievers, own.retrievers),
        ("--tenant", _listed(asked.tenant), _listed(own.tenant)),
    ):
        if given and (others := [name for name in chosen if name not in given]):
            message = f"{where} asks for {quoted(others[0])}, which is not allowed by {flag}"
            raise UsageError(message, hint="remove one of them")
    return replace(
        own,
        also=(*asked.also, *own.also),
        like=(*asked.like, *own.like),
        not_like=(*asked.not_like, *own.not_like),
        files=(*asked.files, *own.files),
        filters=(*asked.filters, *own.filters),
        doc_ids=asked.doc_ids if own.doc_ids is None else own.doc_ids,
        typed_ids=asked.typed_ids and own.doc_ids is None,
        tenant=asked.tenant if own.tenant is None else own.tenant,
        retrievers=own.retrievers or asked.retrievers,
    )


def _listed(tenant: str | None) -> tuple[str, ...]:
    return () if tenant is None else (tenant,)
