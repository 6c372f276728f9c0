"""Processes that read documents: started when there is work, used for many documents, ended without work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from signal import SIGKILL, SIGXCPU, Signals
from threading import Event, Lock, Thread
from typing import Any

import msgspec

from retrieve_cli.contracts import Parsed
from retrieve_cli.cores import available_cores
from retrieve_cli.errors import BadDocument, NotADocument, RetrieveError, printable, shortened
from retrieve_cli.sources.formats.formats import MB, ParsingLimits
from retrieve_cli.sources.formats.processes import messages
from retrieve_cli.sources.formats.processes.messages import ParseRequest
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.pictures import checked_picture
from retrieve_cli.version import FOLDER

_CHILD = "retrieve_cli.sources.formats.processes.child"
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "SYSTEMROOT", "PATH")
"""Variables that may be needed to start Python. No other one is passed on: they hold secrets."""
_ON = ("PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE", "PYTHONUTF8", "PYTHONSAFEPATH")
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MALLOC_ARENA_MAX")
_SET = {"LC_ALL": "C.UTF-8", **dict.fromkeys((*_ON, *_THREADS), "1")}
_IDLE_S, _STARTS = 5.0, 3
"""Seconds after which a process without work ends; times that one is started for a document that none begins with."""
_WALL_PER_CPU, _WALL_S, _TICK_S = 4, 30.0, 0.25
"""Wall-clock limit: so many times the CPU limit and these seconds, counted in ticks: a program that was stopped
meanwhile does not take its processes for slow."""
_CPU_KEY, _MEMORY_KEY = "parsing.cpu_s sets the limit", "parsing.memory_mb sets the limit"


class ReaderProcess:
    """A process that reads one document at a time, and is started again after its end. It is not trusted.

    It is used by one thread, which must live as long as the process: the kernel ends it with that thread.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection
        self._stopped = False

    def read(self, request: ParseRequest) -> Parsed | bytes:
        """Return the document, or its picture. Raises: BadDocument; RetrieveError: no process can be started."""
        try:
            (content,) = self.answers(request)
            return messages.unpacked(content) if request.pages is None else checked_picture(content)
        except (ValueError, TypeError, RecursionError) as error:
            raise self._forged(error) from error

    def answers(self, request: ParseRequest) -> Iterator[bytes]:
        """Yield some rows of a table, and at last nothing; or a document or a picture. Raises: as in `read`."""
        try:
            contents = [files.read_bytes(request.path, limit=request.max_bytes)]
            if request.sidecar is not None:
                contents.append(files.read_bytes(request.sidecar, limit=request.sidecar_bytes))
        except OSError as error:
            raise BadDocument(f"it cannot be read: {error.strerror or error}") from error
        for _ in range(_STARTS):
            self._page, self._begun, self._late, done = 0, False, "", Event()
            try:
                self._start()
                Thread(target=self._watch, args=(done, request.limits.cpu_s), daemon=True).start()
                yield from self._exchange(request, contents)
                return
            except ValueError as error:
                raise self._forged(error) from error
            except (EOFError, OSError) as error:
                code = self.close()
                if self._begun or self._late or self._stopped:
                    raise self._ended(code, request.limits.cpu_s) from error
            finally:
                done.set()
        hint = f"check the limits of this machine; `{sys.executable} -m {_CHILD}` may show the reason"
        raise RetrieveError("no process that reads documents can be started", hint=hint)

    def _start(self) -> None:
        """Start a process unless one waits for work. Raises: OSError."""
        if self._process is not None and not self._pipe.poll():
            return  # it has not ended, and does not speak without being asked
        self.close()
        self._pipe, theirs = Pipe()
        package = str(Path(FOLDER).parent)
        paths = [package, *(path for path in sys.path if Path(path).is_absolute() and path != package)]
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        words = [sys.executable, "-m", _CHILD, *map(str, (theirs.fileno(), os.getpid(), self._memory_bytes))]
        environment = {**kept, **_SET, "PYTHONPATH": os.pathsep.join(paths)}
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  this program
                words, cwd="/", env=environment, pass_fds=[theirs.fileno()], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        if self._stopped:
            self._kill()

    def _watch(self, done: Event, cpu_s: float) -> None:
        """End the process unless a document is read in time."""
        wall_s = _WALL_PER_CPU * cpu_s + _WALL_S
        if not any(done.wait(_TICK_S) for _ in range(int(wall_s / _TICK_S) + 1)):
            self._late = f"no end within {wall_s:,.0f} s"
            self._kill()

    def _exchange(self, request: ParseRequest, contents: list[bytes]) -> Iterator[bytes]:
        """Send a request and yield its answers. Raises: EOFError, OSError, ValueError."""
        self._pipe.send((request._replace(path=Path(), sidecar=None), contents))
        form = b""
        while form != messages.DONE:
            answer = self._pipe.recv_bytes(messages.LONGEST)
            form, content = answer[:1], answer[1:]
            self._begun = True
            if form in (messages.ROWS, messages.DONE):
                yield content
            elif form == messages.PAGE:
                self._page = int.from_bytes(content, "little")
            elif form == messages.OUT_OF_MEMORY:
                raise self._rejection(f"out of memory: limit {self._memory_bytes / MB:,.0f} MB", _MEMORY_KEY)
            elif form == messages.REJECTED:
                *texts, foreign = msgspec.json.decode(content, type=tuple[str, str, bool])
                message, hint = (shortened(printable(text), 500) for text in texts)
                raise (NotADocument if foreign else BadDocument)(message, hint=hint)
            elif form != messages.BEGUN:
                raise ValueError("an unknown form")

    def _ended(self, code: int, cpu_s: float) -> BadDocument:
        if self._stopped:
            return self._rejection("reading was stopped")
        if self._late:
            return self._rejection(self._late, _CPU_KEY)
        if code == -SIGXCPU:
            return self._rejection(f"more than {cpu_s:g} s of CPU time", _CPU_KEY)
        if code >= 0:
            return self._rejection(f"exit code {code}")
        hint = "" if code == -SIGKILL else "a larger parsing.memory_mb may help"  # C that gets no memory ends like that
        return self._rejection(f"signal {Signals(-code).name}", hint)

    def _forged(self, error: Exception) -> BadDocument:
        self.close()  # a document may have taken it over
        return self._rejection(f"an answer that makes no sense: {shortened(str(error))}")

    def _rejection(self, reason: str, hint: str = "") -> BadDocument:
        where = f" on page {self._page}" if 0 < self._page < 10_000_000 else ""
        return BadDocument(f"the reader ended{where} ({reason})", hint=hint)

    def stop(self) -> None:
        """End the process at once, from any thread, and start no other one."""
        self._stopped = True
        self._kill()

    def _kill(self) -> None:
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> int:
        """End the process at once, and return its exit code: its own one if it had ended."""
        if (process := self._process) is None:
            return 0
        process.kill()
        self._pipe.close()
        self._process = None
        return process.wait()


