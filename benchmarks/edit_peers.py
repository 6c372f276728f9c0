"""Other engines at the edits of `make bench-edits`; each process imports its own engine only.

python -P benchmarks/edit_peers.py build|change|add NAME FOLDER LINES

LINES is a file of JSON Lines: the whole catalog, or the records that changed. `add` prints the CPU and wall seconds
from an open index until a search finds the added record. Records have a text and no vector.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("RUST_LOG", "error")


class Tantivy:
    """An index of tantivy."""

    def __init__(self, folder: Path, *, new: bool) -> None:
        import tantivy

        self._document = tantivy.Document
        if new:
            schema = tantivy.SchemaBuilder()
            schema.add_text_field("id", stored=True, tokenizer_name="raw")
            schema.add_text_field("text", stored=True, tokenizer_name="en_stem")
            self._index = tantivy.Index(schema.build(), path=str(folder))
        else:
            self._index = tantivy.Index.open(str(folder))
        self._writer = self._index.writer(heap_size=50_000_000, num_threads=1)

    def put(self, records: list[dict[str, str]]) -> None:
        """Add records, or replace those of the same ids."""
        for record in records:
            self._writer.delete_documents_by_term("id", record["id"])
            self._writer.add_document(self._document(**record))
        self._writer.commit()
        self._index.reload()

    def search(self, word: str) -> list[str]:
        """Return ids of the best records."""
        searcher = self._index.searcher()
        hits = searcher.search(self._index.parse_query(word, ["text"]), 10).hits
        return [searcher.doc(place).get_first("id") for _, place in hits]

    def close(self) -> None:
        """Wait for merges."""
        self._writer.wait_merging_threads()


class LanceDB:
    """A table of LanceDB with a full-text index."""

    def __init__(self, folder: Path, *, new: bool) -> None:
        import lancedb

        self._base = lancedb.connect(str(folder))
        self._table = None if new else self._base.open_table("texts")

    def put(self, records: list[dict[str, str]]) -> None:
        """Add records, or replace those of the same ids."""
        if self._table is None:
            from lancedb.index import FTS

            self._table = self._base.create_table("texts", records)
            self._table.create_index("text", config=FTS())
        else:
            merge = self._table.merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(records)

    def search(self, word: str) -> list[str]:
        """Return ids of the best records."""
        assert self._table is not None
        return [hit["id"] for hit in self._table.search(word, query_type="fts").limit(10).to_list()]

    def close(self) -> None:
        """Nothing is left to do."""


PEERS: dict[str, Any] = {"tantivy": Tantivy, "lancedb": LanceDB}


def main(what: str, name: str, folder: str, lines: str) -> None:
    """Build, change or add."""
    given = [json.loads(line) for line in Path(lines).read_text("utf-8").splitlines()]
    records = [{"id": row["id"], "text": f"{row['name']} {row['description']}"} for row in given]
    Path(folder).mkdir(parents=True, exist_ok=True)
    engine = PEERS[name](Path(folder), new=what == "build")
    if what == "add":
        engine.search("nothing")
    wall, cpu = time.perf_counter(), time.process_time()
    engine.put(records)
    if what == "add":
        assert records[0]["id"] in engine.search(given[0]["name"])
        print(json.dumps({"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}))
    engine.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
