"""Approved definitions of tools, in the user's state: a server may change a tool after the user agreed to it.

    $XDG_STATE_HOME/retrieve/tools/<digest of the server>.json    {version, server, tools: {name: definition}}

The first list of a server is approved with the server. A tool that is new or different later is marked until the user
has seen the difference (`retrieve trust`). The index cannot hold approvals: it is data from anywhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path

from retrieve_cli.config.trust import state_file
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.tools import digest_of
from retrieve_cli.errors import UsageError, unwritable

_VERSION = 1
_LARGEST = 64 << 20
"""Bytes of a file of definitions."""
PINNED = ("description", "inputSchema")
"""Keys of a definition that are pinned, beside its name."""
_CONTEXT = 2
"""Unchanged lines around a change that is shown."""
Definitions = Mapping[str, Mapping[str, Json]]
"""Definitions of the tools of a server, by name."""


def server_place(origin: Mapping[str, Json], server: str) -> str:
    """Return the identity of a server: the file that names it, all links followed, or its command or address."""
    if typed := origin.get("command") or origin.get("url"):
        return str(typed)
    return f"{os.path.realpath(str(origin.get('path') or ''))}#{server}"


def pinned(place: str, definitions: Definitions) -> Mapping[str, str]:
    """Return the tools of a server that the user has not approved: `changed`, or `new`. The first list that is seen of
    a server is approved.

    Raises:
        RetrieveError: the folder of the user's state cannot be written.
    """
    before = approved(place)
    if before is None:
        approve(place, definitions)
        return {}
    marks = {}
    for name, definition in definitions.items():
        if name not in before:
            marks[name] = "new"
        elif is_changed(before[name], definition):
            marks[name] = "changed"
    return marks


def approved(place: str) -> Definitions | None:
    """Return the approved definitions of a server; None if it was never seen, and none if its file is damaged."""
    from retrieve_cli.untrusted.files import read_text

    try:
        state = json.loads(read_text(_file(place), limit=_LARGEST))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, UsageError):
        return {}
    tools = state.get("tools") if isinstance(state, dict) and state.get("version") == _VERSION else None
    return tools if isinstance(tools, dict) else {}


def approve(place: str, definitions: Definitions) -> None:
    """Keep definitions as approved, beside the approved ones of the server.

    Raises:
        RetrieveError: the folder of the user's state cannot be written.
    """
    from retrieve_cli.storage import durable
    from retrieve_cli.storage.lock import hold_for_writing

    file = _file(place)
    kept = {name: {key: one[key] for key in PINNED if key in one} for name, one in definitions.items()}
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with hold_for_writing(file.with_suffix(".lock"), wait=10.0):
            state = {"version": _VERSION, "server": place, "tools": {**(approved(place) or {}), **kept}}
            durable.replace(file, json.dumps(state) + "\n", mode=0o600)
    except OSError as error:
        raise unwritable(file, error) from error


def is_changed(before: Mapping[str, Json], after: Mapping[str, Json]) -> bool:
    """Return True if two definitions of one tool differ in description or schema."""
    return _digest(before) != _digest(after)


def difference(
    name: str, before: Mapping[str, Json], after: Mapping[str, Json], sides: tuple[str, str] = ("approved", "now")
) -> Iterator[str]:
    """Yield the lines of a unified diff of two definitions of a tool; an empty one of a tool that is new."""
    old, new = _lines(before), _lines(after)
    first, second = (f"{name} ({side})" for side in sides)
    yield from unified_diff(old, new, first, second, lineterm="", n=_CONTEXT)


def _lines(definition: Mapping[str, Json]) -> Sequence[str]:
    lines = str(definition.get("description") or "").splitlines()
    schema = definition.get("inputSchema")
    return [*lines, *([] if schema is None else json.dumps(schema, indent=1, sort_keys=True).splitlines())]


def _digest(definition: Mapping[str, Json]) -> str:
    return digest_of("", str(definition.get("description") or ""), definition.get("inputSchema"))


def _file(place: str) -> Path:
    name = sha256(place.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return state_file().with_name("tools") / f"{name}.json"