Job = tuple[ParseRequest, Future[Any]]


class ParserPool:
    """Reads files in processes, on as many cores as it may use; first come, first served."""

    def __init__(self, memory_bytes: int, *, workers: int | None = None) -> None:
        """`workers` is the number of processes, by default the number of cores that this process may use."""
        self._memory_bytes = memory_bytes
        self._most = workers or available_cores()
        self._lock = Lock()
        self._reset()

    def _reset(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._open: set[Future[Any]] = set()
        self._workers: dict[ReaderProcess, Thread] = {}

    def begin(self, request: ParseRequest) -> Future[Any]:
        """Begin to read a file, in its turn; the future has the document, its picture, or the error of `read`."""
        future: Future[Any] = Future()
        with self._lock:
            self._open.add(future)
            future.add_done_callback(self._open.discard)
            self._jobs.put((request, future))
            self._workers = {one: thread for one, thread in self._workers.items() if thread.is_alive()}
            if len(self._workers) < min(self._most, len(self._open)):
                worker = ReaderProcess(self._memory_bytes)
                self._workers[worker] = Thread(target=self._work, args=(worker, self._jobs), daemon=True)
                self._workers[worker].start()
        return future

    def close(self) -> None:
        """End all processes at once, and stop what waits. The pool can still be used."""
        with self._lock:
            workers = list(self._workers)
            self._reset()
        for worker in workers:
            worker.stop()

    def _work(self, worker: ReaderProcess, jobs: SimpleQueue[Job]) -> None:
        """Read files until none comes for some time: the work of a thread, which has one process."""
        with closing(worker):
            while (job := self._next(worker, jobs)) is not None:
                request, future = job
                try:
                    future.set_result(worker.read(request))
                except BaseException as error:  # noqa: BLE001  raised in the thread that waits
                    future.set_exception(error)
                del job, future

    def _next(self, worker: ReaderProcess, jobs: SimpleQueue[Job]) -> Job | None:
        with suppress(Empty):
            return jobs.get(timeout=_IDLE_S)
        with self._lock:
            with suppress(Empty):
                return jobs.get_nowait()
            self._workers.pop(worker, None)
        return None


def table_lines(path: Path, kind: str, sheet: str, *, limits: ParsingLimits) -> Iterator[bytes]:
    """Yield the lines of JSON of a table that a package reads, see `table_formats`.

    Raises:
        BadDocument: it cannot be read.
        RetrieveError: no process can be started.
        OSError: the file cannot be read.
    """
    if (size := path.stat().st_size) > limits.max_bytes:
        message = f"it has {size / MB:,.1f} MB; the limit is {limits.max_bytes / MB:,.0f} MB"
        raise BadDocument(message, hint="parsing.max_mb sets the limit")
    sha1, module = files.sha1_of(path, limit=limits.max_bytes), "retrieve_cli.sources.catalogs.table_formats"
    request = ParseRequest(module, path, sha1, "table", limits, limits.max_bytes, table=(kind, sheet))
    with closing(ReaderProcess(limits.memory_bytes)) as worker:
        for rows in worker.answers(request):
            yield from rows.split(b"\n") if rows else ()
