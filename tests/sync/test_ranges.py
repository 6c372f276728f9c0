"""Rows that stay are copied in ranges, and files that come out the same are shared: nothing of it shows."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from samples import Program
from sync.state import Fresh, Publish, live, records

from retrieve_cli.contracts import Chunk, Record
from retrieve_cli.ingest.generation_writer import CHUNK_LINES, RECORD_LINES, GenerationWriter, copy_moved
from retrieve_cli.storage.manifest import sha1
from retrieve_cli.storage.records.rows import chunk_row, record_row
from retrieve_cli.storage.tables import JsonlTable, TableWriter, encode_row

shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [',"line":7,"sha1":"', ',"start_line":1,"end_line":2,"tokens":3}\n', '"line":1', "\\", '"}\n{"']
)


def record(number: int, text: str) -> Record:
    return Record(
        id=f"{text}{number}",
        name=text,
        text=text,
        kind="catalog",
        source=text,
        line=number,
        metadata={"line": number, text: {"start_line": 1, "end_line": 2, "tokens": 3}},
    )


def rewritten(lines: list[bytes], folder: Path, rows: range, shift: int, chosen: str) -> bytes:
    """What is copied of a table with these lines."""
    path = folder / "old.jsonl"
    path.write_bytes(b"".join(lines))
    old = JsonlTable(path, np.cumsum([0, *map(len, lines)]))
    writer = TableWriter(folder / "new.jsonl")
    copy_moved(old, rows, writer, shift, CHUNK_LINES if chosen == "chunks" else RECORD_LINES)
    writer.close()
    new = JsonlTable(folder / "new.jsonl", np.array(writer.offsets))
    assert len(new) == len(rows)
    return b"".join(new.raw(row) for row in range(len(new)))


@shared_folder
@given(said=st.lists(texts, min_size=1, max_size=5), shift=st.integers(-3, 99), data=st.data())
@pytest.mark.parametrize("kind", ["records", "chunks", "of another version"])
def test_rows_that_moved_are_those_that_would_be_written(
    kind: str, said: list[str], shift: int, data: st.DataObject, tmp_path: Path
) -> None:
    each = [record(number + 5, text) for number, text in enumerate(said)]
    start = data.draw(st.integers(0, len(each) - 1))
    rows = range(start, data.draw(st.integers(start + 1, len(each))))
    if kind == "chunks":
        made = [chunk_row(one, Chunk(one.id, 0, one.text, 0, 1, one.line, one.line + 1, tokens=3)) for one in each]
        keys: tuple[str, ...] = ("start_line", "end_line")
    else:
        made, keys = [record_row(one) for one in each], ("line",)
    if kind == "of another version":
        made = [dict(reversed(row.items())) for row in made]
    wanted = [encode_row({**row, **{key: row[key] + shift for key in keys}}) for row in made[rows.start : rows.stop]]
    assert rewritten([encode_row(row) for row in made], tmp_path, rows, shift, kind) == b"".join(wanted)


@shared_folder
@given(said=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=9))
def test_the_digest_of_a_source_is_that_of_canonical_json(said: list[str], tmp_path: Path) -> None:
    writer = GenerationWriter(tmp_path)
    each = [record(number, f'{text}\x7f\x1f\b\f\n\r\t\u2028"\\/') for number, text in enumerate(said)]
    for one in each:
        writer.append(one, [Chunk(one.id, 0, one.text, 0, 1, 1, 1)], bytes(20))
    pairs = sorted([one.id, record_row(one)["sha1"]] for one in each)
    assert writer.digest() == sha1(pairs)
    assert writer.digest(1) == sha1(sorted([one.id, record_row(one)["sha1"]] for one in each[1:]))
    writer.close()


# ---------------------------------------------------------------------------------------------- shared files


def vectors(artifacts: Path) -> Path:
    return artifacts / "generations" / live(artifacts) / "dense.faiss"


def with_license(name: str) -> list[dict[str, object]]:
    """The catalog with another field that no text has."""
    return [{**row, "license": name} for row in records(0)]


@pytest.fixture(params=["flat", "hnsw"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RETRIEVE_DENSE__INDEX", request.param)
    return str(request.param)


def test_a_change_that_no_text_shows_leaves_the_vectors_and_a_graph_over_them_as_they_are(
    kind: str, artifacts: Path, publish: Publish, fresh: Fresh
) -> None:
    first = vectors(artifacts)
    publish(with_license("MIT"))
    second = vectors(artifacts)
    assert first != second
    assert first.samefile(second)
    assert live(fresh()) == live(artifacts)
    publish([{**row, "description": "another"} for row in records(0)])
    assert not vectors(artifacts).samefile(second)


def test_a_shared_file_outlives_the_generation_that_had_it_first(
    artifacts: Path, publish: Publish, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_STORE__KEEP", "1")
    first = vectors(artifacts)
    publish(with_license("MIT"))
    assert not first.exists()
    assert vectors(artifacts).stat().st_nlink == 1
    done = retrieve("inspect", "verify", "--json")
    assert done.code == 0, done.err
    assert json.loads(retrieve("query", "lungs", "--json").out)["results"]
    assert retrieve("sync", "--verify").code == 0


def test_where_there_are_no_links_the_file_is_written(
    artifacts: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch, fresh: Fresh
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    first = vectors(artifacts)
    publish(with_license("MIT"))
    assert not vectors(artifacts).samefile(first)
    assert live(fresh()) == live(artifacts)
