"""Collections as catalogs and as folders of chunked documents, opened as plain arrays."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.process import DATA, ENVIRONMENT, RETRIEVE, WORK, run
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import TermWeights, Unit
from retrieve_cli.retrieval.retrievers.impacts import Bm25Index
from retrieve_cli.retrieval.retrievers.term_postings import vocabulary_of
from retrieve_cli.retrieval.retrievers.vector_index import FlatIndex, open_index
from retrieve_cli.search.encoding import QueryModels
from retrieve_cli.storage import pickles
from retrieve_cli.storage.generation import Generation, open_generation
from retrieve_cli.storage.postings import PostingTable
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors

DOCUMENTS = "kubernetes-docs"
"""A folder without judgments; its queries are words from its chunks."""
COLLECTIONS = ("scifact", "cranfield", "biii", "sealtools", "toollinkos", "chunking-eval", "biotools", DOCUMENTS)
LAYOUTS = ("catalog", "folder")
FOLDER = WORK / "statistics"
_CHUNK_TOKENS = "64"
_MADE_QUERIES = 400


@dataclass(frozen=True)
class Layout:
    """A collection as it was indexed, with its queries."""

    vectors: Vectors
    starts: Rows
    unit: Unit
    """Unit of a BM25 row."""
    table: PostingTable
    queries: Vectors
    terms: list[TermWeights]
    relevant: list[dict[int, float]]
    """Grades by row of the record."""
    ideal: list[list[float]]
    """All grades of a query, highest first."""

    @property
    def judged(self) -> bool:
        """True if there are judgments."""
        return any(self.ideal)


def built(collection: str, kind: str, encoder: str) -> bool:
    """Build an index if there is none; return False if the collection has no such layout."""
    artifacts = FOLDER / encoder / f"{collection}-{kind}"
    if collection == DOCUMENTS and kind == "catalog":
        return False
    if not (artifacts / "current").exists():
        sources = ("--catalog", str(DATA / collection / "corpus.jsonl"))
        environment = {**ENVIRONMENT, "RETRIEVE_ENCODER__KIND": encoder}
        if kind == "folder":
            sources = ("--docs-dir", str(_folder(collection)))
            environment["RETRIEVE_CHUNKING__SIZE"] = _CHUNK_TOKENS
        run((*RETRIEVE, "build", *sources, "--artifacts", str(artifacts)), fails=True, environment=environment)
    return True


def _folder(collection: str) -> Path:
    """Return the folder of a collection's documents, one file per record."""
    if collection == DOCUMENTS:
        return DATA / DOCUMENTS / "markdown"
    folder = FOLDER / "texts" / collection
    folder.mkdir(parents=True, exist_ok=True)
    for number, record in enumerate(_lines(collection, "corpus")):
        text = f"# {record.get('title') or 'Untitled'}\n\n{record['text']}\n"
        (folder / f"{number:06}.md").write_text(text, "utf-8")
    return folder


def opened(collection: str, kind: str, encoder: str) -> Layout:
    """Open what `built` made, and prepare the queries."""
    with open_generation(Store(FOLDER / encoder / f"{collection}-{kind}")) as generation:
        stored = pickles.load(generation.file("bm25.pkl"))
        index = open_index(generation.file("dense.faiss"), hnsw_ef_search=1)
        assert isinstance(index, FlatIndex)
        vectors = index.vectors(np.arange(len(index)))
        names, texts, grades = _queries(collection, generation)
        encoded = QueryModels(Settings(), generation.manifest.recipe).encoder.encode_queries(texts)
        table = PostingTable(*(np.array(stored[name]) for name in ("starts", "rows", "impacts")), stored["length"])
        numbers = {term: number for number, term in enumerate(vocabulary_of(stored))}
        terms = Bm25Index(stored).analyzer.terms
        weights = [_weights(Counter(map(numbers.get, terms(text)))) for text in texts]
        rows = _records(collection, kind, generation)
        return Layout(
            vectors=vectors,
            starts=np.array(generation.starts),
            unit=stored["unit"],
            table=table,
            queries=encoded,
            terms=weights,
            relevant=[{rows[doc]: grade for doc, grade in grades[name].items() if doc in rows} for name in names],
            ideal=[sorted(grades[name].values(), reverse=True) for name in names],
        )


def _queries(collection: str, generation: Generation) -> tuple[list[str], list[str], dict[str, dict[str, float]]]:
    """Return ids and texts of the judged queries and their grades; queries from chunks if there are no judgments."""
    if collection == DOCUMENTS:
        generator, chunks = np.random.default_rng(0), list(generation.chunk_texts())
        words = [text.split() for text in chunks[:: max(1, len(chunks) // _MADE_QUERIES)]]
        made = [" ".join(each[4 : 4 + int(generator.integers(2, 9))]) for each in words if len(each) > 12]
        names = list(map(str, range(len(made))))
        return names, made, {name: {} for name in names}
    grades: dict[str, dict[str, float]] = {}
    for line in (DATA / collection / "qrels" / "test.tsv").read_text("utf-8").splitlines()[1:]:
        query, doc, grade = line.split("\t")
        grades.setdefault(query, {})[doc] = float(grade)
    judged = [each for each in _lines(collection, "queries") if each["_id"] in grades]
    return [each["_id"] for each in judged], [each["text"] for each in judged], grades


def _records(collection: str, kind: str, generation: Generation) -> dict[str, int]:
    """Return the row of each record by its id in the collection."""
    ids = [generation.record_id(row) for row in range(len(generation.starts) - 1)]
    if kind == "folder" and collection != DOCUMENTS:
        names = [each["_id"] for each in _lines(collection, "corpus")]
        ids = [names[int(Path(name).stem)] for name in ids]
    return {name: row for row, name in enumerate(ids)}


def _weights(counts: Counter[int | None]) -> TermWeights:
    """Return the terms of a query that the index has, with their counts."""
    known = sorted((term, count) for term, count in counts.items() if term is not None)
    terms, numbers = zip(*known, strict=True) if known else ((), ())
    return TermWeights(np.array(terms, np.int32), np.array(numbers, np.float32))


def _lines(collection: str, name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (DATA / collection / f"{name}.jsonl").read_text("utf-8").splitlines()]
