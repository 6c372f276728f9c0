"""Qdrant as an engine: one collection per part of a generation, and an alias for the current generation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from retrieve_cli.config.engine_settings import QdrantSettings
from retrieve_cli.contracts.engines import Capabilities, Part, Staged
from retrieve_cli.contracts.values import Card
from retrieve_cli.engines.answers import reading
from retrieve_cli.engines.qdrant import about
from retrieve_cli.engines.qdrant.generation import QdrantGeneration
from retrieve_cli.engines.qdrant.limits import excess
from retrieve_cli.engines.qdrant.names import Names
from retrieve_cli.engines.qdrant.parts import OVERSAMPLING
from retrieve_cli.engines.qdrant.server import Server
from retrieve_cli.engines.qdrant.staging import QdrantStaging, create_part, create_record, index_payload
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, quoted

_QUANTILE = 0.8
"""Share of the numbers of vectors inside the range that is quantised; those outside are clipped to its ends. Candidates
by such vectors are rescored with the vectors before quantisation."""
_MOST_ROWS = 50_000
_OLDEST = (1, 10)
"""First version with the endpoint `points/query`."""
_PER_QUERY = ("hnsw_ef_search", "oversampling")
"""Parameters of the card that may change without sending the rows again."""
_LOCAL = ("localhost", "127.0.0.1", "::1")


@reading("Qdrant")
class QdrantEngine:
    """Qdrant 1.10 or later, by its REST interface.

    A part has a collection of its own, because a row is a record in one part and a chunk in another: points are
    numbered by row. The collection of the generation itself, without vectors, has its record and the blocks of its
    files. The alias names the first part with vectors. Distances are inner products, since Qdrant normalises vectors
    for cosine and would not return the same bits.

    Tests run searches, filters, sparse and quantised vectors, and counts in Qdrant's own core (qdrant-edge-py). The
    REST interface itself, with aliases, the status of optimizers, credentials, strict mode and snapshots, was run
    against a substitute only, which checks requests by Qdrant's published OpenAPI file.
    """

    def __init__(self, settings: QdrantSettings, *, api_key: str | None = None) -> None:
        """Prepare a connection.

        Raises:
            UsageError: the URL or the name of the collection cannot be used.
        """
        self._settings = settings
        self._names = Names(settings.collection)
        self._server = Server(settings.url, api_key=api_key, timeout_s=settings.timeout_s)

    @property
    def name(self) -> str:
        """Name in the configuration."""
        return "qdrant"

    @property
    def card(self) -> Card:
        """Parameters that decide which candidates it finds."""
        settings = self._settings
        card = {
            "engine": self.name,
            "quantize": settings.quantize,
            "hnsw_m": settings.hnsw_m,
            "hnsw_ef_construction": settings.hnsw_ef_construction,
            "hnsw_ef_search": settings.hnsw_ef_search,
        }
        return card | ({"quantile": _QUANTILE, "oversampling": OVERSAMPLING} if settings.quantize == "int8" else {})

    @property
    def capabilities(self) -> Capabilities:
        """Abilities of Qdrant."""
        return Capabilities(most_rows=_MOST_ROWS, snapshots=True)

    def stage(self, generation: str, parts: Sequence[Part]) -> QdrantStaging:
        """Begin to store a generation, or go on with one that is there."""
        names, server = self._names, self._server
        collection = names.generation(generation)
        record = about.About(dict(self.card), list(parts))
        older = about.read(server, collection)
        if older is None or _stored(older) != _stored(record):
            self.drop(generation)
            create_record(server, collection, record)
        present = set(self._collections(generation))
        for part in parts:
            if (name := names.part(generation, part.name)) not in present:
                create_part(server, name, part, card=record.card)
            index_payload(server, name, part)
        return QdrantStaging(server, names, generation, record, timeout_s=self._settings.timeout_s)

    def publish(self, generation: str) -> None:
        """Let the alias name this generation, in one request.

        Raises:
            IndexCorrupt: there is no complete generation of that id.
        """
        parts = self._complete(generation).parts
        first = sorted(parts, key=lambda part: part.dim is None)[:1]
        collection = self._names.part(generation, first[0].name) if first else self._names.generation(generation)
        alias = self._names.alias
        actions = [{"delete_alias": {"alias_name": alias}}] if self._aliased() is not None else []
        actions.append({"create_alias": {"collection_name": collection, "alias_name": alias}})
        self._server.call("POST", "/collections/aliases", body={"actions": actions})

    def live(self) -> str | None:
        """Return the generation that the alias names; None if there is none."""
        collection = self._aliased()
        return self._names.owner(collection) if collection is not None else None

    def generations(self) -> Sequence[Staged]:
        """Return all generations, complete or not, in order of id."""
        live = self.live()
        staged = []
        for generation in sorted(set(map(self._names.owner, self._collections())) - {None}, key=str):
            record = about.read(self._server, self._names.generation(str(generation)))
            complete = record is not None and record.census is not None
            staged.append(Staged(str(generation), complete=complete, live=generation == live))
        return staged

    def drop(self, generation: str) -> None:
        """Remove a generation; nothing happens if there is none."""
        # The record is in the collection with the shortest name, which goes first: without it, what an interruption
        # leaves is not taken for complete.
        collections = sorted(self._collections(generation), key=len)
        if collections and self.live() == generation:
            action = {"delete_alias": {"alias_name": self._names.alias}}
            self._server.call("POST", "/collections/aliases", body={"actions": [action]})
        for collection in collections:
            self._server.call("DELETE", f"/collections/{collection}")

    def open(self, generation: str) -> QdrantGeneration:
        """Open a generation for queries.

        Raises:
            IndexCorrupt: there is no complete generation of that id.
        """
        return QdrantGeneration(self._server, self._names, generation, ef=self._settings.hnsw_ef_search)

    def snapshot(self, generation: str, place: str) -> str:
        """Let the server write a snapshot of each collection of a generation to its folder of snapshots.

        `place` is empty or `snapshots`: the folder or bucket is configured in the server.

        Raises:
            UsageError: it is another place.
            IndexCorrupt: there is no complete generation of that id.
        """
        if place not in ("", "snapshots"):
            raise UsageError(
                f"Qdrant writes snapshots to the place that its own configuration names, not to {quoted(place)}",
                hint="name no place, or `snapshots`",
            )
        self._complete(generation)
        made = []
        for collection in sorted(self._collections(generation)):
            path = f"/collections/{collection}/snapshots"
            answer = self._server.call("POST", path, wait=True, repeatable=False, timeout_s=3600.0)
            made.append(f"{collection}: {answer['name']} ({answer['size']} bytes)")
        return "\n".join(made)

    def describe(self) -> Mapping[str, str]:
        """Return the version and the address of the server."""
        version = str(self._server.call("GET", "/").get("version", "unknown"))
        return {"server": f"Qdrant {version}", "address": self._server.address, "collection": self._names.alias}

    def problems(self) -> Sequence[tuple[str, str]]:
        """Return what keeps the server from being used, or used well, each with its fix."""
        try:
            return list(self._problems())
        except Unavailable as error:
            return [(error.message, error.hint)]

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def _problems(self) -> Iterator[tuple[str, str]]:
        version = str(self._server.call("GET", "/").get("version", ""))
        if _numbers(version) < _OLDEST:
            yield f"Qdrant {version} has no endpoint points/query", "install Qdrant 1.10 or later"
        server = self._server
        if server.has_key and not server.encrypted and server.host not in _LOCAL:
            yield f"the API key is sent to {server.host} without encryption", "use https:// in qdrant.url"
        collections = self._collections()
        if self._names.alias in collections:
            fix = "change qdrant.collection, or remove that collection"
            yield f"there is a collection {self._names.alias}, so that no alias can have this name", fix
        ours = [collection for collection in collections if self._names.owner(collection)]
        for collection in ours[:1]:
            config = server.call("GET", f"/collections/{collection}")["config"]
            yield from excess(config.get("strict_mode_config") or {}, self._settings, most_rows=_MOST_ROWS)

    def _complete(self, generation: str) -> about.About:
        record = about.read(self._server, self._names.generation(generation))
        if record is None or record.census is None:
            message = f"Qdrant has no complete generation {generation} of {self._names.alias}"
            raise IndexCorrupt(message, hint="run `retrieve engines push`")
        return record

    def _collections(self, generation: str | None = None) -> list[str]:
        """Return the names of all collections on the server, or of those of a generation."""
        names = [str(each["name"]) for each in self._server.call("GET", "/collections")["collections"]]
        return [name for name in names if generation is None or self._names.owner(name) == generation]

    def _aliased(self) -> str | None:
        aliases = self._server.call("GET", "/aliases")["aliases"]
        named = [str(each["collection_name"]) for each in aliases if each["alias_name"] == self._names.alias]
        return named[0] if named else None


def _stored(record: about.About) -> tuple[Card, list[Part]]:
    """Return what decides if stored rows can be kept."""
    return {key: value for key, value in record.card.items() if key not in _PER_QUERY}, list(record.parts)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; (0, 0) if it has others."""
    numbers = version.split(".")[:2]
    return tuple(map(int, numbers)) if all(number.isdecimal() for number in numbers) else (0, 0)
