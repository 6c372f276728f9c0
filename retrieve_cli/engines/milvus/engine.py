"""Milvus as an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts.engines import Capabilities, Census, Part, Staged
from retrieve_cli.engines.milvus.blocks import Blocks
from retrieve_cli.engines.milvus.names import Names
from retrieve_cli.engines.milvus.parts import MilvusTerms, MilvusVectors
from retrieve_cli.engines.milvus.server import Server
from retrieve_cli.engines.milvus.staging import MilvusStaging
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from retrieve_cli.config.engine_settings import MilvusSettings
    from retrieve_cli.contracts.values import Card

_FORMAT = 1
"""Version of the layout of collections."""
_MOST_ROWS = 4000
"""Rows to which a search can be restricted: 0.05 s for 4,000 numbers, 0.2 s for 10,000, 0.01 s for a condition."""
_AT_QUERY = ("ef_search",)
"""Keys of the card that do not change what is stored."""
_OLDEST = (2, 3)


class MilvusEngine:
    """Milvus as an engine: dense vectors with HNSW or exhaustive search, and term weights as sparse vectors.

    Its tests run against a real server 2.3.5 (vectors, filters, aliases; it has no sparse vectors) and against Milvus
    Lite 3.2.2 in this process (vectors and sparse vectors). No server of 2.4 or later, and no cluster, was tried.
    """

    def __init__(self, settings: MilvusSettings, *, token: str | None = None) -> None:
        self._settings = settings
        self._names = Names(settings.collection)
        self._server = Server(settings, token)

    @property
    def name(self) -> str:
        """Name in the configuration."""
        return "milvus"

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

    def stage(self, generation: str, parts: Sequence[Part]) -> MilvusStaging:
        """Begin to store a generation, or go on with one that is not complete."""
        if any(part.dim is None for part in parts) and not self._server.version.has_sparse:
            message = f"{self._server.version.name} has no sparse vectors, which term weights need: it needs Milvus 2.4"
            fix = "upgrade the server, or set engines.lexical and engines.sparse to local"
            raise Unavailable(message, hint=fix)
        blocks = Blocks(self._server, self._names.files(generation))
        meta = {"format": _FORMAT, "card": self._stored_card(), "parts": [list(part) for part in parts]}
        before = blocks.meta()
        if before is not None and {key: before.get(key) for key in meta} != meta:
            self.drop(generation)
            before = None
        staging = MilvusStaging(
            self._server,
            self._settings,
            generation,
            parts=parts,
            names=self._names,
            blocks=blocks,
            meta=meta,
        )
        if before is None:
            # Parts without metadata are what a crash left, of any shape.
            self.drop(generation)
            blocks.create()
            blocks.put_meta({**meta, "complete": False})
        staging.begin()
        return staging

    def publish(self, generation: str) -> None:
        """Let the alias name this generation, in one step.

        Raises:
            IndexCorrupt: there is no complete generation of that id.
            UsageError: there is a collection, not an alias, of the configured name.
        """
        _, parts, _ = self._complete(generation)
        alias, target = self._names.alias, self._names.published(generation, parts)
        current = self._server.target(alias)
        if current == alias:
            hint = "set milvus.collection to another name"
            raise UsageError(f"Milvus at {self._server.address} has a collection named {alias}", hint=hint)
        if current != target:
            self._server.ask("create_alias" if current is None else "alter_alias", target, alias)

    def live(self) -> str | None:
        """Return the generation that the alias names; None if there is none."""
        target = self._server.target(self._names.alias)
        return None if target is None else self._names.generation(target)

    def generations(self) -> Sequence[Staged]:
        """Return all generations, complete or not, in order of id."""
        live = self.live()
        staged = []
        for generation, collections in self._names.grouped(self._server.collections()).items():
            files = self._names.files(generation)
            meta = Blocks(self._server, files).meta() if files in collections else None
            staged.append(Staged(generation, bool(meta and meta["complete"]), generation == live))
        return staged

    def drop(self, generation: str) -> None:
        """Remove a generation: the alias if it names it, the metadata, the parts. One whose removal was interrupted is
        not complete."""
        files = self._names.files(generation)
        collections = self._names.grouped(self._server.collections()).get(generation, [])
        if collections and self.live() == generation:
            self._server.ask("drop_alias", self._names.alias)
        for collection in sorted(collections, key=lambda name: name != files):
            self._server.ask("drop_collection", collection)

    def open(self, generation: str) -> MilvusGeneration:
        """Open a generation for queries.

        Raises:
            IndexCorrupt: there is no complete generation of that id, or rows are missing.
        """
        blocks, parts, meta = self._complete(generation)
        for part in parts:
            collection = self._names.part(generation, part.name)
            self._server.load(collection)
            # Counted with the consistency level Strong: afterwards the server has all writes of this generation.
            if (rows := self._server.count(collection)) != part.rows:
                message = f"Milvus holds {rows} of {part.rows} rows of {collection}"
                raise IndexCorrupt(message, hint="run: retrieve engines push")
        return MilvusGeneration(
            self._server, self._settings, generation, names=self._names, blocks=blocks, parts=parts, meta=meta
        )

    def snapshot(self, generation: str, place: str) -> str:  # noqa: ARG002
        """Raise UsageError: Milvus has a tool of its own for this."""
        raise UsageError(
            "Milvus does not write snapshots", hint="use the tool milvus-backup, or snapshots of its storage"
        )

    def describe(self) -> Mapping[str, str]:
        """Return facts for people."""
        alias = self._names.alias
        return {
            "server": self._server.version.name,
            "address": self._server.address,
            "sparse vectors": "yes" if self._server.version.has_sparse else "no",
            "alias": f"{alias} -> {self._server.target(alias) or 'nothing'}",
        }

    def problems(self) -> Sequence[tuple[str, str]]:
        """Return what keeps the server from being used, or used well, each with its fix."""
        try:
            version, target = self._server.version, self._server.target(self._names.alias)
        except Unavailable as error:
            return [(error.message, error.hint)]
        problems = []
        if not version.lite and version.number < _OLDEST:
            problems.append((f"{version.name} is too old: upserts and counts need 2.3", "upgrade the server"))
        elif not version.has_sparse:
            fix = "upgrade to Milvus 2.4 or later, or set engines.lexical and engines.sparse to local"
            problems.append((f"{version.name} has no sparse vectors: it can hold embeddings only", fix))
        if target == self._names.alias:
            fix = "set milvus.collection to another name"
            problems.append((f"{self._names.alias} is a collection there, and must become an alias", fix))
        return problems

    def close(self) -> None:
        """Close connections."""
        self._server.close()

    def _stored_card(self) -> dict[str, Any]:
        return {key: value for key, value in self.card.items() if key not in _AT_QUERY}

    def _complete(self, generation: str) -> tuple[Blocks, list[Part], dict[str, Any]]:
        """Return the blocks, parts and metadata of a complete generation."""
        blocks = Blocks(self._server, self._names.files(generation))
        meta = blocks.meta()
        if meta is None or not meta["complete"] or meta["format"] != _FORMAT:
            message = f"Milvus at {self._server.address} has no complete generation {generation}"
            raise IndexCorrupt(message, hint="run: retrieve engines push")
        return blocks, [Part(*part) for part in meta["parts"]], meta


class MilvusGeneration:
    """A complete generation in Milvus, open for queries from any thread."""

    def __init__(
        self,
        server: Server,
        settings: MilvusSettings,
        generation: str,
        *,
        names: Names,
        blocks: Blocks,
        parts: Sequence[Part],
        meta: Mapping[str, Any],
    ) -> None:
        self._server = server
        self._settings = settings
        self._generation = generation
        self._names = names
        self._blocks = blocks
        self._parts = {part.name: part for part in parts}
        self._meta = meta

    @property
    def census(self) -> Census:
        """Census of its staging."""
        return Census(**self._meta["census"])

    def count(self, part: str) -> int:
        """Return the number of rows of a part."""
        return self._server.count(self._collection(part))

    def vectors(self, part: str) -> MilvusVectors:
        """Return a part with vectors. Raises: IndexCorrupt: it has no such part."""
        chosen = self._part(part, with_vectors=True)
        return MilvusVectors(self._server, self._collection(part), chosen, settings=self._settings)

    def terms(self, part: str) -> MilvusTerms:
        """Return a part with term weights. Raises: IndexCorrupt: it has no such part."""
        chosen = self._part(part, with_vectors=False)
        signed = part in self._meta["signed"]
        return MilvusTerms(self._server, self._collection(part), chosen, blocks=self._blocks, signed=signed)

    def block(self, file: str, number: int) -> bytes:
        """Return a block of a file. Raises: IndexCorrupt: Milvus does not have it."""
        data = self._blocks.get("file", file, number)
        if data is None:
            message = f"generation {self._generation} in Milvus lacks block {number} of {quoted(file)}"
            raise IndexCorrupt(message, hint="run: retrieve engines push")
        return data

    def close(self) -> None:
        """Do nothing: the connection belongs to the engine."""

    def _collection(self, part: str) -> str:
        return self._names.part(self._generation, part)

    def _part(self, name: str, *, with_vectors: bool) -> Part:
        part = self._parts.get(name)
        if part is None or (part.dim is not None) != with_vectors:
            kind = "vectors" if with_vectors else "term weights"
            message = f"generation {self._generation} in Milvus has no part {quoted(name)} with {kind}"
            raise IndexCorrupt(message, hint="run: retrieve engines push")
        return part
