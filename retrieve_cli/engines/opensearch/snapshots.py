"""Snapshots of a generation in a repository that the server knows."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from retrieve_cli.contracts.values import Json
from retrieve_cli.engines.opensearch.server import OpensearchServer, RequestRejected, ResourceMissing
from retrieve_cli.errors import Unavailable, UsageError, quoted

_PLACE = re.compile(r"([A-Za-z0-9_.-]{1,100})(?:/([a-z0-9][a-z0-9_.-]{0,150}))?")
_POLL_S = 0.5
_LONGEST_S = 6 * 3600.0


def take_snapshot(server: OpensearchServer, indexes: Sequence[str], *, place: str) -> str:
    """Let the server write indexes to `REPOSITORY` or `REPOSITORY/NAME`, and return a description of the snapshot.

    A snapshot of that name that has these indexes is not made again.

    Raises:
        UsageError: the place is not of that form, the repository is not registered, or another snapshot has the name.
        Unavailable: the server could not write it.
    """
    match = _PLACE.fullmatch(place)
    if match is None:
        message = (
            f"{quoted(place)} is not a place for a snapshot" if place else "a snapshot of OpenSearch needs a place"
        )
        raise UsageError(message, hint="write REPOSITORY or REPOSITORY/NAME")
    repository, name = match[1], match[2] or indexes[0]
    path = f"/_snapshot/{repository}/{name}"
    state = _state(server, path, repository=repository)
    if state is None:
        body = {"indices": ",".join(indexes), "include_global_state": False, "partial": False}
        try:
            server.ask("PUT", path, body, params={"wait_for_completion": "false"})
        except (ResourceMissing, RequestRejected) as error:
            raise Unavailable(f"OpenSearch does not write snapshot {name}: {error}", hint=_LOG) from error
        state = _ended(server, path, repository=repository)
    elif state["state"] == "IN_PROGRESS":
        state = _ended(server, path, repository=repository)
    if set(state["indices"]) != set(indexes):
        hint = f"give another name: {repository}/NAME"
        raise UsageError(f"there is another snapshot {name} in {repository}", hint=hint)
    if state["state"] != "SUCCESS":
        message = f"snapshot {name} in {repository} is {state['state'].lower()}"
        raise Unavailable(message, hint="delete it, check the log of the server, and try again")
    return f"snapshot {name} of {len(indexes)} indexes in repository {repository}"


_LOG = "check the permissions of the user and the log of the server"


def _state(server: OpensearchServer, path: str, *, repository: str) -> Json | None:
    """Return the server's description of a snapshot; None if the snapshot does not exist."""
    try:
        server.ask("GET", f"/_snapshot/{repository}")
    except ResourceMissing as error:
        hint = "register it first, with PUT _snapshot on the server"
        raise UsageError(f"OpenSearch has no snapshot repository {repository}", hint=hint) from error
    except RequestRejected as error:
        raise UsageError(f"OpenSearch makes no snapshots in {repository}: {error}", hint=_LOG) from error
    try:
        snapshots = server.ask("GET", path)["snapshots"]
    except ResourceMissing:
        return None
    except RequestRejected as error:
        raise UsageError(f"OpenSearch does not show snapshots in {repository}: {error}", hint=_LOG) from error
    return snapshots[0] if snapshots else None


def _ended(server: OpensearchServer, path: str, *, repository: str) -> Json:
    """Wait for a snapshot, and return its description."""
    deadline = time.monotonic() + _LONGEST_S
    while time.monotonic() < deadline:
        state = _state(server, path, repository=repository)
        if state is not None and state["state"] != "IN_PROGRESS":
            return state
        time.sleep(_POLL_S)
    raise Unavailable("the snapshot is still being written", hint="call again with the same place")
