"""Other engines at the edits of `make bench-edits`; each process imports its own engine only.

python -P benchmarks/edit_peers.py build|change|add NAME FOLDER LINES

LINES is a file of JSON Lines: the whole catalog, or the records that changed. `add` prints the CPU and wall seconds
from an open index until a search finds the added record. Records have a text and no vector.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("RUST_LOG", "error")
HEAP = 50_000_000
BATCH = 10_000


def records(path: Path) -> Iterator[dict[str, str]]:
    """Yield the records of a file."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def text_of(record: dict[str, str]) -> str:
    return f"{record['name']} {record['description']}"


# -------------------------------------------------------------------------------------------------- tantivy


def tantivy_build(folder: Path, lines: Path) -> None:
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_text_field("id", stored=True, tokenizer_name="raw")
    schema.add_text_field("text", stored=True, tokenizer_name="en_stem")
    index = tantivy.Index(schema.build(), path=str(folder))
    writer = index.writer(heap_size=HEAP, num_threads=1)
    for record in records(lines):
        writer.add_document(tantivy.Document(id=record["id"], text=text_of(record)))
    writer.commit()
    writer.wait_merging_threads()


def tantivy_change(folder: Path, lines: Path) -> None:
    import tantivy

    index = tantivy.Index.open(str(folder))
    writer = index.writer(heap_size=HEAP, num_threads=1)
    for record in records(lines):
        writer.delete_documents("id", record["id"])
        writer.add_document(tantivy.Document(id=record["id"], text=text_of(record)))
    writer.commit()
    writer.wait_merging_threads()


def tantivy_open(folder: Path) -> tuple[Callable[[dict[str, str]], None], Callable[[str], list[str]]]:
    import tantivy

    index = tantivy.Index.open(str(folder))
    writer = index.writer(heap_size=HEAP, num_threads=1)

    def add(record: dict[str, str]) -> None:
        writer.add_document(tantivy.Document(id=record["id"], text=text_of(record)))
        writer.commit()
        index.reload()

    def search(word: str) -> list[str]:
        searcher = index.searcher()
        hits = searcher.search(index.parse_query(word, ["text"]), 10).hits
        return [searcher.doc(place).get_first("id") for _, place in hits]

    return add, search


# -------------------------------------------------------------------------------------------------- lancedb


def lancedb_build(folder: Path, lines: Path) -> None:
    import lancedb
    import pyarrow as pa
    from lancedb.index import FTS

    schema = pa.schema([("id", pa.string()), ("text", pa.string())])
    table = lancedb.connect(str(folder)).create_table("texts", schema=schema)
    rest = records(lines)
    while block := [{"id": record["id"], "text": text_of(record)} for record in islice(rest, BATCH)]:
        table.add(block)
    table.create_index("text", config=FTS())


def lancedb_change(folder: Path, lines: Path) -> None:
    import lancedb

    table = lancedb.connect(str(folder)).open_table("texts")
    changed = [{"id": record["id"], "text": text_of(record)} for record in records(lines)]
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(changed)


def lancedb_open(folder: Path) -> tuple[Callable[[dict[str, str]], None], Callable[[str], list[str]]]:
    import lancedb

    table = lancedb.connect(str(folder)).open_table("texts")

    def add(record: dict[str, str]) -> None:
        table.add([{"id": record["id"], "text": text_of(record)}])

    def search(word: str) -> list[str]:
        return [hit["id"] for hit in table.search(word, query_type="fts").limit(10).to_list()]

    return add, search


# ------------------------------------------------------------------------------------------------------ all

PEERS: dict[str, dict[str, Any]] = {
    "tantivy": {"build": tantivy_build, "change": tantivy_change, "open": tantivy_open},
    "lancedb": {"build": lancedb_build, "change": lancedb_change, "open": lancedb_open},
}


def added(name: str, folder: Path, lines: Path) -> None:
    """Print what it takes until a record is found by the first word of its name."""
    [record] = records(lines)
    add, search = PEERS[name]["open"](folder)
    search("nothing")
    wall, cpu = time.perf_counter(), time.process_time()
    add(record)
    assert record["id"] in search(record["name"].split()[0])
    print(json.dumps({"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}))


def main(what: str, name: str, folder: str, lines: str) -> None:
    """Build, change or add."""
    place = Path(folder)
    if what == "build":
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    if what == "add":
        added(name, place, Path(lines))
    else:
        PEERS[name][what](place, Path(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
