"""`query.server`: a query that a server answers, or this very process.

A server gets the values of the flags; its own configuration decides the rest. The server formats the answer: JSON is
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
from retrieve_cli.cli.options import Color
from retrieve_cli.contracts import Json
from retrieve_cli.errors import Exit, Unavailable, UsageError, escaped_json, printable, quoted
from retrieve_cli.untrusted.foreign_json import foreign_json, foreign_object

if TYPE_CHECKING:
    from retrieve_cli.cli.answering import Run

_FORMATS = ("text", "json", "jsonl", "csv", "md", "trec")
"""Formats that a server renders."""
_LONGEST = 64_000_000
"""Most bytes of an answer."""
_PATIENCE_S = 120.0
_HINT = "is it `retrieve serve`?"
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,40}m")
"""Select Graphic Rendition (ECMA-48, 8.3.117): the one control sequence of an answer in colour."""
_CONTROLS = re.compile(rf"({_COLOURS.pattern})")
_NUMBER = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,30})?(?:e-?[0-9]{1,3})?")


def answer(run: Run, chosen: Mapping[str, Any], text: str) -> bool:
    """Have the configured server answer a query; return False if this process has to. `chosen` are its flags.

    Raises:
        UsageError: the configuration names no server, or the call needs an index of this machine.
        Unavailable: the server cannot be reached.
        typer.Exit: the server has answered with an error.
    """
    server = run.settings.query.server
    if server == "never":
        from retrieve_cli.cli.warm.child import decline

        decline()
        return False
    if not server.startswith(("http://", "https://")):
        raise UsageError(f"query.server is {quoted(server)}", hint="auto, never, or http://HOST:PORT")
    _expect_elsewhere(run, chosen)
    form = {"related": "full"} if run.shared.format == "json" else {}  # else a server names them alone
    status, body = _asked(run, server, {**request_of(chosen, text), **form})
    if status != 200:
        raise typer.Exit(_told(run, server, status, body))
    sys.stdout.write(_shown(run, server, body))
    if run.exit_status and not foreign_object(body, server, _HINT).get("results"):
        raise typer.Exit(Exit.NO_RESULT)
    return True


def _shown(run: Run, server: str, body: bytes) -> str:
    """Return an answer ready to print: JSON with escapes, other text without control sequences.

    Colours pass if this command asked for them. Raises: Unavailable: the answer is not JSON, and should be.
    """
    text = body.decode("utf-8", "replace")
    if run.shared.format in ("json", "jsonl"):
        for line in [body] if run.shared.format == "json" else body.splitlines():
            value = foreign_object(line, server, _HINT)
            if run.shared.format == "json" and not isinstance(value.get("results"), list):
                raise Unavailable(f"the answer of {server} lacks a list of results", hint=_HINT)
        return escaped_json(text)
    if run.shared.format == "csv":
        return _csv(text, server)
    passing = _COLOURS.findall(text) if run.shared.page.styled else ()
    return "".join(part if part in passing else printable(part, "\n\t") for part in _CONTROLS.split(text))


def _csv(text: str, server: str) -> str:
    """Return rows whose cells are no formulas. Raises: Unavailable: it is not CSV."""
    from retrieve_cli.output.formats import csv_cell

    out = io.StringIO()
    csv.field_size_limit(_LONGEST)
    rows = csv.writer(out)
    try:
        for row in csv.reader(io.StringIO(text, newline="")):
            rows.writerow(cell if _NUMBER.fullmatch(cell) else csv_cell(cell) for cell in row)
    except csv.Error as error:
        raise Unavailable(f"the answer of {server} is not CSV ({error})", hint=_HINT) from error
    return out.getvalue()


def _expect_elsewhere(run: Run, chosen: Mapping[str, Any]) -> None:
    """Raises: UsageError: a flag is about this machine or this process, and not about the query."""
    local = [row.flag for row in SEARCH.flagged if LOCAL in row.doors and row.chosen in chosen]
    others = {
        "- and --stream": run.shape.batch,
        "--exit-status without --json": run.exit_status and run.shared.format != "json",
        f"--format {run.shared.format}": run.shared.format not in _FORMATS,
    }
    for flag in (*local, *(flag for flag, value in others.items() if value)):
        raise UsageError(f"{flag} does not go with --server URL", hint="remove it, or ask an index of this machine")


def request_of(chosen: Mapping[str, Any], text: str) -> dict[str, Json]:
    """Return the flags of a call as a request; the server decides everything else."""
    sent = SEARCH.of_json.values()
    return {"query": text, **{row.name: chosen[row.chosen] for row in sent if row.flags and row.chosen in chosen}}


def _asked(run: Run, server: str, request: Mapping[str, Json]) -> tuple[int, bytes]:
    from retrieve_cli.http.limits import Clock, HttpFailed, TransientFailure, limit_size
    from retrieve_cli.http.secrets import Secret, read_key
    from retrieve_cli.http.transport import HttpRequest, Redirect, Transport

    key = read_key(run.settings.query.api_key_env)
    page = run.shared.page
    form, color = run.shared.format, str(page.styled and run.shared.color is not Color.never).lower()
    url = f"{server.rstrip('/')}/search"
    if form != "json":
        url += f"?format={form}&width={page.width}&color={color}&explain={str(run.shape.explain).lower()}"

    def follow(_: Redirect) -> str:
        raise UsageError(f"{server} leads to another address", hint="name that address: --server URL")

    def too_large() -> Exception:
        return Unavailable(f"the answer of {server} is larger than {_LONGEST:,} bytes", hint="ask for fewer results")

    transport = Transport(server, called="query.server", follow=follow)
    body = json.dumps(request, ensure_ascii=False).encode()
    headers = {"Content-Type": "application/json"}
    try:
        authorization = None if key is None else Secret(key.bearer)
        with transport.open(HttpRequest(url, headers, body, authorization), Clock(_PATIENCE_S, _PATIENCE_S)) as reply:
            return reply.status, b"".join(limit_size(reply.decoded(), _LONGEST, too_large))
    except (TransientFailure, HttpFailed) as error:
        raise Unavailable(f"{server} does not answer: {error}", hint="is it running? retrieve serve") from error
    finally:
        transport.close()


def _told(run: Run, server: str, status: int, body: bytes) -> int:
    """Print the error of a server as this command prints its own; return its exit code."""
    try:
        said = foreign_json(body)
        error = said["error"]
        code, kind, message, hint = error["code"], *(printable(str(error[key])) for key in ("kind", "message", "hint"))
    except (ValueError, KeyError, TypeError, IndexError):
        message = f"{server} answered with status {status}"
        return run.shared.talk.error(Exit.ERROR, "error", message, _HINT)
    return run.shared.talk.error(int(code) if code in tuple(Exit) else Exit.ERROR, kind, message, hint)
