"""Rows for the tests of engines: chunks with vectors, term weights, words, and fields of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.engines import EngineQuery, Row, Schema

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Vectors

DIM = 8
NAMES = ("000000000001", "000000000002", "00000000000a")
GENERATIONS = ("aaaaaaaaaaaa", "bbbbbbbbbbbb")
WORDS = ["lung", "heart", "liver", "kidney", "brain", "segmentation", "registration", "microscopy", "cell", "nucleus"]
ODD = ["", " ", "'", '"', "\\", "%", "*", "a.b", "a[0]", "a/b", "$1", "{x}", "é", "日本", "x" * 300, "'); DROP TABLE x"]
"""Texts that a dialect may read as something else."""


def vector(seed: int, dim: int = DIM) -> Vectors:
    """Return a vector of L2 norm 1."""
    drawn = np.random.default_rng(seed).normal(size=dim)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32)


def weights(seed: int, count: int = 4) -> TermWeights:
    """Return the weights of some of 20 terms, among them the highest number of a term."""
    random = np.random.default_rng(seed)
    terms = np.sort(random.choice([*range(19), 2**31 - 1], count, replace=False)).astype(np.int32)
    return TermWeights(terms, random.uniform(0.5, 3, count).astype(np.float32))


def row(number: int, schema: Schema, *, version: int = 0, tenants: Sequence[str] = ()) -> Row:
    """Return chunk `number % 2` of record `number // 2`; `version` changes its contents."""
    word, other = WORDS[number % len(WORDS)], WORDS[(number // 3 + version) % len(WORDS)]
    return Row(
        id=f"record-{number // 2}#{number % 2}",
        record=f"record-{number // 2}",
        title=f"Title {number}",
        text=f"{word} {other} text of version {version}",
        section=f"Section {number % 3}",
        stored=f'{{"number":{number},"version":{version}}}',
        tenants=tenants,
        keywords={"modality": [f"kind {number % 4}"], "year": [str(2000 + number % 10)], "all": [word, other]},
        numbers={"year": [float(2000 + number % 10)], "size": [number / 4]},
        dates={"released": [86400.0 * number]},
        vectors={name: vector(1000 * version + number, dim) for name, dim in schema.vectors.items()},
        weights={name: weights(1000 * version + number) for name in schema.weights},
    )


def queries(schema: Schema, seed: int = 1) -> list[EngineQuery]:
    """Return a query for each retriever of a schema."""
    found: list[EngineQuery] = [(name, vector(seed, dim)) for name, dim in schema.vectors.items()]
    found += [(name, weights(seed)) for name in schema.weights]
    return found + [(name, f"{WORDS[seed % len(WORDS)]} segmentation") for name in schema.texts]
