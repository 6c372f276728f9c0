"""Contents of generations for tests of engines, and what local files would answer from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.engines import AnyOf, Batch, Engine, Label, Part, Staging
from retrieve_cli.retrieval.retrievers.splade import SparseIndex, SparseWriter
from retrieve_cli.retrieval.retrievers.vector_index import DenseIndex, FlatVectors

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Mask, Rows, Vectors

GENERATION, OTHER = "0123456789ab", "ba9876543210"
VECTORS, TERMS = "dense", "sparse"
DIM = 16

ODD = (
    "Zürich 東京 🧠",
    'it\'s "quoted" `here`',
    "100 % _ done %s",
    "two\nlines\tand a tab",
    "x" * 4096,
    "\u202eright to left \u05e9\u05dc\u05d5\u05dd",
    "back\\slash \\' \\\"",
    " spaces around ",
    "e\u0301",
    "é",
    "",
)
INJECTIONS = (
    "'; DROP TABLE chunks; --",
    '" OR "1"="1',
    "') OR 1=1 --",
    "*) OR (*:*",
    '{"match_all": {}}',
    "$1 %(rows)s {0} :rows ?",
    "modality == 'CT' or true",
    "\\x27 OR 1=1",
    "../../_all",
)


@dataclass(frozen=True)
class Content:
    """Rows of chunks, each both as a vector and as term weights."""

    vectors: Vectors
    weights: Sequence[TermWeights]
    labels: Sequence[Label]
    starts: Rows
    """First row of each record, then the number of rows."""

    def __len__(self) -> int:
        return len(self.labels)

    def admitted(self, conditions: Sequence[AnyOf]) -> Mask:
        """Return the rows that satisfy all conditions, as a mask."""
        return np.array([admits(conditions, label) for label in self.labels], np.bool_)

    @cached_property
    def dense(self) -> DenseIndex:
        """The local index of the vectors."""
        return DenseIndex([FlatVectors(self.vectors)])

    @cached_property
    def sparse(self) -> SparseIndex:
        """The local index of the term weights."""
        writer = SparseWriter(unit="chunk")
        for row in self.weights:
            writer.add(row)
        return SparseIndex([writer.stored()])


def admits(conditions: Sequence[AnyOf], label: Label) -> bool:
    """Return whether a row satisfies all conditions."""
    return all(bool(set(label.fields.get(each.field, ())) & set(each.values)) != each.negated for each in conditions)


def content(rows: int, *, seed: int = 0, odd: Sequence[str] = ()) -> Content:
    """Return random rows, some of them equal, of records with one to four chunks. Fields are those of the record:
    `modality` of a few values, `decile`, and `odd`, one of some texts, if there are any."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(20, DIM))
    vectors = centres[random.integers(0, 20, rows)] + 0.7 * random.normal(size=(rows, DIM))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    weights = [terms(random, int(random.integers(0, 13))) for _ in range(rows)]
    for copy, original in random.integers(0, max(rows, 1), (rows // 10, 2)).tolist():
        vectors[copy], weights[copy] = vectors[original], weights[original]
    starts = [0]
    while starts[-1] < rows:
        starts.append(min(rows, starts[-1] + int(random.integers(1, 5))))
    labels: list[Label] = []
    for record, (first, end) in enumerate(pairwise(starts)):
        text = odd[record % len(odd)] if odd else f"text {record}"
        fields = {
            "modality": [f"kind {kind}" for kind in sorted(set(random.integers(0, 6, 2).tolist()))],
            "decile": [str(record % 10)],
            **({"odd": [text], text or "empty": ["named"]} if odd else {}),
        }
        for row in range(first, end):
            name = f"{text}#{row}"
            labels.append(
                Label(name, text, title=text, text=text, section=text, tenant=f"t{record % 2}", fields=fields)
            )
    return Content(vectors, weights, labels, np.array(starts, np.int64))


def terms(random: np.random.Generator, count: int) -> TermWeights:
    """Return random term weights: few terms are in many rows."""
    drawn = np.unique((random.zipf(1.3, count) * 7 % 40_000).astype(np.int32))
    return TermWeights(drawn, random.exponential(size=len(drawn)).astype(np.float32))


def parts_of(made: Content, *, vectors: bool, terms: bool) -> list[Part]:
    """Return the parts of a generation, of the kinds that an engine has."""
    parts = [Part(VECTORS, "chunk", len(made), DIM)] * vectors
    return parts + [Part(TERMS, "chunk", len(made))] * terms


def batch(made: Content, part: str, rows: Rows) -> Batch:
    """Return some rows of a part."""
    labels = [made.labels[row] for row in rows.tolist()]
    if part == VECTORS:
        return Batch(rows, labels, vectors=made.vectors[rows])
    return Batch(rows, labels, weights=[made.weights[row] for row in rows.tolist()])


def put(staging: Staging, made: Content, parts: Sequence[Part], rows: Rows) -> None:
    """Put some rows of all parts."""
    for part in parts:
        staging.put(part.name, batch(made, part.name, rows))


def send(
    engine: Engine, made: Content, parts: Sequence[Part], *, generation: str = GENERATION, step: int = 500
) -> None:
    """Store a generation and finish it."""
    staging = engine.stage(generation, parts)
    for part in parts:
        for start in range(0, len(made), step):
            put(staging, made, [part], np.arange(start, min(start + step, len(made))))
    staging.finish()
