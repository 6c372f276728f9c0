"""The program with planted vectors: `retrieve`, whose passages are not run through the model.

PYTHONPATH=<checkout> python -P benchmarks/planted.py build --catalog catalog.jsonl --artifacts DIR

All but the arithmetic of the model is the program's own: its tokenizer, its card, its pooling, its caches. The index is
one of the default model, and any `retrieve query` answers from it, encoding the query by the model. The hidden states
of a passage are planted: of each token its own vector and some of the token before it, and a centre that the passage's
tokens decide. So texts cluster, a word in two texts is similar and not equal, and token vectors compress as real ones.

The environment variable PLANTED_REPORT names a file for what the planting took: {"seconds": CPU, "texts": N}. Nothing
of `benchmarks` is imported here, so that another checkout can be run.
"""

import atexit
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from retrieve_cli.models.runtimes.onnx_runner import OnnxRunner

TOKENS, DIM, CENTRES = 30_522, 384, 4096
BEFORE, CENTRE = np.float32(0.6), np.float32(0.2)
"""Weights of the token before and of the centre of the passage."""
REPORT = {"seconds": 0.0, "texts": 0}


@cache
def tables() -> tuple[Any, Any]:
    """The unit vectors of tokens (TOKENS, DIM) and of centres (CENTRES, DIM), float32."""
    generator = np.random.default_rng(0)
    found = [generator.standard_normal((rows, DIM), np.float32) for rows in (TOKENS, CENTRES)]
    found[1] += np.float32(0.4) * generator.standard_normal(DIM, np.float32)
    tokens, centres = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in found)
    return tokens, centres


def states(ids: Sequence[int]) -> Any:
    """(t, DIM) float32: the planted hidden states of a text's tokens; the same for the same text."""
    tokens, centres = tables()
    rows = np.array(ids, np.int64)
    hidden = tokens[rows]
    hidden[1:] += BEFORE * tokens[rows[:-1]]
    hidden += CENTRE * centres[zlib.crc32(rows.tobytes()) % CENTRES]
    return hidden


def run(
    _runner: OnnxRunner,
    ids: Sequence[Sequence[int]],
    keep: Callable[[int, Any], None],
    *,
    places: Sequence[int] | None = None,
    **_: Any,
) -> None:
    """Plant the hidden states of texts, in the place of `OnnxRunner.run`."""
    for place in range(len(ids)) if places is None else places:
        if len(ids[place]):
            begun = time.thread_time()
            hidden = states(ids[place])
            REPORT["seconds"] += time.thread_time() - begun
            REPORT["texts"] += 1
            keep(place, hidden)


def _report() -> None:
    if path := os.environ.get("PLANTED_REPORT"):
        Path(path).write_text(json.dumps(REPORT), "utf-8")


def main() -> None:
    """Run the command line."""
    from retrieve_cli.__main__ import run as retrieve

    OnnxRunner.run = run  # type: ignore[assignment,method-assign]
    atexit.register(_report)
    begun = time.thread_time()
    tables()
    REPORT["seconds"] += time.thread_time() - begun
    sys.argv[0] = "retrieve"
    retrieve()


if __name__ == "__main__":
    main()
