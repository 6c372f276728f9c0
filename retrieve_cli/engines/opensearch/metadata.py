"""Metadata of a generation, as a document in its home index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import orjson

from retrieve_cli.contracts.engines import Census, Part
from retrieve_cli.contracts.values import Card, Json
from retrieve_cli.engines.opensearch import documents
from retrieve_cli.engines.opensearch.server import Absent, Rejected, Server, corrupt
from retrieve_cli.errors import Unavailable


class Metadata(NamedTuple):
    """Metadata of a generation."""

    card: Card
    parts: Sequence[Part]
    lowered: Mapping[str, int] = {}
    """Number of rows with a weight of 0 or below, by part with term weights."""
    census: Census | None = None
    """None if the generation is not complete."""

    def made_like(self, other: Metadata) -> bool:
        """Return True if card and parts are the same."""
        return _json(dict(self.card)) == _json(dict(other.card)) and list(self.parts) == list(other.parts)


_SORTED = orjson.OPT_SORT_KEYS


def read_metadata(server: Server, home: str) -> Metadata | None:
    """Return the metadata of a generation; None if there is none.

    Raises:
        IndexCorrupt: it cannot be read.
    """
    try:
        stored = server.ask("GET", f"/{home}/_doc/{documents.METADATA}")["_source"]
        census = stored["census"]
        return Metadata(
            orjson.loads(stored["card"]),
            [Part(**part) for part in orjson.loads(stored["parts"])],
            orjson.loads(stored["lowered"]),
            Census(**orjson.loads(census)) if census else None,
        )
    except Absent:
        return None
    except Rejected as error:
        raise Unavailable(f"OpenSearch does not allow reading {home}: {error}", hint=_ACCESS) from error
    except (KeyError, TypeError, ValueError) as error:
        raise corrupt(home, "its metadata cannot be read") from error


def write_metadata(server: Server, home: str, metadata: Metadata) -> None:
    """Store the metadata of a generation; one that is there already is replaced. Texts of JSON keep keys and numbers
    as they are."""
    document: Json = {
        "card": _json(dict(metadata.card)),
        "parts": _json([part._asdict() for part in metadata.parts]),
        "lowered": _json(dict(metadata.lowered)),
        "census": _json(metadata.census._asdict()) if metadata.census else "",
    }
    server.store(home, [(documents.METADATA, orjson.dumps(document))])


_ACCESS = "give the user read and write access to the indexes of opensearch.index"


def _json(value: Json) -> str:
    return orjson.dumps(value, option=_SORTED).decode()
