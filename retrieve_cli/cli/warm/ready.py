"""State of the warm process: the modules of a query, the open index, and the model that encodes queries.

The process answers only while the files that it has loaded are unchanged.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble.registry import retriever
from retrieve_cli.cli.main import command_of, program
from retrieve_cli.cli.warm.server import WarmState
from retrieve_cli.config.loading import file_of
from retrieve_cli.config.plugins import LLM, load as load_plugin
from retrieve_cli.contracts import Request
from retrieve_cli.errors import RetrieveError
from retrieve_cli.frozen import replace
from retrieve_cli.output import text
from retrieve_cli.output.formats import as_json
from retrieve_cli.output.styled_lines import LineRenderer
from retrieve_cli.search.opened import Opened, forget, keep, kept
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.version import FOLDER

if TYPE_CHECKING:
    from retrieve_cli.cli.options import Shared
    from retrieve_cli.search.options import SearchOptions

_COMMAND = "answer_records answering failures folder_queries printing query requests stdin_queries"
_OUTPUT = (
    "block console_tables explanation formats journal places plain_text prompt reasons run_account snippet "
    "styled_lines text"
)
_OTHERS = (
    "yaml", "numpy.linalg", "rich.console", "rich.table", "retrieve_cli.untrusted.nearest",
    "retrieve_cli.assemble.unapplied",
)  # fmt: skip
_THREADED = ("faiss", "onnxruntime", "openvino", "tokenizers", "torch", "transformers")
"""Packages that start threads, which a copy of a process does not have: each copy loads them by itself."""
_LIBRARY = ".so"
"""Part of the names of libraries; other files that are mapped are the index, a model, or a source."""
_COLUMNS = 100
_ANYTHING = "image"
"""The query that is asked if the first record has no name."""


class PreparedIndex:
    """The state that copies of this process begin with."""

    def __init__(self, shared: Shared) -> None:
        """Load and open everything.

        Raises:
            RetrieveError: the configuration cannot be read, or there is no index that can be opened.
        """
        self._shared = shared
        own = [str(path) for path in Path(FOLDER).rglob("*") if path.suffix in _CODE]
        # With the folders whose time changes when a package is installed.
        self._program = _stamps([*own, *(entry for entry in sys.path if entry.endswith(_INSTALLED))])
        commands = (f"retrieve_cli.cli.{name}" for name in _COMMAND.split())
        for name in (*commands, *(f"retrieve_cli.output.{name}" for name in _OUTPUT.split()), *_OTHERS):
            import_module(name)
        self._settings = shared.settings()
        self._configuration = file_of(shared.config)
        self._rehearsal: Callable[[], None] | None = None
        self._open()

    def prepare(self) -> WarmState:
        """Follow the current generation; return the change since the last call."""
        if _changed(self._program) or _changed(self._libraries):
            return WarmState.GONE
        opened = kept()
        if (
            opened is not None
            and opened.store.live() == opened.generation.id
            and self._configuration == file_of(self._shared.config)
            and _changed(self._index) is None
        ):
            return WarmState.SAME
        with suppress(RetrieveError, OSError):  # the copy opens it by itself, and reports the error
            self._settings = self._shared.settings()
            self._open()
        return WarmState.OTHER

    def let_go(self) -> bool:
        """Close an index that is not current any more: its files can be removed then. Return True if one was closed."""
        opened = kept()
        if opened is None or opened.store.live() == opened.generation.id:
            return False
        forget()
        self._rehearsal = None
        return True

    def rehearse(self) -> None:
        """Run the side-effect-free part of a call."""
        command_of("query").make_context("query", ["x"], parent=program().make_context("retrieve", ["query"]))
        if self._rehearsal is not None:
            self._rehearsal()

    def _open(self) -> None:
        """Open the current generation, and warm it. Raises: RetrieveError: it cannot be opened."""
        forget()
        gc.unfreeze()
        gc.collect()
        store = self._shared.store
        store = type(store)(store.path.resolve())
        opened = Opened.of(store, self._settings)
        self._rehearsal = warm(opened)
        self._configuration = file_of(self._shared.config)
        folder = opened.generation.folder
        models = [path for path in _mapped_files() if _LIBRARY not in path]
        self._index = _stamps([*map(str, (*folder.iterdir(), *filter(None, [self._configuration]))), *models])
        self._libraries = _stamps(path for path in _mapped_files() if _LIBRARY in path)
        keep(opened)
        gc.collect()
        gc.freeze()


def warm(opened: Opened) -> Callable[[], None] | None:
    """Answer a query as far as that starts no thread, asks no server and runs no plug-in: first in a copy, to see.
    Return the function that repeats it; None if no query is safe."""
    for answer in _queries(opened):
        if _is_safe(answer):
            answer()
            return answer
    return None


def _queries(opened: Opened) -> Iterator[Callable[[], None]]:
    """Yield queries by all stages, without reranking, and by words only."""
    settings = opened.settings
    local = opened.under(replace(settings, search=replace(settings.search, require_tenant=False)))
    records = opened.generation.records
    words = str(records[0].get("name") or _ANYTHING) if len(records) else _ANYTHING

    def query(options: SearchOptions) -> Callable[[], None]:
        def answer() -> None:
            with suppress(RetrieveError):
                answers = Searcher(local, options).answer([Request(words)])
                as_json(answers)
                with redirect_stdout(StringIO()):
                    text.print_answers(answers, LineRenderer(_COLUMNS), explain=False, timing=False, batch=False)

        return answer

    options = local.options()
    asks_server = opened.models.waits or LLM in (options.mode, *options.retrievers)
    if not asks_server:
        if settings.rerank.backend not in ("remote", "llm"):
            yield query(options)
        yield query(local.options(rerank=False))
    for name in opened.indexes:
        if retriever(name).form.name == "text":
            yield query(local.options(mode=name, rerank=False, expand=False))


def _is_safe(answer: Callable[[], None]) -> bool:
    """Run a query in a copy of this process; return True if this process may run it too."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            answer()
            threads = len(list(Path("/proc/self/task").iterdir()))
            code = int(
                threads > 1 or load_plugin.cache_info().misses > 0 or any(name in sys.modules for name in _THREADED)
            )
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


_Stamps = Mapping[str, tuple[int, ...] | None]
_CODE = (".py", ".yaml", ".tsv", ".html")
_INSTALLED = ("site-packages", "dist-packages")


def _mapped_files() -> list[str]:
    """Return the files that this process has mapped: libraries, weights, and an index."""
    paths: dict[str, None] = {}
    for line in Path("/proc/self/maps").read_bytes().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith(b"/"):
            paths[os.fsdecode(fields[5])] = None
    return list(paths)


def _stamps(paths: Iterable[str]) -> _Stamps:
    """Return a stamp of each file, which differs once the file has changed."""
    return {path: _stamp(path) for path in paths}


def _changed(before: _Stamps) -> str | None:
    """Return the first file that has changed."""
    return next((path for path, stamp in before.items() if stamp is None or _stamp(path) != stamp), None)


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        state = os.stat(path)  # noqa: PTH116  hundreds of them before each answer
    except OSError:
        return None
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns
