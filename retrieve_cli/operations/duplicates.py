"""Near-duplicates among the records of a generation, by their vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from retrieve_cli.assemble.indexes import similar_names, stored_vectors
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import Unavailable, printable
from retrieve_cli.storage.generation import Generation

_BLOCK = 1024
"""Records that are compared with all others at a time."""


def duplicates(generation: Generation, *, above: float, most: int) -> dict[str, Json]:
    """Return the pairs of records whose vectors have at least a cosine similarity, the most similar first, at most
    `most` of them (0: all), and how many there are. The vector of a record is the mean of its chunks'.

    Raises:
        Unavailable: the index has no vectors.
    """
    if not similar_names(generation):
        raise Unavailable("this index has no vectors to compare records by", hint="build it with a dense retriever")
    vectors = _of_records(generation)
    found: list[tuple[float, int, int]] = []
    for start in range(0, len(vectors), _BLOCK):
        alike = vectors[start : start + _BLOCK] @ vectors[start:].T
        first, second = np.nonzero(np.triu(alike >= above, k=1))
        scores = alike[first, second].tolist()
        found += zip(scores, (first + start).tolist(), (second + start).tolist(), strict=True)
    found.sort(key=lambda pair: (-pair[0], pair[1:]))
    shown = [
        {"similarity": score, "records": [_shown(generation, row) for row in rows]}
        for score, *rows in (found[:most] if most else found)
    ]
    return {"above": above, "records": len(vectors), "pairs": len(found), "duplicates": shown}


def lines(view: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each pair, and how many there are."""
    for pair in view["duplicates"]:
        names = "  =  ".join(f"{each['id']} ({each['source']}:{each['line']})" for each in pair["records"])
        yield printable(f"{pair['similarity']:.3f}  {names}")
    shown = f", {len(view['duplicates'])} shown" if len(view["duplicates"]) < view["pairs"] else ""
    pairs, records = figures.count(view["pairs"], "pair"), figures.count(view["records"], "record")
    yield f"{pairs} of {records} with a similarity of at least {view['above']:g}{shown}"


def _of_records(generation: Generation) -> Any:
    """Return the vectors of all records, (n, dim) float32 of L2 norm 1."""
    starts = np.asarray(generation.starts)
    parts = []
    for start in range(0, len(starts) - 1, _BLOCK):
        ends = starts[start : start + _BLOCK + 1]
        chunks = stored_vectors(generation, np.arange(ends[0], ends[-1]))
        parts.append(np.add.reduceat(chunks, ends[:-1] - ends[0], axis=0))
    sums = np.concatenate(parts)
    return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), np.finfo(np.float32).tiny)


def _shown(generation: Generation, row: int) -> dict[str, Json]:
    record = generation.records[row]
    return {key: record[key] for key in ("id", "name", "source", "line")}
