"""Record of a generation in Qdrant: its card, parts, and census, and blocks of its files."""

from __future__ import annotations

import uuid
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retrieve_cli.contracts.engines import Census, Part
from retrieve_cli.contracts.values import Card, Json
from retrieve_cli.engines.qdrant.server import Missing, Server
from retrieve_cli.errors import IndexCorrupt

_RECORD = 0
"""Id of the point with the record; blocks have UUIDs."""
_BLOCKS = uuid.UUID("6f1d1e5c-6a2c-5f0e-9d7e-2f4c1b7a9e10")
"""Namespace of the ids of blocks."""


class About(NamedTuple):
    """Record of a generation."""

    card: Card
    parts: Sequence[Part]
    census: Census | None = None
    """Its census; None until everything was sent."""


def read(server: Server, collection: str) -> About | None:
    """Return the record in a generation's collection; None if there is none."""
    body = {"ids": [_RECORD], "with_payload": True, "with_vector": False}
    try:
        points = server.call("POST", f"/collections/{collection}/points", body=body)
    except Missing:
        return None
    if not points:
        return None
    payload = points[0]["payload"]
    try:
        census = payload["census"]
        return About(payload["card"], [Part(*part) for part in payload["parts"]], Census(*census) if census else None)
    except (KeyError, TypeError) as error:
        raise IndexCorrupt(f"the record of {collection} cannot be read", hint="run `retrieve engines push`") from error


def write(server: Server, collection: str, about: About) -> None:
    """Replace the record, and wait until it can be read."""
    payload: Mapping[str, Json] = {
        "card": about.card,
        "parts": [list(part) for part in about.parts],
        "census": list(about.census) if about.census else None,
    }
    server.call("PUT", f"/collections/{collection}/points", body=_points(_RECORD, payload), wait=True)


def put_block(server: Server, collection: str, file: str, number: int, data: bytes) -> None:
    """Store a block of a file."""
    payload = {"file": file, "number": number, "data": b64encode(data).decode()}
    server.call("PUT", f"/collections/{collection}/points", body=_points(_block(file, number), payload), wait=False)


def block(server: Server, collection: str, file: str, number: int) -> bytes:
    """Return a block of a file. Raises: IndexCorrupt: it is not there."""
    body = {"ids": [_block(file, number)], "with_payload": ["data"], "with_vector": False}
    points = server.call("POST", f"/collections/{collection}/points", body=body)
    if not points:
        message = f"block {number} of the file {file} is missing in the collection {collection}"
        raise IndexCorrupt(message, hint="run `retrieve engines push`")
    return b64decode(points[0]["payload"]["data"])


def _block(file: str, number: int) -> str:
    return str(uuid.uuid5(_BLOCKS, f"{number}:{file}"))


def _points(id: int | str, payload: Json) -> Json:  # noqa: A002  the name in Qdrant
    return {"points": [{"id": id, "vector": {}, "payload": payload}]}
