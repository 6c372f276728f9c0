"""`POST /retrieve`: passages for a program that writes an answer from them, and the same as one numbered context."""

from __future__ import annotations

from retrieve_cli.api.asked import ALIASES, FIELDS, schema
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.output.passages import passages_json
from retrieve_cli.serving.shapes.body import Body
from retrieve_cli.serving.shapes.shape import Read, asked_of

_OMITTED = ("chunks", "dependencies", "expand", "explain", "facets", "id", "offset")
"""Keys of a search that have no meaning here: passages are chunks, and nothing else is returned."""
_FIELDS = [key for key in FIELDS if key not in _OMITTED]
_KEYS = [*_FIELDS, *(alias for alias, key in ALIASES.items() if key in _FIELDS)]
_TOP_K = {"top_k": {**FIELDS["limit"].schema, "description": "Number of passages."}}
_REQUEST = schema(_FIELDS)
SCHEMA: dict[str, Json] = {**_REQUEST, "properties": {**_REQUEST["properties"], **_TOP_K}}


def read(payload: Json, tenant: str | None, settings: Settings) -> Read:
    """Return a request. Raises: UsageError."""
    del settings
    Body(payload, _KEYS)
    return Read(asked_of({**payload, "chunks": True}, tenant), passages_json)
