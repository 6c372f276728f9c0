"""`make bench`: every figure that the project is held to, and whether this machine reached it.

python -m benchmarks.run [NAME ...]     names: quality evaluation build cold help loaded throughput bm25 folder
                                               sparse rerank neighbours budget
                                        and, where asked for: defaults
"""

import sys

from benchmarks import budget, cross, defaults, neighbours, quality, sparse, speed
from benchmarks.process import DATA

PARTS = {
    "quality": quality.scifact,
    "evaluation": defaults.evaluation,
    "build": speed.build,
    "cold": speed.cold_query,
    "help": speed.help_text,
    "loaded": speed.loaded_query,
    "throughput": speed.throughput,
    "bm25": speed.bm25_latency,
    "folder": speed.folder,
    "sparse": sparse.sparse_latency,
    "rerank": cross.rerank,
    "neighbours": neighbours.flat,
    "budget": budget.cold_budget,
}
ON_REQUEST = {"defaults": defaults.table}
"""Parts that take ten minutes, and change only with the defaults."""


def main(names: list[str]) -> int:
    """Runs the named parts, all of them by default; 1 where a figure is below what it is held to."""
    if not DATA.is_dir():
        print(f"the test collections are not at {DATA}: nothing to measure")
        return 1
    known = {**PARTS, **ON_REQUEST}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        return 2
    reached = [known[name]() for name in names or PARTS]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
