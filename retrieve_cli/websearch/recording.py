"""Recordings of exchanges with a provider, in the form of the files that the fakes of the tests answer from.

The files in `tests/websearch/providers` follow the documentation of the providers. Anybody who has keys can replace
one by a recording: `retrieve web record --provider pubmed --to tests/websearch/providers "query"`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Call, Fetch, Provider, Response, WebQuery
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.http.secrets import Secret, hide
from retrieve_cli.storage import durable
from retrieve_cli.untrusted.files import read_text

_SHORTEST_HIDDEN = 4
"""Characters of the shortest credential that is hidden; a shorter one would occur in other words."""
_MAX_OLD = 50_000_000
"""Bytes of the largest earlier file that is read."""


def record(
    provider: Provider,
    query: WebQuery,
    fetch: Fetch,
    *,
    documentation: Sequence[str] = (),
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> dict[str, Json]:
    """Ask a provider and return its exchanges unchanged but for credentials and contact addresses, which are removed.

    `documentation` lists addresses that describe the provider's interface.

    Raises:
        ProviderFailed: there is no answer, or it cannot be read: nothing is recorded.
        UsageError: an answer is not text in UTF-8.
    """
    exchanges: list[tuple[Call, Response]] = []

    def keeping(call: Call, *, accept: Sequence[int] = (200,)) -> Response:
        response = fetch(call, accept=accept)
        exchanges.append((call, response))
        return response

    provider.search(query, keeping)
    used = {key.variable for call, _ in exchanges for key in call.keys}
    values = (os.environ.get(name, "").strip() for name in sorted(used.union(need.variable for need in provider.needs)))
    secrets = [Secret(value) for value in values if len(value) >= _SHORTEST_HIDDEN]
    return {
        "provider": provider.name,
        "documentation": list(documentation),
        "recorded": now().date().isoformat(),
        "query": {"text": query.text, "k": query.k, "since": query.since, "categories": list(query.categories)},
        "exchanges": [
            {"request": _request(call, secrets), "response": _response(response, secrets)}
            for call, response in exchanges
        ],
    }


def write(recording: Mapping[str, Json], folder: Path) -> Path:
    """Write a recording to `<provider>.json` in a folder, in one step, and return the path. A file that is there is
    replaced; its list of documentation stays if the recording has none.

    Raises:
        UsageError: the folder does not exist, the provider's name is not a file name, or the file cannot be written.
    """
    name = str(recording["provider"])
    if not name or name.startswith(".") or Path(name).name != name:
        raise UsageError(f"the provider's name {quoted(name)} is not a file name", hint="rename it in its plug-in")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint=f"create it: mkdir -p {folder}")
    path = folder / f"{name}.json"
    value = {**recording, "documentation": recording["documentation"] or _documentation(path)}
    try:
        durable.replace(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        hint = "free disk space, fix the permissions, or name another folder"
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint=hint) from None
    return path


def _documentation(path: Path) -> list[str]:
    """Return the list of documentation of an earlier file; empty if it cannot be read."""
    try:
        value = json.loads(read_text(path, limit=_MAX_OLD))
    except (OSError, ValueError, RecursionError):
        return []
    listed = value.get("documentation") if isinstance(value, dict) else None
    return [entry for entry in listed if isinstance(entry, str)] if isinstance(listed, list) else []


def _request(call: Call, secrets: Sequence[Secret]) -> Json:
    return {
        "method": "GET" if call.body is None else "POST",
        "url": call.url,
        "parameters": {name: hide(value, secrets) for name, value in call.parameters.items()},
        "body": None if call.body is None else hide(call.body.decode("utf-8"), secrets),
    }


def _response(response: Response, secrets: Sequence[Secret]) -> Json:
    try:
        text = hide(response.body.decode("utf-8"), secrets)
    except UnicodeDecodeError:
        hint = "record another query, or keep the file from the documentation"
        raise UsageError("an answer cannot be recorded: it is not text in UTF-8", hint=hint) from None
    return {"status": response.status, "content_type": response.content_type, "headers": {}, "body": _readable(text)}


def _readable(text: str) -> Json:
    """Return JSON as a value if that keeps it the same, so that a file shows it; else the text."""
    try:
        value = json.loads(text)
        same = isinstance(value, dict | list) and json.loads(json.dumps(value, allow_nan=False)) == value
    except (ValueError, RecursionError):
        return text
    return value if same else text
