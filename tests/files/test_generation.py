"""Generations: records and chunks are read back as they were written, and found by their ids."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from retrieve_cli.contracts import Chunk, Field, Record
from retrieve_cli.errors import IndexCorrupt, UsageError
from retrieve_cli.ingest.segment_writer import NewRecord, SegmentWriter
from retrieve_cli.storage import pickles
from retrieve_cli.storage.generation import Generation, opened
from retrieve_cli.storage.manifest import FileEntry, Manifest
from retrieve_cli.storage.recipe import Recipe
from retrieve_cli.storage.records.columns import FILE as COLUMNS
from retrieve_cli.storage.records.view import RecordView
from retrieve_cli.storage.segment import CHUNKS, OFFSETS, RECORDS

ORIGIN = bytes(20)

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
sizes = st.dictionaries(ids, st.integers(1, 3), max_size=6)
shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def record(name: str, text: str = "lungs in CT") -> Record:
    return Record(
        id=name,
        name=name,
        text=text,
        kind="catalog",
        source="tools.jsonl",
        line=7,
        description="d" * 5000,
        keywords=("x",),
        fields=(Field("name", name, 2.0),),
        supporting_data={"modalities": ["CT"]},
    )


def write(folder: Path, chunks: dict[str, int]) -> Generation:
    writer = SegmentWriter(folder)
    for name, count in chunks.items():
        cut = [Chunk(name, at, f"text {at}", at, at + 6, 1, 1) for at in range(count)]
        made = record(name)
        writer.add([NewRecord(made, cut, ORIGIN)])
    assert writer.finish() == {RECORDS: len(chunks), COLUMNS: len(chunks), CHUNKS: sum(chunks.values())}
    return read(folder)


def read(folder: Path) -> Generation:
    rows = (folder / RECORDS).read_bytes().count(b"\n") if (folder / RECORDS).exists() else 1
    entry = FileEntry("0" * 40, 0, rows)
    manifest = Manifest(recipe=Recipe(), sources=(), files={RECORDS: entry, COLUMNS: entry})
    return opened(manifest, [(folder, manifest)])


@shared_folder
@given(chunks=sizes)
def test_ids_of_any_letters_lead_to_their_rows_and_back(chunks: dict[str, int], tmp_path: Path) -> None:
    generation = write(tmp_path, chunks)

    assert [generation.record_id(row) for row in range(len(chunks))] == list(chunks)
    assert [generation.exact_row(name) for name in chunks] == list(range(len(chunks)))
    named = [f"{name}#{at}" for name, count in chunks.items() for at in range(count)]
    assert [generation.chunk_id(row) for row in range(len(named))] == named
    assert [generation.chunk_row(name) for name in named] == list(range(len(named)))
    assert [generation.chunks[row]["id"] for row in range(len(named))] == named


def test_an_empty_generation_has_no_rows(tmp_path: Path) -> None:
    generation = write(tmp_path, {})

    assert (len(generation.records), len(generation.chunks)) == (0, 0)
    assert generation.exact_row("a") is None


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("a", "is not a chunk id"),
        ("a#²", "is not a chunk id"),
        ("a#2", "has 2 chunks"),
        pytest.param("a#" + "9" * 5000, "chunk", id="a number too long to read"),
        ("b#0", "no record 'b'"),
    ],
)
def test_a_chunk_that_is_not_there_is_refused_with_the_reason(wanted: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        RecordView(write(tmp_path, {"a": 2}), None).find_chunk(wanted)


@pytest.mark.parametrize("name", [RECORDS, CHUNKS, OFFSETS])
def test_a_generation_without_one_of_its_files_is_refused(name: str, tmp_path: Path) -> None:
    write(tmp_path, {"a": 2})
    (tmp_path / name).unlink()

    with pytest.raises(IndexCorrupt, match=name):
        read(tmp_path)


def change_offsets(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    offsets = dict(pickles.load(folder / OFFSETS))
    change(offsets)
    pickles.dump(offsets, folder / "other.pkl")
    (folder / "other.pkl").replace(folder / OFFSETS)


@pytest.mark.parametrize("part", ["records", "chunks", "starts", "ids", "id_ends", "ranks", "lines"])
def test_offsets_without_one_of_their_parts_are_refused(part: str, tmp_path: Path) -> None:
    write(tmp_path, {"a": 2})
    change_offsets(tmp_path, lambda offsets: offsets.pop(part))

    with pytest.raises(IndexCorrupt, match="incomplete"):
        read(tmp_path)


def test_tables_that_disagree_about_their_rows_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {"a": 2})
    change_offsets(tmp_path, lambda offsets: offsets.update(starts=np.array([0, 1])))

    with pytest.raises(IndexCorrupt, match="disagree"):
        read(tmp_path)
