"""OpenSearch as an engine."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts.engines import (
    Capabilities,
    Census,
    EngineGeneration,
    Part,
    Staged,
    Staging,
    TermCollection,
    VectorCollection,
)
from retrieve_cli.contracts.values import Card, Json
from retrieve_cli.engines.answers import reading
from retrieve_cli.engines.opensearch import documents
from retrieve_cli.engines.opensearch.checks import require_vectors, server_problems
from retrieve_cli.engines.opensearch.collections import IndexReader, OpensearchTerms, OpensearchVectors
from retrieve_cli.engines.opensearch.metadata import Metadata, read_metadata, write_metadata
from retrieve_cli.engines.opensearch.server import Absent, Rejected, Server, corrupt
from retrieve_cli.engines.opensearch.snapshots import take_snapshot
from retrieve_cli.engines.opensearch.staging import OpensearchStaging
from retrieve_cli.errors import IndexCorrupt, Unavailable

if TYPE_CHECKING:
    from retrieve_cli.config.engine_settings import OpensearchSettings


@reading("OpenSearch")
class OpensearchEngine:
    """OpenSearch 2.16 or later.

    A generation is one index per part, and a home index with its metadata and the blocks of files. The alias
    `chunks` names the first part whose rows are chunks, which has titles and texts that can be searched as
    `title^2 content^1`; each part has an alias of its own, such as `chunks-lexical`. All aliases move with one request.

    Tested against osmem-server 0.1.6, an independent implementation of the API of OpenSearch 3.8 (everything but
    vectors and snapshots), and against noida-db 0.2.3, one of the API of Elasticsearch 8.15, through a translation of
    the requests that differ (vectors, snapshots). The requests of vectors follow the documentation of the k-NN plugin
    and were not run against the plugin itself. Scores and rounding of rank features are compared with Lucene's.
    """

    def __init__(self, settings: OpensearchSettings, *, user: str | None = None, password: str | None = None) -> None:
        self._settings = settings
        self._names = documents.Names(settings.index)
        self._server = Server(settings, user=user, password=password)

    @property
    def name(self) -> str:
        return "opensearch"

    @property
    def card(self) -> Card:
        settings = self._settings
        return {
            "engine": self.name,
            "features": "rank_features",
            "vectors": "lucene hnsw",
            "m": settings.hnsw_m,
            "ef_construction": settings.hnsw_ef_construction,
            "ef_search": settings.hnsw_ef_search,
            "shards": settings.shards,
        }

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(most_rows=documents.MOST_TERMS, snapshots=True)

    def stage(self, generation: str, parts: Sequence[Part]) -> Staging:
        home = self._names.home(generation)
        if any(part.dim is not None for part in parts):
            require_vectors(self._server)
        wanted = Metadata(self.card, list(parts))
        stored = read_metadata(self._server, home)
        if stored is None or not stored.made_like(wanted):
            self.drop(generation)
            self._create(home, documents.HOME)
            write_metadata(self._server, home, wanted)
            stored = wanted
        main = documents.principal(parts)
        for part in parts:
            mapping = documents.mapping(self._settings, part, with_text=part == main)
            settings = {"index": documents.index_settings(self._settings, part)}
            self._create(self._names.part(generation, part.name), {"settings": settings, "mappings": mapping})
        return OpensearchStaging(self._server, self._names, generation, stored._replace(census=None))

    def publish(self, generation: str) -> None:
        metadata = self._complete(generation)
        main = documents.principal(metadata.parts)
        targets = {self._names.alias(part.name): self._names.part(generation, part.name) for part in metadata.parts}
        targets[self._names.prefix] = targets[self._names.alias(main.name)] if main else self._names.home(generation)
        actions: list[Json] = [
            {"remove": {"index": index, "alias": alias}}
            for index, aliases in self._indexes().items()
            for alias in aliases
            if targets.get(alias) != index and self._names.owns(alias)
        ]
        actions += [{"add": {"index": index, "alias": alias}} for alias, index in targets.items()]
        try:
            self._server.ask("POST", "/_aliases", {"actions": actions})
        except Absent as error:
            raise corrupt(self._names.home(generation), error) from error
        except Rejected as error:
            message = f"OpenSearch does not set the alias {self._names.prefix}: {error}"
            raise Unavailable(message, hint="remove the index of that name, or edit opensearch.index") from error

    def live(self) -> str | None:
        live = [index for index, aliases in self._indexes().items() if self._names.prefix in aliases]
        return self._names.generation(live[0]) if live else None

    def generations(self) -> Sequence[Staged]:
        indexes = self._indexes()
        live = {self._names.generation(index) for index, aliases in indexes.items() if self._names.prefix in aliases}
        staged = []
        for generation in sorted({self._names.generation(index) or "" for index in indexes}):
            try:
                metadata = read_metadata(self._server, self._names.home(generation))
            except IndexCorrupt:
                metadata = None
            complete = metadata is not None and metadata.census is not None
            staged.append(Staged(generation, complete, generation in live))
        return staged

    def drop(self, generation: str) -> None:
        home = self._names.home(generation)
        indexes = [index for index in self._indexes() if self._names.generation(index) == generation]
        # The home index goes first: without metadata the rest is a leftover that the next run drops.
        for index in sorted(indexes, key=lambda index: index != home):
            try:
                self._server.ask("DELETE", f"/{index}")
            except Absent:
                continue
            except Rejected as error:
                hint = "give the user the right to delete its indexes"
                raise Unavailable(f"OpenSearch does not drop {index}: {error}", hint=hint) from error

    def open(self, generation: str) -> EngineGeneration:
        return OpensearchGeneration(self._server, self._names, generation, self._complete(generation), self._settings)

    def snapshot(self, generation: str, place: str) -> str:
        metadata = self._complete(generation)
        indexes = [self._names.home(generation)]
        indexes += [self._names.part(generation, part.name) for part in metadata.parts]
        return take_snapshot(self._server, indexes, place=place)

    def describe(self) -> Mapping[str, str]:
        plugins = self._server.plugins()
        return {
            "address": self._server.address,
            "version": str(self._server.version()),
            "plugins": "unknown" if plugins is None else ", ".join(sorted(plugins)) or "none",
            "alias": self._names.prefix,
        }

    def problems(self) -> Sequence[tuple[str, str]]:
        return server_problems(self._server, self._names)

    def close(self) -> None:
        self._server.close()

    def _create(self, index: str, body: Json) -> None:
        """Create an index, unless it is there."""
        try:
            self._server.ask("PUT", f"/{index}", body)
        except Rejected as error:
            if self._exists(index):
                return
            hint = "run: retrieve doctor"
            raise Unavailable(f"OpenSearch does not create the index {index}: {error}", hint=hint) from error

    def _exists(self, index: str) -> bool:
        try:
            self._server.ask("GET", f"/{index}/_settings")
        except (Absent, Rejected):
            return False
        return True

    def _complete(self, generation: str) -> Metadata:
        """Return the metadata of a complete generation. Raises: IndexCorrupt: there is none."""
        metadata = read_metadata(self._server, self._names.home(generation))
        if metadata is None or metadata.census is None:
            state = "not in OpenSearch" if metadata is None else "not complete in OpenSearch"
            raise IndexCorrupt(f"generation {generation} is {state}", hint="run: retrieve engines push")
        return metadata

    def _indexes(self) -> Mapping[str, Sequence[str]]:
        """Return our indexes with their aliases."""
        try:
            answer = self._server.ask("GET", f"/{self._names.prefix}-*/_alias")
        except Absent:
            return {}
        except Rejected as error:
            hint = "give the user the right to list the indexes of opensearch.index"
            raise Unavailable(f"OpenSearch does not list indexes: {error}", hint=hint) from error
        return {index: list(facts["aliases"]) for index, facts in answer.items() if self._names.generation(index)}


@reading("OpenSearch")
class OpensearchGeneration:
    """A complete generation, open for queries."""

    def __init__(
        self,
        server: Server,
        names: documents.Names,
        generation: str,
        metadata: Metadata,
        settings: OpensearchSettings,
    ) -> None:
        self._server = server
        self._names = names
        self._generation = generation
        self._metadata = metadata
        self._ef_search = settings.hnsw_ef_search

    @property
    def census(self) -> Census:
        census = self._metadata.census
        if census is None:
            raise corrupt(self._names.home(self._generation), "it has no census")
        return census

    def count(self, part: str) -> int:
        return self._opened(part)[0].count({"match_all": {}})

    def vectors(self, part: str) -> VectorCollection:
        return OpensearchVectors(*self._opened(part), ef_search=self._ef_search)

    def terms(self, part: str) -> TermCollection:
        return OpensearchTerms(*self._opened(part), lowered=self._metadata.lowered.get(part, 0) > 0)

    def block(self, file: str, number: int) -> bytes:
        home = self._names.home(self._generation)
        try:
            stored = self._server.ask("GET", f"/{home}/_doc/{documents.block_id(file, number)}")
        except (Absent, Rejected) as error:
            raise corrupt(home, f"block {number} of {file} is missing") from error
        return base64.b64decode(stored["_source"]["data"])

    def close(self) -> None:
        """The connections belong to the engine."""

    def _opened(self, part: str) -> tuple[IndexReader, Part]:
        """Return a reader of a part. Raises: IndexCorrupt: the generation does not have that part."""
        index = self._names.part(self._generation, part)
        description = next((known for known in self._metadata.parts if known.name == part), None)
        if description is None:
            raise corrupt(index)
        return IndexReader(self._server, index), description
