"""Neighbours as an index grows: what they add to an answer must not grow with it.

python -m benchmarks.neighbours
"""

import statistics
import sys
import time

import numpy as np

from benchmarks.process import WORK
from benchmarks.speed import line
from retrieve_cli.contracts import Hit
from retrieve_cli.search.answer import Result
from retrieve_cli.search.context import in_context
from retrieve_cli.storage.tables import JsonlTable, TableWriter

SIZES = (1_000, 10_000, 100_000)
EACH, HITS, WINDOW, ROUNDS = 50, 10, 2, 300
"""Chunks of a document, hits of an answer, chunks around each, answers."""
TEXT = "The scheduler places pods on nodes that have room for them, and says why where none has. " * 8


def chunks_of(count: int) -> JsonlTable:
    """A table of so many chunks."""
    path = WORK / f"chunks-{count}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = TableWriter(path)
    for row in range(count):
        name, index = f"guide-{row // EACH}.md", row % EACH
        place = {"start": index * (len(TEXT) + 1), "end": index * (len(TEXT) + 1) + len(TEXT)}
        lines = {"start_line": index + 1, "end_line": index + 1}
        writer.append(
            {"id": f"{name}#{index}", "doc_id": name, "index": index, "text": TEXT, "header": "", **place, **lines}
        )
    writer.close()
    return JsonlTable(path, np.array(writer.offsets, np.int64), keys=frozenset(("id",)))


def milliseconds(count: int) -> float:
    """The median of an answer's neighbours over random hits."""
    chunks, generator = chunks_of(count), np.random.default_rng(count)
    starts = np.arange(0, count + 1, EACH)
    taken = []
    for _ in range(ROUNDS):
        rows = generator.choice(count, HITS, replace=False).tolist()
        found = [Result(Hit(f"{row}", row, row // EACH, 1.0), {}, chunks[row]) for row in rows]
        begun = time.perf_counter()
        in_context(found, chunks, starts, window=WINDOW, table_window=WINDOW)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken) * 1000.0


def flat() -> bool:
    """The largest index beside the smallest."""
    times = {count: milliseconds(count) for count in SIZES}
    ratio = times[SIZES[-1]] / times[SIZES[0]]
    figure = ", ".join(f"{count:,}: {taken:.2f} ms" for count, taken in times.items()) + f"; {ratio:.2f}×"
    return line(f"{WINDOW} neighbours of {HITS} hits, by chunks", figure, "≤ 1.5×", ratio <= 1.5)


if __name__ == "__main__":
    sys.exit(0 if flat() else 1)
