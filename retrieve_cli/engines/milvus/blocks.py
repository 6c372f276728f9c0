"""The collection of a generation for its metadata, blocks of files, and weights of very long rows."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import orjson

from retrieve_cli.engines.milvus.entities import LONGEST
from retrieve_cli.engines.milvus.server import client_package
from retrieve_cli.errors import IndexCorrupt

if TYPE_CHECKING:
    from retrieve_cli.engines.milvus.server import MilvusServer

_PIECE = LONGEST // 4 * 3
"""Bytes in one VARCHAR as base64: 49,149."""
_AT_ONCE = 256
"""Pieces sent in one call: 16 MiB; a server accepts 64 MiB."""
_META = ("meta", "")


class MilvusBlocks:
    """Named bytes in a collection, each in pieces of at most 48 KiB: a VARCHAR of Milvus holds 65,535 bytes."""

    def __init__(self, server: MilvusServer, collection: str) -> None:
        self._server = server
        self._collection = collection
        self._loaded = False

    def create(self) -> None:
        """Create the collection if it is missing or has no index."""
        client = client_package()
        if not self._server.has(self._collection):
            self._server.ask("create_collection", self._collection, schema=_schema(client), consistency_level="Strong")
        if not self._server.ask("list_indexes", self._collection):
            parameters = client.MilvusClient.prepare_index_params()
            # Milvus demands a field with vectors in every collection, with an index.
            parameters.add_index("unused", index_type="FLAT", metric_type="L2", params={})
            self._server.ask("create_index", self._collection, parameters)
        # Loading takes seconds even if there is nothing to load: it goes on while rows are sent.
        self._server.ask("load_collection", self._collection, _async=True)

    @property
    def exists(self) -> bool:
        """True if there is such a collection, and its creation was not interrupted."""
        return self._server.has(self._collection) and bool(self._server.ask("list_indexes", self._collection))

    def put(self, kind: str, name: str, blocks: Mapping[int, bytes]) -> None:
        """Store bytes by number; blocks of the same kind, name and number are replaced."""
        entities = [piece for number, data in blocks.items() for piece in _pieces(_digest(kind, name, number), data)]
        for first in range(0, len(entities), _AT_ONCE):
            self._server.ask("upsert", self._collection, entities[first : first + _AT_ONCE])

    def get(self, kind: str, name: str, numbers: Sequence[int], *, level: str = "Bounded") -> dict[int, bytes]:
        """Return stored bytes by number, of those that there are.

        Raises:
            IndexCorrupt: pieces are missing, or are not those that were stored together.
        """
        self._load()
        digests = {_digest(kind, name, number): number for number in numbers}
        entities = self._server.ask(
            "query",
            self._collection,
            filter=f"block in {orjson.dumps(list(digests)).decode()}",
            output_fields=["block", "place", "pieces", "check", "data"],
            consistency_level=level,
        )
        found: dict[str, dict[int, Any]] = {}
        for entity in entities:
            found.setdefault(entity["block"], {})[int(entity["place"])] = entity
        whole = {number: found[digest] for digest, number in digests.items() if digest in found}
        return {number: self._joined(pieces, f"{kind} {name} {number}") for number, pieces in whole.items()}

    def _joined(self, pieces: Mapping[int, Any], block: str) -> bytes:
        """Return the bytes of a block. Raises: IndexCorrupt."""
        try:
            # A longer block that was replaced may have left pieces beyond the last one.
            last = int(pieces[0]["pieces"])
            data = b"".join(b64decode(pieces[place]["data"]) for place in range(last))
            if _check(data) == pieces[0]["check"]:
                return data
        except (KeyError, ValueError):
            pass
        message = f"a block in the Milvus collection {self._collection} is damaged: {block}"
        raise IndexCorrupt(message, hint="run: retrieve engines push")

    def put_meta(self, meta: Any) -> None:
        """Store the metadata of the generation."""
        self.put(*_META, {0: orjson.dumps(meta)})

    def meta(self) -> Any:
        """Return the metadata of the generation; None if it has none, as after an interrupted creation."""
        if not self.exists:
            return None
        data = self.get(*_META, [0], level="Strong")
        return orjson.loads(data[0]) if data else None

    def flush(self) -> None:
        """Let the server write everything to its storage."""
        self._server.flush(self._collection)

    def _load(self) -> None:
        if not self._loaded:
            self._server.load(self._collection)
            self._loaded = True


def _schema(client: Any) -> Any:
    kinds = client.DataType
    schema = client.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("piece", kinds.VARCHAR, is_primary=True, max_length=64)
    schema.add_field("block", kinds.VARCHAR, max_length=32)
    schema.add_field("place", kinds.INT64)
    schema.add_field("pieces", kinds.INT64)
    schema.add_field("check", kinds.VARCHAR, max_length=32)
    schema.add_field("data", kinds.VARCHAR, max_length=LONGEST)
    schema.add_field("unused", kinds.FLOAT_VECTOR, dim=2)
    return schema


def _pieces(block: str, data: bytes) -> list[dict[str, Any]]:
    """Return the entities of a block."""
    check, starts = _check(data), range(0, max(len(data), 1), _PIECE)
    return [
        {
            "piece": f"{block}-{place}",
            "block": block,
            "place": place,
            "pieces": len(starts),
            "check": check,
            "data": b64encode(data[start : start + _PIECE]).decode("ascii"),
            "unused": [0.0, 0.0],
        }
        for place, start in enumerate(starts)
    ]


def _digest(kind: str, name: str, number: int) -> str:
    """Return the key of a block. Names are any text, which must not become part of an expression."""
    text = f"{kind}\n{number}\n{name}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).hexdigest()


def _check(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
