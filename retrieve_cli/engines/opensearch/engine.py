"""OpenSearch as an engine: one index per part of a generation, and an alias for the current generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import orjson

from retrieve_cli.config.index_settings import HNSW_EF_CONSTRUCTION, HNSW_EF_SEARCH, HNSW_M
from retrieve_cli.contracts.engines import Batch, Capabilities, Part
from retrieve_cli.contracts.values import Card, Json
from retrieve_cli.engines.collections import CollectionLifeCycle, reading
from retrieve_cli.engines.lifecycle import GenerationRecord
from retrieve_cli.engines.opensearch import documents
from retrieve_cli.engines.opensearch.collections import IndexReader, OpensearchTerms, OpensearchVectors
from retrieve_cli.engines.opensearch.server import (
    OpensearchServer,
    RequestRejected,
    ResourceMissing,
    corrupt,
    require_vectors,
    server_problems,
)
from retrieve_cli.errors import IndexCorrupt, Unavailable

if TYPE_CHECKING:
    from retrieve_cli.config.index_settings import OpensearchSettings


_REFRESHED_WITHIN = 600.0
"""Seconds for making all rows visible, which builds graphs of vectors."""


@reading("OpenSearch")
class OpensearchEngine(CollectionLifeCycle):
    """OpenSearch 2.16 or later.

    A generation is one index per part, and a home index with its record. The alias `chunks`
    names the first part whose rows are chunks, which has titles and texts that can be searched as `title^2 content^1`.

    Tested against osmem-server 0.1.6, an independent implementation of the API of OpenSearch 3.8 (everything but
    vectors), and against noida-db 0.2.3, one of the API of Elasticsearch 8.15, through a translation of
    the requests that differ (vectors).
    """

    name = "opensearch"
    product = "OpenSearch"

    def __init__(self, settings: OpensearchSettings, *, user: str | None = None, password: str | None = None) -> None:
        self._settings = settings
        self._names = documents.OpensearchNames(settings.index)
        self._server = OpensearchServer(settings, user=user, password=password)

    @property
    def card(self) -> Card:
        """Parameters that decide which candidates it finds."""
        return {
            "engine": self.name,
            "features": "rank_features",
            "vectors": "lucene hnsw",
            "m": HNSW_M,
            "ef_construction": HNSW_EF_CONSTRUCTION,
            "ef_search": HNSW_EF_SEARCH,
            "shards": 1,
        }

    @property
    def capabilities(self) -> Capabilities:
        """Abilities of OpenSearch."""
        return Capabilities(most_rows=documents.MOST_TERMS)

    def begin(self, wanted: GenerationRecord) -> None:
        """Create the indexes of a generation. Raises: Unavailable: the server cannot hold vectors."""
        if any(part.dim is not None for part in wanted.parts):
            require_vectors(self._server)
        super().begin(wanted)

    def collections(self) -> Mapping[str, Sequence[str]]:
        """Return indexes by generation."""
        return self._names.grouped(list(self._indexes()))

    def create_home(self, generation: str) -> None:
        """Create the index with the record."""
        self._create(self._names.home(generation), documents.HOME)

    def create_parts(self, record: GenerationRecord) -> None:
        """Create the indexes of parts."""
        main = documents.principal(record.parts)
        for part in record.parts:
            mapping = documents.mapping(part, with_text=part == main)
            settings = {"index": documents.index_settings(part)}
            self._create(self._names.part(record.generation, part.name), {"settings": settings, "mappings": mapping})

    def drop_collection(self, collection: str) -> None:
        """Remove an index."""
        try:
            self._server.ask("DELETE", f"/{collection}")
        except ResourceMissing:
            return
        except RequestRejected as error:
            hint = "give the user the right to delete its indexes"
            raise Unavailable(f"OpenSearch does not drop {collection}: {error}", hint=hint) from error

    def record(self, generation: str) -> GenerationRecord | None:
        """Return the record of a generation; None if it does not exist. Raises: IndexCorrupt: it cannot be read."""
        home = self._names.home(generation)
        try:
            stored = self._server.ask("GET", f"/{home}/_doc/{documents.METADATA}")["_source"]
            return GenerationRecord(
                generation,
                [Part(**part) for part in orjson.loads(stored["parts"])],
                stored["complete"],
            )
        except ResourceMissing:
            return None
        except RequestRejected as error:
            raise Unavailable(f"OpenSearch does not allow reading {home}: {error}", hint=_ACCESS) from error
        except (KeyError, TypeError, ValueError) as error:
            raise corrupt(home, "its metadata cannot be read") from error

    def put_record(self, record: GenerationRecord) -> None:
        """Store the record of a generation, as a text of JSON, which preserves keys and numbers."""
        document: Json = {
            "parts": _json([part._asdict() for part in record.parts]),
            "complete": record.complete,
        }
        self._server.store(self._names.home(record.generation), [(documents.METADATA, orjson.dumps(document))])

    def set_alias(self, record: GenerationRecord) -> None:
        """Let the alias name the first index whose rows are chunks, in one request."""
        names, generation = self._names, record.generation
        main = documents.principal(record.parts)
        target = names.part(generation, main.name) if main else names.home(generation)
        older = [index for index, aliases in self._indexes().items() if names.prefix in aliases and index != target]
        actions: list[Json] = [{"remove": {"index": index, "alias": names.prefix}} for index in older]
        actions.append({"add": {"index": target, "alias": names.prefix}})
        try:
            self._server.ask("POST", "/_aliases", {"actions": actions})
        except ResourceMissing as error:
            raise corrupt(names.home(generation), error) from error
        except RequestRejected as error:
            message = f"OpenSearch does not set the alias {names.prefix}: {error}"
            raise Unavailable(message, hint="remove the index of that name, or edit opensearch.index") from error

    def drop_alias(self) -> None:
        """Do nothing: aliases of an index end with it."""

    def live(self) -> str | None:
        """Return the generation that the alias names; None if there is no alias."""
        live = [index for index, aliases in self._indexes().items() if self._names.prefix in aliases]
        return self._names.owner(live[0]) if live else None

    def put_rows(self, record: GenerationRecord, part: Part, batch: Batch) -> None:
        """Store rows as documents."""
        lines = documents.documents(part, batch, with_text=part == documents.principal(record.parts))
        self._server.store(self._names.part(record.generation, part.name), lines)

    def settle(self, record: GenerationRecord) -> None:
        """Make everything that was stored visible to searches."""
        for index in self._all(record):
            try:
                answer = self._server.ask("POST", f"/{index}/_refresh", timeout=_REFRESHED_WITHIN)
            except (ResourceMissing, RequestRejected) as error:
                raise corrupt(index, error) from error
            if answer["_shards"]["failed"]:
                raise IndexCorrupt(f"a shard of {index} failed", hint="check the log of the server, and push again")

    def count(self, record: GenerationRecord, part: Part) -> int:
        """Return the number of rows of a part."""
        return self._reader(record.generation, part.name).count()

    def collection(self, record: GenerationRecord, part: Part) -> OpensearchVectors | OpensearchTerms:
        """Return the rows of a part."""
        reader = self._reader(record.generation, part.name)
        if part.dim is None:
            return OpensearchTerms(reader)
        return OpensearchVectors(reader, ef_search=HNSW_EF_SEARCH)

    def describe(self) -> Mapping[str, str]:
        """Return version, plugins and address of the server."""
        return {
            "address": self._server.address,
            "version": str(self._server.version()),
            "alias": self._names.prefix,
        }

    def faults(self) -> Sequence[tuple[str, str]]:
        """Return what keeps the server from being used, or used well, each with its fix."""
        return server_problems(self._server)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _all(self, record: GenerationRecord) -> list[str]:
        """Return all indexes of a generation, its home first."""
        parts = [self._names.part(record.generation, part.name) for part in record.parts]
        return [self._names.home(record.generation), *parts]

    def _reader(self, generation: str, part: str) -> IndexReader:
        return IndexReader(self._server, self._names.part(generation, part))

    def _create(self, index: str, body: Json) -> None:
        try:
            self._server.ask("PUT", f"/{index}", body)
        except RequestRejected as error:
            hint = "run: retrieve doctor"
            raise Unavailable(f"OpenSearch does not create the index {index}: {error}", hint=hint) from error

    def _indexes(self) -> Mapping[str, Sequence[str]]:
        try:
            answer = self._server.ask("GET", f"/{self._names.prefix}-*/_alias")
        except ResourceMissing:
            return {}
        except RequestRejected as error:
            hint = "give the user the right to list the indexes of opensearch.index"
            raise Unavailable(f"OpenSearch does not list indexes: {error}", hint=hint) from error
        return {index: list(facts["aliases"]) for index, facts in answer.items() if self._names.owner(index)}


_ACCESS = "give the user read and write access to the indexes of opensearch.index"


def _json(value: Json) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
