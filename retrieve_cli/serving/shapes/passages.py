"""`POST /retrieve`: passages for a program that writes an answer from them, and the same as one numbered context."""

from __future__ import annotations

from retrieve_cli.api.choices import SEARCH
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.output.passages import passages_json
from retrieve_cli.serving.shapes.shape import Read, asked_of

_OMITTED = ("chunks", "dependencies", "expand", "explain", "facets", "id", "offset")
"""Keys of a search that have no meaning here: passages are chunks, and nothing else is returned."""
_NAMES = [name for name in SEARCH.of_json if name not in _OMITTED]
_TOP_K = {"top_k": {**SEARCH.rows["limit"].schema, "description": "Number of passages."}}
_REQUEST = SEARCH.schema(_NAMES)
SCHEMA: dict[str, Json] = {**_REQUEST, "properties": {**_REQUEST["properties"], **_TOP_K}}


def read(payload: Json, tenant: str | None, settings: Settings) -> Read:
    """Return a request. Raises: UsageError."""
    del settings
    SEARCH.spelt(payload, "the body", among=_NAMES)
    return Read(asked_of({**payload, "chunks": True}, tenant), passages_json)
