"""Rows of parts as entities of Milvus: schemas, conversion and back, and conditions on rows as expressions.

No text of a user becomes part of an expression, only its digest.

The collection of a generation for its metadata, blocks of files, and weights of very long rows.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from retrieve_cli.contracts.models import TermWeights
from retrieve_cli.engines.milvus.server import client_package
from retrieve_cli.errors import IndexCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrieve_cli.config.index_settings import MilvusSettings
    from retrieve_cli.contracts.engines import Batch, Label, Part, Within
    from retrieve_cli.contracts.values import Vectors
    from retrieve_cli.engines.milvus.server import MilvusServer


VECTOR, SPARSE = "vector", "sparse"
"""Names of the field with vectors, and of the field with term weights."""
TERMS = "terms"
"""Field with the terms of a row, by which rows are counted; of more than 4,096 the heaviest."""
LONGEST = 65_535
"""The most bytes of a VARCHAR."""
TINY = 1e-6
"""Sparse vectors of Milvus hold numbers above 0 only: smaller weights are searched as this one."""
SMALL = "0.000002"
"""Bound of weights that may not be found by their own value, as a number of an expression."""
ELSEWHERE = "*"
"""Stands for weights that are too many for a VARCHAR, and are kept as a block."""
_NO_TERM = 2**32 - 2
"""The largest term id of Milvus: the only one of a row without terms, whose sparse vector must not be empty."""
_LONGEST_WEIGHTS = 32_768
"""The most characters of the weights of a row outside blocks. 1,000 rows are read in one answer of at most 64 MiB."""
_LABELS = ("id", "doc_id", "title", "text", "section", "tenant")
_NARROWEST = 2
"""The smallest dimension of a vector."""


def field_of(part: Part) -> str:
    """Return the name of the indexed field of a part."""
    return SPARSE if part.dim is None else VECTOR


def schema_of(part: Part) -> Any:
    """Return the schema of the collection of a part."""
    client = client_package()
    kinds = client.DataType
    schema = client.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("row", kinds.INT64, is_primary=True)
    if part.dim is None:
        schema.add_field(SPARSE, kinds.SPARSE_FLOAT_VECTOR)
        schema.add_field("weights", kinds.VARCHAR, max_length=LONGEST)
        schema.add_field("least", kinds.FLOAT)
        schema.add_field(TERMS, kinds.ARRAY, element_type=kinds.INT64, max_capacity=MOST_TAGS)
    else:
        schema.add_field(VECTOR, kinds.FLOAT_VECTOR, dim=max(part.dim, _NARROWEST))
    for name in _LABELS:
        # Milvus Lite and people alike confuse a field `id` with the primary key.
        schema.add_field("chunk_id" if name == "id" else name, kinds.VARCHAR, max_length=LONGEST)
    schema.add_field("tags", kinds.ARRAY, element_type=kinds.VARCHAR, max_capacity=MOST_TAGS, max_length=TAG)
    return schema


def index_of(part: Part, settings: MilvusSettings) -> Any:
    """Return the parameters of the index of a part."""
    parameters = client_package().MilvusClient.prepare_index_params()
    if part.dim is None:
        parameters.add_index(SPARSE, index_type="SPARSE_INVERTED_INDEX", metric_type="IP", params={})
    elif settings.index == "flat":
        parameters.add_index(VECTOR, index_type="FLAT", metric_type="IP", params={})
    else:
        params = {"M": settings.hnsw_m, "efConstruction": settings.hnsw_ef_construction}
        parameters.add_index(VECTOR, index_type="HNSW", metric_type="IP", params=params)
    return parameters


def entities_of(part: Part, batch: Batch) -> Iterator[tuple[dict[str, Any], int, bytes]]:
    """Yield the rows of a batch as entities, with their approximate sizes in bytes, and weights that are elsewhere."""
    vectors = None if batch.vectors is None else padded(np.asarray(batch.vectors, np.float32))
    for place, (row, label) in enumerate(zip(batch.rows.tolist(), batch.labels, strict=True)):
        entity = labelled(row, label)
        size = len(entity["text"]) + len(entity["title"]) + 40 * len(entity["tags"]) + 200
        long = b""
        if part.dim is not None and vectors is not None:
            entity[VECTOR] = vectors[place]
            size += 4 * vectors.shape[1]
        else:
            weights = batch.weights[place]
            data = packed(weights)
            entity["weights"] = written(data)
            if entity["weights"] == ELSEWHERE:
                long = data
            entity["least"] = float(weights.weights.min()) if len(weights.weights) else 1.0
            entity[SPARSE] = sparse_of(weights)
            heaviest = np.argsort(-weights.weights, kind="stable")[:MOST_TAGS]
            entity[TERMS] = weights.terms[heaviest].tolist()
            size += 28 * len(weights.terms)
        yield entity, size, long


def labelled(row: int, label: Label) -> dict[str, Any]:
    """Return the fields of an entity that describe it. Texts longer than 65,535 bytes are cut: they are for people."""
    texts = {name: cut(getattr(label, name) or "") for name in _LABELS}
    return {"row": row, "chunk_id": texts.pop("id"), **texts, "tags": tags(label.fields)}


def cut(text: str) -> str:
    """Return the beginning of a text that fits into a VARCHAR, without halves of surrogate pairs."""
    return text.encode("utf-8", "replace")[:LONGEST].decode("utf-8", "ignore")


def padded(vectors: Vectors) -> Vectors:
    """Return vectors with at least two numbers each, (n, max(dim, 2)) float32."""
    missing = _NARROWEST - vectors.shape[-1]
    return np.pad(vectors, ((0, 0), (0, missing))) if missing > 0 else vectors


def sparse_of(weights: TermWeights) -> dict[int, float]:
    """Return term weights as the sparse vector by which a row or a query is found."""
    values = np.maximum(weights.weights.astype(np.float64), TINY)
    return dict(zip(weights.terms.tolist(), values.tolist(), strict=True)) or {_NO_TERM: 1.0}


def packed(weights: TermWeights) -> bytes:
    """Return term weights as bytes: all terms as int32, then all weights as float32, little-endian.

    The sparse vector of a row has no weights of 0 or below, and the client returns it as Python numbers, one by one.
    """
    return np.ascontiguousarray(weights.terms, "<i4").tobytes() + np.ascontiguousarray(weights.weights, "<f4").tobytes()


def unpacked(data: bytes) -> TermWeights:
    """Return the unpacked weights. Raises: ValueError: these are not packed weights."""
    if len(data) % 8:
        raise ValueError("not term weights")
    middle = len(data) // 2
    terms, weights = np.frombuffer(data[:middle], "<i4"), np.frombuffer(data[middle:], "<f4")
    return TermWeights(terms.astype(np.int32), weights.astype(np.float32))


def written(data: bytes) -> str:
    """Return packed weights as the text of a VARCHAR, or the sign that they are elsewhere."""
    text = b64encode(data).decode("ascii")
    return text if len(text) <= _LONGEST_WEIGHTS else ELSEWHERE


def read(text: str) -> bytes:
    """Return the bytes that were written. Raises: ValueError: the text is not base64."""
    return b64decode(text, validate=True)


TAG = 32
"""Characters of a tag."""
MOST_TAGS = 4096
"""The most values of an array in Milvus, and the most values of a condition that are sent."""
_OVERFLOW = "0" * TAG
"""Tag of a row with more values than Milvus can store."""


def tag(field: str, value: str) -> str:
    """Return the tag of a value in a field: 32 hex digits.

    Expression templates, which bind values, came with Milvus 2.5 and are missing in Milvus Lite 3.2. Digests of 128
    bits are exact in practice, need no escaping in any version, and have the same length for every value.
    """
    name = field.encode("utf-8", "surrogatepass")
    text = b"%d:%b%b" % (len(name), name, value.encode("utf-8", "surrogatepass"))
    return blake2b(text, digest_size=TAG // 2).hexdigest()


def tags(fields: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the tags of a row, ascending. Tags beyond the limit of an array are replaced by one that means any
    value."""
    distinct = sorted({tag(field, value) for field, values in fields.items() for value in values})
    return distinct if len(distinct) <= MOST_TAGS else [_OVERFLOW, *distinct[: MOST_TAGS - 1]]


