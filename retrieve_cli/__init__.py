"""Hybrid search over records and documents, fully offline: build an index, search it, read the answer.

    import retrieve_cli as retrieve

    index = retrieve.build([{"name": "lungmask", "description": "Segments lungs in CT.", "license": "MIT"}])
    answer = index.search("lungs in CT", k=5, filters={"license": "MIT"})
    for result in answer:
        print(result.doc_id, result.name, result.score)
    frame = answer.to_pandas()

`build` takes dicts, dataclasses, a DataFrame of pandas or Polars, an Arrow table, and paths of catalogs and folders.
`index.add(records)` and `index.delete(ids)` change its records, `index.sync()` publishes the changes.
`open("artifacts")` opens an index that was built before, here or by `retrieve build`. Every failure is a
`retrieve.errors.RetrieveError`.

docs/python.md has more examples, docs/architecture.md the plan of the package.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing: nothing is imported before an interruption has an answer, see __main__
if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import Any

    from retrieve_cli import errors
    from retrieve_cli.api.answers import IndexAnswer as Answer, IndexResult as Result
    from retrieve_cli.api.rows import Records
    from retrieve_cli.api.writable import WritableIndex as Index
    from retrieve_cli.version import __version__

__all__ = ["Answer", "Index", "Result", "__version__", "build", "errors", "open", "read_artifact"]
_ELSEWHERE = {
    "Answer": ("retrieve_cli.api.answers", "IndexAnswer"),
    "Index": ("retrieve_cli.api.writable", "WritableIndex"),
    "Result": ("retrieve_cli.api.answers", "IndexResult"),
    "__version__": ("retrieve_cli.version", "__version__"),
    "errors": ("retrieve_cli.errors", ""),
}
"""Names that are imported when they are first used: the module of each, and its name there."""


def __getattr__(name: str) -> Any:
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, inner = _ELSEWHERE[name]
    found = import_module(module)
    globals()[name] = found = getattr(found, inner) if inner else found
    return found


def __dir__() -> list[str]:
    return [*globals(), *_ELSEWHERE]


def build(
    records: Records,
    artifacts: str | os.PathLike[str] = "artifacts",
    *,
    config: str | os.PathLike[str] | None = None,
    progress: Callable[[str], object] = lambda _: None,
) -> Index:
    """Build an index, make it the current one of the folder `artifacts`, and return it open.

    `records` are dicts, dataclasses, objects of msgspec or Pydantic, a DataFrame of pandas or Polars, or a table of
    pyarrow: the index then has these records and no others. Cells that are None, NaN, NaT or NA are absent. Or it is a
    path, or a list of paths, of catalogs and folders, as `retrieve build` takes them. `progress` receives messages,
    such as `print`; `config` is as for `open`.

    Rejected records are named in a warning and in `index.report`. As on the command line, nothing is built if there
    are too many (`build.max_fail`).

    Raises:
        retrieve_cli.errors.UsageError: there are no records, or too many are rejected; a path is not a source.
        retrieve_cli.errors.Locked: another process is writing there.
    """
    from retrieve_cli.api.writable import build_index

    return build_index(records, artifacts, config=config, progress=progress)


def open(  # noqa: A001  `retrieve_cli.open`, as `gzip.open`
    artifacts: str | os.PathLike[str] = "artifacts",
    *,
    config: str | os.PathLike[str] | None = None,
    generation: str | None = None,
) -> Index:
    """Open an index for searching: the current generation, or the one named.

        with retrieve_cli.open("artifacts") as index:
            for result in index.search("segment lungs in CT", k=3):
                print(result.doc_id, result.name, result.score)

    `config` is a configuration file; by default `./config.yaml` if there is one. Environment variables
    (`RETRIEVE_SEARCH__K=5`) win over it, as on the command line.

    Raises:
        retrieve_cli.errors.IndexMissing: nothing was built there yet.
        retrieve_cli.errors.IndexCorrupt: the index is damaged.
        retrieve_cli.errors.UsageError: the configuration or the generation is not there, or cannot be read.
    """
    from retrieve_cli.api.writable import open_index

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
