"""Progress of a fetch by a library that shows none of its own: the bytes that lie in the folder it writes into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from retrieve_cli.progress.tasks import BYTES, Task, shown, task

_PAUSE = 0.5
"""Seconds between two looks."""


@contextmanager
def watching(folder: Path, name: str, total: Callable[[], int | None], *, pause: float = _PAUSE) -> Iterator[None]:
    """Count the bytes that arrive in a folder during this context, if somebody is shown them."""
    if not shown():
        yield
        return
    with task(name, BYTES, total) as progress:
        stop = Event()
        watcher = Thread(target=_watch, args=(folder, progress, stop, pause), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()


def _watch(folder: Path, progress: Task, stop: Event, pause: float) -> None:
    while not stop.wait(pause):
        progress.reach(size_of(folder))
    progress.reach(size_of(folder))


def size_of(folder: Path) -> int:
    """Return the bytes of the files under a folder as far as they are on the disk; links are not followed."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # a file that was renamed meanwhile
            status = path.lstat()
            if path.is_file() and not path.is_symlink():
                total += min(status.st_size, status.st_blocks * 512)  # some are made in their full size at first
    return total
