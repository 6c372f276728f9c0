"""Milvus as an engine: one collection per part of a generation, and an alias for the current generation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts.engines import Capabilities, Census, Part
from retrieve_cli.engines.collections import CollectionLifeCycle, Names
from retrieve_cli.engines.lifecycle import PUSH, GenerationRecord, OpenGeneration
from retrieve_cli.engines.milvus.entities import SMALL, MilvusBlocks, entities_of, field_of, index_of, schema_of
from retrieve_cli.engines.milvus.parts import WEIGHTS, MilvusTerms, MilvusVectors
from retrieve_cli.engines.milvus.server import MilvusServer
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from retrieve_cli.config.index_settings import MilvusSettings
    from retrieve_cli.contracts.engines import Batch
    from retrieve_cli.contracts.values import Card

_FORMAT = 1
"""Version of the layout of collections."""
_MOST_ROWS = 4000
"""Rows to which a search can be restricted: 0.05 s for 4,000 numbers, 0.2 s for 10,000, 0.01 s for a condition."""
_OLDEST = (2, 3)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,149}")
"""Milvus allows 255 characters; the rest is for the generation and the part."""
_BYTES = 8 * 2**20
"""About the size of one call; a server accepts 64 MiB."""
_MOST_ENTITIES = 1000


class MilvusEngine(CollectionLifeCycle):
    """Milvus as an engine: dense vectors with HNSW or exhaustive search, and term weights as sparse vectors.

    Rows are sent with `upsert`, so that a call that the client repeats, or a batch that is sent again, cannot store a
    row twice: Milvus accepts two rows with one primary key.

    Its tests run against a real server 2.3.5 (vectors, filters, aliases; it has no sparse vectors) and against Milvus
    Lite 3.2.2 in this process (vectors and sparse vectors). No server of 2.4 or later, and no cluster, was tried.
    """

    name = "milvus"
    product = "Milvus"
    per_query = ("ef_search",)

    def __init__(self, settings: MilvusSettings, *, token: str | None = None) -> None:
        if not _NAME.fullmatch(settings.collection):
            hint = "set milvus.collection to letters, digits and `_`, for example: chunks"
            raise UsageError(f"{quoted(settings.collection)} cannot be the name of a Milvus collection", hint=hint)
        self._settings = settings
        self._names = Names(settings.collection)
        self._server = MilvusServer(settings, token)
        self._homes: dict[str, MilvusBlocks] = {}

    @property
    def card(self) -> Card:
        """Parameters that decide which candidates it finds."""
        card: dict[str, Any] = {"engine": self.name, "metric": "ip", "type": "float32", "index": self._settings.index}
        if self._settings.index == "hnsw":
            card["m"] = self._settings.hnsw_m
            card["ef_construction"] = self._settings.hnsw_ef_construction
            card["ef_search"] = self._settings.hnsw_ef_search
        return card

    @property
    def capabilities(self) -> Capabilities:
        """Abilities of the server's version. Raises: Unavailable: it cannot be reached."""
        return Capabilities(most_rows=_MOST_ROWS, terms=self._server.version.has_sparse)

    def begin(self, wanted: GenerationRecord) -> None:
        """Create the missing collections of a generation. Raises: Unavailable: the server is too old for one of its
        parts."""
        if any(part.dim is None for part in wanted.parts) and not self._server.version.has_sparse:
            message = f"{self._server.version.name} has no sparse vectors, which term weights need: it needs Milvus 2.4"
            fix = "upgrade the server, or set engines.lexical and engines.sparse to local"
            raise Unavailable(message, hint=fix)
        super().begin(wanted)

    def open(self, generation: str) -> OpenGeneration:
        """Open a generation for queries.

        Raises:
            IndexCorrupt: there is no complete generation of that id, or rows are missing.
        """
        record = self.complete(generation)
        for part in record.parts:
            self._server.load(self._part(record, part.name))
            # Counted with the consistency level Strong: afterwards the server has all writes of this generation.
            if (rows := self.count(record, part)) != part.rows:
                message = f"Milvus has {rows} of {part.rows} rows of {self._part(record, part.name)}"
                raise IndexCorrupt(message, hint=PUSH)
        return OpenGeneration(self, record)

    def collections(self) -> Mapping[str, Sequence[str]]:
        """Return collections by generation."""
        return self._names.grouped(self._server.collections())

    def create_home(self, generation: str) -> None:
        """Create the collection with the record and the blocks of files."""
        self._home(generation, reload=True).create()

    def create_parts(self, record: GenerationRecord) -> None:
        """Create the collections that are missing, with their indexes."""
        for part in record.parts:
            name = self._names.part(record.generation, part.name)
            if not self._server.has(name):
                self._server.ask("create_collection", name, schema=schema_of(part), consistency_level="Strong")
            if not self._server.ask("list_indexes", name):
                self._server.ask("create_index", name, index_of(part, self._settings))

    def drop_collection(self, collection: str) -> None:
        """Remove a collection."""
        self._server.ask("drop_collection", collection)

    def record(self, generation: str) -> GenerationRecord | None:
        """Return the record of a generation; None if it does not exist."""
        meta = self._home(generation, reload=True).meta()
        if meta is None or meta["format"] != _FORMAT:
            return None
        census = Census(**meta["census"]) if meta["complete"] else None
        notes = {"signed": meta.get("signed", []), "counted": meta.get("counted", False)}
        return GenerationRecord(generation, meta["card"], [Part(*part) for part in meta["parts"]], census, notes)

    def put_record(self, record: GenerationRecord) -> None:
        """Store the record; the record of a complete generation is on the server's disk afterwards."""
        card = {key: value for key, value in record.card.items() if key not in self.per_query}
        meta: dict[str, Any] = {"format": _FORMAT, "card": card, "parts": [list(part) for part in record.parts]}
        home = self._home(record.generation)
        if record.census is None:
            home.put_meta({**meta, "complete": False})
            return
        # Milvus acknowledges a row when it is in its log, in order: blocks are there before the mark.
        home.put_meta({**meta, **record.notes, "complete": True, "census": record.census._asdict()})
        home.flush()

    def set_alias(self, record: GenerationRecord) -> None:
        """Let the alias name the first part with vectors, in one step.

        Raises:
            UsageError: there is a collection, not an alias, of the configured name.
        """
        alias, target = self._names.prefix, self._names.published(record)
        current = self._server.target(alias)
        if current == alias:
            hint = "set milvus.collection to another name"
            raise UsageError(f"Milvus at {self._server.address} has a collection named {alias}", hint=hint)
        if current != target:
            self._server.ask("create_alias" if current is None else "alter_alias", target, alias)

    def drop_alias(self) -> None:
        """Remove the alias."""
        self._server.ask("drop_alias", self._names.prefix)

    def live(self) -> str | None:
        """Return the generation that the alias names; None if there is no alias."""
        target = self._server.target(self._names.prefix)
        return None if target is None else self._names.owner(target)

    def put_rows(self, record: GenerationRecord, part: Part, batch: Batch) -> None:
        """Store rows, in calls of some MiB."""
        collection = self._names.part(record.generation, part.name)
        entities: list[dict[str, Any]] = []
        size = 0
        for entity, weight, long in entities_of(part, batch):
            if long:
                self._home(record.generation).put(WEIGHTS, part.name, {entity["row"]: long})
            entities.append(entity)
            size += weight
            if size >= _BYTES or len(entities) >= _MOST_ENTITIES:
                self._server.ask("upsert", collection, entities)
                entities, size = [], 0
        if entities:
            self._server.ask("upsert", collection, entities)

    def put_blocks(self, generation: str, file: str, blocks: Mapping[int, bytes]) -> None:
        """Store some blocks of a file."""
        self._home(generation).put("file", file, blocks)

    def blocks(self, generation: str, file: str, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the given blocks of a file, without those that are missing."""
        return self._home(generation).get("file", file, numbers)

    def settle(self, record: GenerationRecord) -> None:
        """Flush, wait for the indexes, and load them."""
        for part in record.parts:
            name = self._names.part(record.generation, part.name)
            self._server.flush(name)
            self._server.wait_for_index(name, field_of(part))
            self._server.load(name)

    def count(self, record: GenerationRecord, part: Part) -> int:
        """Return the number of rows of a part."""
        return self._server.count(self._part(record, part.name))

    def notes(self, record: GenerationRecord) -> Mapping[str, Any]:
        """Return the parts that have weights which sparse vectors cannot hold, and that rows are counted by terms."""
        names, below = [part.name for part in record.parts if part.dim is None], f"least < {SMALL}"
        signed = [name for name in names if self._server.count(self._part(record, name), below)]
        return {"signed": signed, "counted": True}

    def vectors(self, record: GenerationRecord, part: Part) -> MilvusVectors:
        """Return a part with vectors."""
        return MilvusVectors(self._server, self._part(record, part.name), part, settings=self._settings)

    def terms(self, record: GenerationRecord, part: Part) -> MilvusTerms:
        """Return a part with term weights."""
        blocks, name = self._home(record.generation), self._part(record, part.name)
        signed, counted = part.name in record.notes.get("signed", ()), bool(record.notes.get("counted"))
        return MilvusTerms(self._server, name, part, blocks=blocks, signed=signed, counted=counted)

    def snapshot(self, generation: str, place: str) -> str:  # noqa: ARG002
        """Raise UsageError: Milvus has a separate tool for this."""
        hint = "use the tool milvus-backup, or snapshots of its storage"
        raise UsageError("Milvus does not write snapshots", hint=hint)

    def describe(self) -> Mapping[str, str]:
        """Return facts for people."""
        alias = self._names.prefix
        return {
            "server": self._server.version.name,
            "address": self._server.address,
            "sparse vectors": "yes" if self._server.version.has_sparse else "no",
            "alias": f"{alias} -> {self._server.target(alias) or 'nothing'}",
        }

    def faults(self) -> Sequence[tuple[str, str]]:
        """Return what keeps the server from being used, or used well, each with its fix."""
        version, alias, problems = self._server.version, self._names.prefix, []
        target = self._server.target(alias)
        if not version.lite and version.number < _OLDEST:
            problems.append((f"{version.name} is too old: upserts and counts need 2.3", "upgrade the server"))
        elif not version.has_sparse:
            fix = "upgrade to Milvus 2.4 or later, or set engines.lexical and engines.sparse to local"
            problems.append((f"{version.name} has no sparse vectors: it can hold embeddings only", fix))
        if target == alias:
            fix = "set milvus.collection to another name"
            problems.append((f"{alias} is a collection there, and must become an alias", fix))
        return problems

    def close(self) -> None:
        """Close connections."""
        self._server.close()

    def _part(self, record: GenerationRecord, part: str) -> str:
        return self._names.part(record.generation, part)

    def _home(self, generation: str, *, reload: bool = False) -> MilvusBlocks:
        """Return the home of a generation; `reload` if it may have been created since it was loaded."""
        if reload or generation not in self._homes:
            self._homes[generation] = MilvusBlocks(self._server, self._names.home(generation))
        return self._homes[generation]
