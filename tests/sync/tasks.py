"""What a forked process does beside running the program: read on and on, hold the lock, encode in small batches."""

from __future__ import annotations

import io
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import retrieve_cli
from retrieve_cli.cli.main import main
from retrieve_cli.config.loading import load
from retrieve_cli.contracts import Request
from retrieve_cli.ingest import encodings
from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder
from retrieve_cli.models.encoders.splade_encoder import SpladeEncoder
from retrieve_cli.models.runtimes import onnx_runner
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.manifest import text_key
from retrieve_cli.storage.store import Store


def read(arguments: Sequence[str]) -> None:
    """Ask an index until a file appears, by an opening that is new each time and by one that stays. A text has so many
    results, all of one version, and no folder of a generation that is open is removed."""
    artifacts, stop, text, count = Path(arguments[0]), Path(arguments[1]), arguments[2], int(arguments[3])
    settings = load(None)
    reads, seen, kept = 0, set(), None
    while not stop.exists() or reads < 3:
        opened = Opened.of(Store(artifacts), settings)
        kept = kept or opened
        for each in (opened, kept):
            [answer] = Searcher(each).answer([Request(text)])
            found = {w for r in answer.results for w in r.chunk["text"].split() if w.startswith("version")}
            assert len(found) == 1, (answer.generation, found)
            assert len(answer.results) == count, answer.generation
            assert answer.generation == each.generation.manifest.id
        folders = [segment.folder for segment in kept.generation.segments]
        assert all(folder.is_dir() for folder in folders), "a folder in use was removed"
        seen.add(opened.generation.manifest.id)
        reads += 1
        if reads == 1:
            print("ready", flush=True)
    print(reads, len(seen))


def hold(arguments: Sequence[str]) -> None:
    """Be the writer of an artifacts folder until the end comes from outside."""
    with Store(Path(arguments[0])).writer():
        print("holding", flush=True)
        signal.pause()


def add(arguments: Sequence[str]) -> None:
    """Add documents to an index one by one, and print the id of each as soon as it is acknowledged."""
    with retrieve_cli.open(arguments[0]) as index:
        for name in arguments[1:]:
            index.add({"id": name, "name": name, "description": "acknowledged"})
            print(name, flush=True)


def limited(arguments: Sequence[str]) -> int:
    """Run the program, none of whose files may grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(arguments[0]), before[1]))
        code = main(arguments[1:])
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    print(out.getvalue(), end="")  # what a test reads comes in a file, too
    print(err.getvalue(), end="", file=sys.stderr)
    return code


def small_batches(arguments: Sequence[str]) -> int:
    """Run the program in batches of so many texts."""
    set_batch(int(arguments[0]))
    return main(arguments[1:])


def logged(arguments: Sequence[str]) -> int:
    """Run the program in small batches; it notes in a file the texts that its encoders read."""
    set_batch(int(arguments[0]))
    log = Path(arguments[1])

    def noting(kind: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def encode(self: object, texts: Sequence[str], *rest: Any) -> Any:
            with log.open("a") as file:
                file.writelines(f"{kind} {text_key(text).hex()}\n" for text in texts)
            return method(self, texts, *rest)

        return encode

    OnnxEncoder.encode_passages_gradually = noting(  # type: ignore[method-assign]
        "tokens", OnnxEncoder.encode_passages_gradually
    )
    SpladeEncoder.encode_passages_gradually = noting(  # type: ignore[method-assign]
        "weights", SpladeEncoder.encode_passages_gradually
    )
    return main(arguments[2:])


def signalled(arguments: Sequence[str]) -> int:
    """Run the program, which gets a signal once so many texts are encoded; results are kept every eight texts."""
    number, count, encoded = int(arguments[0]), int(arguments[1]), 0
    encodings.KEPT, encodings.PAUSE_S = 8, 0.0
    onnx_runner.available_cores = lambda: 1  # it encodes in the thread in which signals arrive
    add = encodings._Batch.add

    def adding(self: encodings._Batch, places: Sequence[int], results: Sequence[Any]) -> None:
        nonlocal encoded
        add(self, places, results)
        encoded += len(places)
        if encoded == count:
            os.kill(os.getpid(), number)

    encodings._Batch.add = adding  # type: ignore[method-assign]
    return main(arguments[2:])


def set_batch(size: int) -> None:
    """Let the encoders read so many texts at a time, and keep them before the next."""
    encodings.BATCH, encodings.KEPT = size, 1
