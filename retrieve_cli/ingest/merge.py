"""Merges of segments: their live records are copied, in an order, into one new segment by the writers of a build."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble import indexes
from retrieve_cli.assemble.registry import retriever
from retrieve_cli.contracts import Passages
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.ingest.segment_writer import SegmentWriter, places, runs, segments_with, spans
from retrieve_cli.storage import pickles, token_table
from retrieve_cli.storage.manifest import faults
from retrieve_cli.storage.records.sections import FACETS_FILE
from retrieve_cli.storage.segment import GRAPH, TOKENS
from retrieve_cli.storage.token_table import Stretch, TokenTable

if TYPE_CHECKING:
    from retrieve_cli.assemble.parts import Writers
    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.storage.generation import Generation

MOST_SEGMENTS = 12
MOST_DEAD = 0.2
"""Share of dead rows above which everything is merged."""
_LARGER = 4
"""A segment that is so many times larger than all newer ones together is left alone."""
_BLOCK = 4096
"""Vectors that are copied at a time."""


def to_merge(live: Sequence[int], total: Sequence[int]) -> int:
    """Return how many of the newest segments to merge into one, given the live and all records of each, oldest first;
    0 if none."""
    if len(live) > MOST_SEGMENTS or sum(live) < (1.0 - MOST_DEAD) * sum(total):
        return len(live)
    newer, count = 0, 0
    for size in reversed(live):
        if count and size >= _LARGER * newer:
            break
        newer, count = newer + size, count + 1
    return count if count > 1 else 0


def merge(generation: Generation, order: Rows, writers: Writers, folder: Path) -> dict[str, int]:
    """Write the records `order` (n,) of a generation as one segment; return the rows of each file.

    Raises:
        IndexCorrupt: a file of a segment with some of them is damaged: it would get another SHA-1, and look sound.
    """
    new_records = places(len(generation.records), order)
    for segment, _, _ in segments_with(generation, new_records):
        if damage := faults(segment.folder, segment.manifest):
            raise IndexCorrupt(next(iter(damage.values())), hint="build again: retrieve build")
    has_facets, has_tokens = generation.has(FACETS_FILE), generation.has(TOKENS)
    tables = SegmentWriter(folder, with_facets=has_facets)
    try:
        tables.take(generation, order)
        rows = tables.finish()
    finally:
        tables.close()
    chunks = spans(generation.starts, order)
    new_chunks = places(len(generation.chunks), chunks)
    passages = Passages(len(chunks), partial(_vectors, generation, chunks), tuple)
    for name, writer in writers.items():
        for segment, records, own_chunks in segments_with(generation, new_records):
            writer.take(segment, new_records[records], new_chunks[own_chunks])
        file = retriever(name).file
        rows[file] = writer.write(folder / file, passages)
    if has_tokens:
        dim = generation.manifest.recipe.encoder_card.dim
        rows[TOKENS] = token_table.write(partial(_stretches, generation, order), folder / TOKENS, dim=dim)
    for segment in reversed(generation.segments):
        if segment.has(GRAPH):
            (folder / GRAPH).write_bytes((segment.folder / GRAPH).read_bytes())
            rows[GRAPH] = segment.manifest.rows(GRAPH) or 0
            break
    return rows


def _vectors(generation: Generation, chunks: Rows) -> Iterator[Vectors]:
    for start in range(0, len(chunks), _BLOCK):
        yield indexes.stored_vectors(generation, chunks[start : start + _BLOCK])


def _stretches(generation: Generation, order: Rows) -> Iterator[Stretch]:
    """Yield the packed tokens of records in an order."""
    tables: dict[str, TokenTable] = {}
    for segment, first, end in runs(generation, order):
        if segment.name not in tables:
            tables[segment.name] = TokenTable(pickles.load(segment.file(TOKENS)))
        yield tables[segment.name].stretch(int(segment.starts[first]), int(segment.starts[end]))
