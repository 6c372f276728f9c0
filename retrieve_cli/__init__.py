"""`retrieve`: hybrid search over catalogs and folders of documents, fully offline. This is the plan of the package.

    in :  sources -> Record -> chunking -> Chunk -> encoders -> retriever writers -> storage: generations/<id>/
    out:  Request -> queries -> Query -> Pipeline -> Ranking -> Answer -> output

Indexing (`ingest/`) and searching (`search/`) each read top to bottom in that order and meet only in storage. A package
imports only from packages below it; packages in one line do not import one another. tests/program/test_structure.py
reads this list and checks every import against it.

    __main__        python -m retrieve_cli
    cli             one file per command: parse, call, print
    serving         HTTP: thin adapters over search and the models
    api             the Python API: an open index that answers
    experiments     work with judged queries: evaluate, compare, ablate, tune, calibrate, report
    doctor          diagnosis of problems, with the command that fixes each
    snapshots       a generation as one file: create, list, verify, restore
    inspect         status, records, files, why, history, diff, verify, the log of queries
    output          Answer -> text, table, json, jsonl, csv, md, trec; the journal of runs
    models          models that the stages need: list, pull, verify, export
    search ingest   Request -> Answer over the current generation; sources -> published generation
    assemble        settings -> parts: names the concrete sources, encoders, retrievers and rerankers
    sources documents chunking encoders executors retrievers engines graph queries stages evaluation records websearch
    warm            a process that is ready answers for a command
    storage web config
    untrusted       files and YAML from outside, read within bounds of kind, size and depth
    terms           different names for the same thing: tenants, modalities, licences; numbers in words
    contracts       data types and interfaces of the parts
    layout          structure of a document's text, and its places on pages
    numerics        arithmetic with the same bits in any batch
    processes       worker processes: start, frames, time limits, end
    progress        long work as named tasks: how much is done, of how much, how fast
    frozen          fast definition of frozen dataclasses
    errors          failures that a user can act on
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing: nothing is imported before an interruption has an answer, see __main__
if TYPE_CHECKING:
    import os
    from typing import Any

    from retrieve_cli.api.index import Index

__all__ = ["__version__", "open", "read_artifact"]
__version__ = "0.1.0"


def open(  # noqa: A001  `retrieve_cli.open`, as `gzip.open`
    artifacts: str | os.PathLike[str] = "artifacts",
    *,
    config: str | os.PathLike[str] | None = None,
    generation: str | None = None,
) -> Index:
    """Open an index for searching: the current generation, or the one named.

        import retrieve_cli

        with retrieve_cli.open("artifacts") as index:
            for result in index.search("segment lungs in CT", k=3).results:
                print(result.doc_id, result.name, result.score)

    `config` is a configuration file; by default `./config.yaml` if there is one. Environment variables
    (`RETRIEVE_SEARCH__K=5`) win over it, as on the command line.

    Raises:
        retrieve_cli.errors.IndexMissing: nothing was built there yet.
        retrieve_cli.errors.IndexCorrupt: the index is damaged.
        retrieve_cli.errors.UsageError: the configuration or the generation is not there, or cannot be read.
    """
    from retrieve_cli.api.index import open_index

    return open_index(artifacts, config=config, generation=generation)


def read_artifact(path: str | os.PathLike[str]) -> Any:
    """Return the content of a `.pkl` file of an index: plain containers, and NumPy arrays, read-only and memory-mapped.

    Nothing in the file is executed. In a generation it is first compared with its SHA-1 in `manifest.json`.

    Raises:
        retrieve_cli.errors.UsageError: it is not a `.pkl` file, or its bytes are in an engine.
        retrieve_cli.errors.IndexCorrupt: it is missing or damaged, or contains anything but plain values and arrays.
    """
    from pathlib import Path

    from retrieve_cli.storage import pickles

    return pickles.read_artifact(Path(path))