def expression(within: Within | None, window: range | None = None) -> str | None:
    """Return the expression for the rows of a search, empty for all rows; None if no row can satisfy it.

    It may allow too many rows, never too few: a condition with more than 4,096 values is not sent, and a row with more
    than 4,096 values satisfies every condition that is not negated. Rows that are not allowed are dropped by the
    generic index.
    """
    clauses = []
    if window is not None:
        if not window:
            return None
        clauses.append(f"row >= {window.start} and row < {window.stop}")
    if within is not None and within.rows is not None:
        if not len(within.rows):
            return None
        clauses.append(f"row in {within.rows.tolist()}")
    elif within is not None:
        for condition in within.conditions:
            if not condition.values and not condition.negated:
                return None
            if 0 < len(condition.values) <= MOST_TAGS:
                wanted = {tag(condition.field, value) for value in condition.values}
                wanted |= set() if condition.negated else {_OVERFLOW}
                listed = ", ".join(f'"{digest}"' for digest in sorted(wanted))
                clauses.append(f"{'not ' if condition.negated else ''}array_contains_any(tags, [{listed}])")
    return " and ".join(f"({clause})" for clause in clauses)


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
            kinds = client.DataType
            schema = client.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field("piece", kinds.VARCHAR, is_primary=True, max_length=64)
            schema.add_field("block", kinds.VARCHAR, max_length=32)
            schema.add_field("place", kinds.INT64)
            schema.add_field("pieces", kinds.INT64)
            schema.add_field("check", kinds.VARCHAR, max_length=32)
            schema.add_field("data", kinds.VARCHAR, max_length=LONGEST)
            schema.add_field("unused", kinds.FLOAT_VECTOR, dim=2)
            self._server.ask("create_collection", self._collection, schema=schema, consistency_level="Strong")
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
        if not self._loaded:
            self._server.load(self._collection)
            self._loaded = True
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


def _pieces(block: str, data: bytes) -> list[dict[str, Any]]:
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
    return blake2b(f"{kind}\n{number}\n{name}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _check(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
