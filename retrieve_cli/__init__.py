"""`retrieve`: hybrid search over catalogs and folders of documents, fully offline. This is the plan of the package.

    in :  sources -> Record -> chunking -> Chunk -> encoders -> retriever writers -> storage: generations/<id>/
    out:  Request -> queries -> Query -> Pipeline -> Ranking -> Answer -> output

Indexing (`ingest/`) and searching (`search/`) each read top to bottom in that order and meet only in storage. A room
imports only from rooms below it; rooms in one line do not import one another. tests/program/test_structure.py reads
this list and checks every import against it.

    __main__        python -m retrieve_cli
    cli             one file per command: parse, call, print; warm/ a process that is ready answers for a command
    server          http/ mcp/ page/ auth/: thin adapters over api and the models
    evaluation      judgments, measures, intervals; evaluate, compare, ablate, tune, parity, report
    api             the Python API: an open index that answers; requests as values, the table of choices
    operations      status, records, why, history, diff, replay; doctor/ snapshots/ models/ (list, pull, verify, export)
    output          Answer -> text, table, json, jsonl, csv, md, trec, prompt; the journal of runs
    search ingest   Request -> Answer over the current generation; sources -> published generation
    assemble        settings -> parts: names the concrete sources, encoders, retrievers, engines, rerankers, providers
    sources models retrieval engines websearch
    storage http config
    untrusted       the door for foreign bytes: files, JSON, YAML, frames of workers, bounded in kind, size and depth
    contracts       the values that flow and the protocols: read this first; layout of documents, progress, terms/
    numerics        arithmetic with the same bits in any batch
    frozen          fast definition of frozen dataclasses
    errors          failures that a user can act on

    search          Request -> Answer: questions, plan, rankings, results, context, budget
    ingest          sources -> generation: plan, build, sync, reuse, embedding
    sources         catalogs/ folders/ remote/ inbox; formats/ bytes -> text with places; chunking/
    models          encoders/ rerankers/ remote/ runtimes/; executors/ where embedding runs
    retrieval       retrievers/ stages/ queries/ graph/; calibration
    engines         databases for an index: one life cycle, four drivers
    websearch       providers, merging of works, stored answers
    storage         generations on disk, `current`, columns, postings, caches, pickles
    http            the only importer of an HTTP client: transport, retries, credentials, address rules
    config          every key with its default; reading, validating and editing config.yaml; trust
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # not from typing: nothing is imported before an interruption has an answer, see __main__
if TYPE_CHECKING:
    import os
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    from retrieve_cli.api.index import Index

__all__ = ["__version__", "open", "read_artifact"]
__version__ = "0.1.0"


class _Moved:
    """Finder of the modules that plug-ins import by the names of earlier versions: the same modules, not copies."""

    FOLDERS = {"retrievers": "retrieval", "encoders": "models"}  # noqa: RUF012  no typing here

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        package, _, module = name.partition(".")
        folder, _, rest = module.partition(".")
        if package != __name__ or folder not in self.FOLDERS:
            return None
        from importlib import import_module
        from importlib.machinery import ModuleSpec

        found = import_module(".".join([__name__, self.FOLDERS[folder], folder, rest]).rstrip("."))
        # A loader in all but its base class, whose import takes time.
        return ModuleSpec(name, self, origin=found.__name__, loader_state=found.__spec__)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[str(spec.origin)]

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own specification again, which the import machinery has replaced."""
        module.__spec__ = module.__spec__ and module.__spec__.loader_state


sys.meta_path.insert(0, _Moved())


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
