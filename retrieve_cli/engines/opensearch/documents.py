"""Names of indexes, and the form of rows as documents."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np
import orjson

from retrieve_cli.config.index_settings import HNSW_EF_CONSTRUCTION, HNSW_M
from retrieve_cli.contracts.engines import Batch, Part, Within
from retrieve_cli.contracts.models import TermWeights
from retrieve_cli.contracts.values import Json
from retrieve_cli.engines import collections
from retrieve_cli.errors import UsageError, quoted

MOST_TERMS = 65_536
"""Values of a `terms` query: the default of `index.max_terms_count`."""
_TOKEN_BYTES = 8_000
"""Longest value that is stored unchanged; Lucene takes terms of 32,766 bytes at most."""
_KEYWORD = {"type": "keyword", "ignore_above": 8_000}
_SEPARATOR = "\x1f"
FEATURES, VECTOR = "features", "vector"
"""Fields with the term weights and the vector of a row."""
_SMALLEST = float(np.finfo(np.float32).tiny)
"""The smallest rank feature that OpenSearch accepts."""

_PREFIX = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")


class OpensearchNames(collections.Names):
    """Names of the indexes of an engine."""

    def __init__(self, prefix: str) -> None:
        if not _PREFIX.fullmatch(prefix):
            hint = "use lower-case letters, digits, `_`, `-` and `.`, 100 at most"
            raise UsageError(f"opensearch.index is {quoted(prefix)}, which cannot name an index", hint=hint)
        super().__init__(prefix, "-")


def principal(parts: Sequence[Part]) -> Part | None:
    """Return the part that the alias names and that has titles and texts: the first whose rows are chunks."""
    return next((part for part in parts if part.unit == "chunk"), parts[0] if parts else None)


def index_settings(part: Part) -> Json:
    """Return the settings of an index for a part. A refresh is requested once, when all rows are there."""
    general = {
        "number_of_shards": 1,
        "auto_expand_replicas": "0-1",
        "refresh_interval": "-1",
    }
    return {**general, "knn": True} if part.dim is not None else general


def mapping(part: Part, *, with_text: bool) -> Json:
    """Return the mapping of a part. Documents are kept without their numbers, which are in the index."""
    properties: dict[str, Json] = dict.fromkeys(("doc_id", "chunk_id", "tenant_id", "section"), _KEYWORD)
    properties |= {"row": {"type": "long"}, "fields": {"type": "keyword"}}
    if with_text:
        properties |= {name: {"type": "text", "similarity": "BM25"} for name in ("title", "content")}
    if part.dim is None:
        properties[FEATURES] = {"type": "rank_features"}
    else:
        parameters = {"m": HNSW_M, "ef_construction": HNSW_EF_CONSTRUCTION}
        method = {"name": "hnsw", "space_type": "innerproduct", "engine": "lucene", "parameters": parameters}
        properties[VECTOR] = {"type": "knn_vector", "dimension": part.dim, "method": method}
    return {"dynamic": False, "_source": {"excludes": [FEATURES, VECTOR]}, "properties": properties}


HOME = {
    "settings": {"number_of_shards": 1, "auto_expand_replicas": "0-1"},
    "mappings": {"dynamic": False, "properties": {}},
}
"""Settings and mapping of the index with metadata."""
METADATA = "generation"
"""Id of the document with the metadata."""


def feature(term: int) -> str:
    """Return the name of a term as a rank feature."""
    return f"t{term}"


def documents(part: Part, batch: Batch, *, with_text: bool) -> list[tuple[str, bytes]]:
    """Return the rows of a batch as documents with their ids."""
    lines = []
    for place, (row, label) in enumerate(zip(batch.rows.tolist(), batch.labels, strict=True)):
        texts: dict[str, str | None] = {"doc_id": label.doc_id, "chunk_id": label.id, "section": label.section}
        texts |= {"tenant_id": label.tenant} | ({"title": label.title, "content": label.text} if with_text else {})
        document: dict[str, Json] = {"row": row}
        document |= {name: _clean(text) for name, text in texts.items() if text is not None}
        document["fields"] = [token(field, value) for field, values in label.fields.items() for value in values]
        if part.dim is None:
            document[FEATURES] = _features(batch.weights[place])
        else:
            if batch.vectors is None:
                raise UsageError(f"rows of {part.name} have no vectors", hint="send the vectors with the rows")
            document[VECTOR] = np.ascontiguousarray(batch.vectors[place], np.float32)
        lines.append((str(row), orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)))
    return lines


def token(field: str, value: str) -> str:
    """Return a value of a field as one keyword: different pairs have different ones.

    Pairs that are too long, that are not Unicode, or whose separator is ambiguous are replaced by their SHA-1.
    """
    text = f"{field}{_SEPARATOR}{value}"
    data = _utf8(text)
    if field and _SEPARATOR not in field and len(data) <= _TOKEN_BYTES and _is_unicode(text):
        return text
    digest = hashlib.sha1(b"%d " % len(_utf8(field)), usedforsecurity=False)
    digest.update(data)
    return _SEPARATOR + digest.hexdigest()


def conditions(within: Within | None) -> Json:
    """Return clauses of a `bool` query that restrict a search: `filter` and `must_not`."""
    clauses: dict[str, list[Json]] = {"filter": [], "must_not": []}
    if within is None:
        return clauses
    if within.rows is not None:
        clauses["filter"].append({"terms": {"row": within.rows.tolist()}})
        return clauses
    for condition in within.conditions:
        tokens = [token(condition.field, value) for value in dict.fromkeys(condition.values)]
        pieces = [tokens[start : start + MOST_TERMS] for start in range(0, len(tokens), MOST_TERMS)] or [[]]
        queries: list[Json] = [{"terms": {"fields": piece}} for piece in pieces]
        clause = queries[0] if len(queries) == 1 else {"bool": {"should": queries, "minimum_should_match": 1}}
        clauses["must_not" if condition.negated else "filter"].append(clause)
    return clauses


def _features(weights: TermWeights) -> dict[str, float]:
    """Return term weights as rank features, which are above 0: other weights are omitted."""
    pairs = zip(weights.terms.tolist(), weights.weights.tolist(), strict=True)
    return {feature(term): weight for term, weight in pairs if weight >= _SMALLEST}


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _clean(text: str) -> str:
    """Return a text for people without lone surrogates, which JSON cannot carry."""
    return text if _is_unicode(text) else text.encode("utf-8", "replace").decode()
