"""`retrieve query --server URL`: a query that a running `retrieve serve` answers, printed as an own answer.

The server gets the values of the flags; its own configuration decides the rest. It also formats the answer: JSON is
printed unchanged, other formats come from `POST /search?format=`.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from retrieve_cli.api.choices import SEARCH
from retrieve_cli.api.table import LOCAL
from retrieve_cli.cli.server_client import HINT, ServerAnswer, ServerClient
from retrieve_cli.contracts import Json
from retrieve_cli.errors import Exit, Unavailable, UsageError, escaped_json, printable
from retrieve_cli.untrusted.foreign_json import foreign_json, foreign_object

if TYPE_CHECKING:
    from retrieve_cli.cli.answering import Run

_FORMATS = ("text", "json", "jsonl", "csv", "md", "trec")
"""Formats that a server renders."""
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,40}m")
"""Select Graphic Rendition (ECMA-48, 8.3.117): the one control sequence of an answer in colour."""
_CONTROLS = re.compile(rf"({_COLOURS.pattern})")
_NUMBER = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,30})?(?:e-?[0-9]{1,3})?")


def answer(run: Run, chosen: Mapping[str, Any], text: str) -> None:
    """Have the configured server answer a query, and print its answer. `chosen` are the flags.

    Raises:
        UsageError: the address is invalid, or the call needs an index of this machine.
        Unavailable: the server cannot be reached, or is not `retrieve serve`.
        typer.Exit: the server has answered with an error, or without results.
    """
    _expect_elsewhere(run, chosen)
    form, client = run.shared.format, ServerClient(run.settings.query)
    path, request = "/search", request_of(chosen, text)
    if form == "json":
        request["related"] = request.get("related", "full")  # else a server names them alone
    else:
        page = run.shared.page
        options = {"format": form, "width": page.width, "color": page.styled, "explain": run.shape.explain}
        path += "?" + "&".join(f"{name}={str(value).lower()}" for name, value in options.items())
    try:
        answered = client.post(path, json.dumps(request, ensure_ascii=False).encode())
    finally:
        client.close()
    if answered.status != 200:
        raise typer.Exit(_print_error(run, client.server, answered))
    sys.stdout.write(_printable(run, client.server, answered))
    if run.exit_status and not foreign_object(answered.body, client.server, HINT)["results"]:
        raise typer.Exit(Exit.NO_RESULT)


def _printable(run: Run, server: str, answered: ServerAnswer) -> str:
    """Return an answer ready to print: JSON with escapes, other text without control sequences.

    Colours pass if this command asked for them. Raises: Unavailable: it is not an answer of `retrieve serve`.
    """
    form, text = run.shared.format, answered.body.decode("utf-8", "replace")
    if form == "json":
        if not isinstance(foreign_object(answered.body, server, HINT).get("results"), list):
            raise Unavailable(f"the answer of {server} lacks a list of results", hint=HINT)
        return escaped_json(text)
    if answered.headers.get("X-Retrieve-Format") != form:
        raise Unavailable(f"the answer of {server} is not one of `retrieve serve`", hint=HINT)
    if form == "jsonl":
        for line in answered.body.splitlines():
            foreign_object(line, server, HINT)
        return escaped_json(text)
    if form == "csv":
        return _csv(text, server)
    passing = _COLOURS.findall(text) if run.shared.page.styled else ()
    return "".join(part if part in passing else printable(part, "\n\t") for part in _CONTROLS.split(text))


def _csv(text: str, server: str) -> str:
    """Return rows whose cells are not formulas. Raises: Unavailable: it is not CSV."""
    from retrieve_cli.output.formats import csv_cell

    out = io.StringIO()
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    rows = csv.writer(out)
    try:
        for row in csv.reader(io.StringIO(text, newline="")):
            rows.writerow(cell if _NUMBER.fullmatch(cell) else csv_cell(cell) for cell in row)
    except csv.Error as error:
        raise Unavailable(f"the answer of {server} is not CSV ({error})", hint=HINT) from error
    return out.getvalue()


def _expect_elsewhere(run: Run, chosen: Mapping[str, Any]) -> None:
    """Raises: UsageError: a flag is about this machine or this process, and not about the query."""
    flags = [row.flag for row in SEARCH.flagged if LOCAL in row.doors and row.chosen in chosen]
    others = {
        "- and --stream": run.shape.batch,
        "--exit-status without --json": run.exit_status and run.shared.format != "json",
        f"--format {run.shared.format}": run.shared.format not in _FORMATS,
    }
    for flag in (*flags, *(flag for flag, value in others.items() if value)):
        raise UsageError(f"{flag} does not go with --server URL", hint="remove it, or ask an index of this machine")


def request_of(chosen: Mapping[str, Any], text: str) -> dict[str, Json]:
    """Return the flags of a call as a request; the server decides everything else."""
    sent = SEARCH.of_json.values()
    return {"query": text, **{row.name: chosen[row.chosen] for row in sent if row.flags and row.chosen in chosen}}


def _print_error(run: Run, server: str, answered: ServerAnswer) -> int:
    """Print the error of a server as this command prints its own; return its exit code."""
    try:
        error = foreign_json(answered.body)["error"]
        code, kind, message, hint = error["code"], *(printable(str(error[key])) for key in ("kind", "message", "hint"))
    except (ValueError, KeyError, TypeError, IndexError):
        message = f"{server} answered with status {answered.status}"
        return run.shared.talk.error(Exit.ERROR, "error", message, HINT)
    return run.shared.talk.error(int(code) if code in tuple(Exit) else Exit.ERROR, kind, message, hint)
