"""A complete generation in Qdrant, open for queries."""

from __future__ import annotations

from retrieve_cli.contracts.engines import Census, Part
from retrieve_cli.engines.answers import reading
from retrieve_cli.engines.qdrant import about
from retrieve_cli.engines.qdrant.names import Names
from retrieve_cli.engines.qdrant.parts import TermPart, VectorPart
from retrieve_cli.engines.qdrant.server import Server
from retrieve_cli.errors import IndexCorrupt


@reading("Qdrant")
class QdrantGeneration:
    """A generation; its parts share the connection of the engine."""

    def __init__(self, server: Server, names: Names, generation: str, *, ef: int) -> None:
        """Read the record of a generation.

        Raises:
            IndexCorrupt: there is no complete generation of that id.
        """
        self._server, self._names, self._generation, self._ef = server, names, generation, ef
        self._collection = names.generation(generation)
        record = about.read(server, self._collection)
        if record is None or record.census is None:
            message = f"Qdrant has no complete generation {generation} of {names.alias}"
            raise IndexCorrupt(message, hint="run `retrieve engines push`")
        self._census = record.census
        self._parts = {part.name: part for part in record.parts}

    @property
    def census(self) -> Census:
        """Census of its staging."""
        return self._census

    def count(self, part: str) -> int:
        """Return the number of rows of a part. Raises: IndexCorrupt: its collection is gone."""
        path = f"/collections/{self._names.part(self._generation, part)}/points/count"
        return int(self._server.call("POST", path, body={"exact": True})["count"])

    def vectors(self, part: str) -> VectorPart:
        """Return a part with vectors. Raises: IndexCorrupt: there is none of that name."""
        dim = self._part(part).dim
        if dim is None:
            raise self._without(part, "vectors")
        return VectorPart(self._server, self._names.part(self._generation, part), dim=dim, ef=self._ef)

    def terms(self, part: str) -> TermPart:
        """Return a part with term weights. Raises: IndexCorrupt: there is none of that name."""
        if self._part(part).dim is not None:
            raise self._without(part, "term weights")
        return TermPart(self._server, self._names.part(self._generation, part))

    def block(self, file: str, number: int) -> bytes:
        """Return a block of a file of the generation. Raises: IndexCorrupt: it is not there."""
        return about.block(self._server, self._collection, file, number)

    def close(self) -> None:
        """Close nothing: the connection belongs to the engine."""

    def _part(self, name: str) -> Part:
        if name not in self._parts:
            raise self._without(name, "rows")
        return self._parts[name]

    def _without(self, part: str, what: str) -> IndexCorrupt:
        message = f"generation {self._generation} in Qdrant has no {what} of {part}"
        return IndexCorrupt(message, hint="run `retrieve engines push`")
