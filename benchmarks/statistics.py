"""Fusion with statistics of scores that are stored with an index, beside those from a pass over all rows.

python -m benchmarks.statistics [--only cranfield,scifact] [--sizes 100000,1000000]

Each collection is built twice, if it is not there yet: as a catalog (BM25 rows are records) and as a folder of
documents in chunks of 64 tokens (BM25 rows are chunks). Hybrid search with the default weights is repeated in process
with the mean and deviation that statistics estimate, with records and with chunks as units. Small collections fit into
the default sample as a whole: the columns of 512 rows say what a sample is worth.
"""

import argparse
import sys

from benchmarks import statistics_scale
from benchmarks.statistics_layouts import COLLECTIONS, LAYOUTS, Layout, built, opened
from benchmarks.statistics_ranking import Loss, Truth, independent, loss
from retrieve_cli.contracts import Unit
from retrieve_cli.storage.term_statistics import posting_statistics
from retrieve_cli.storage.vector_statistics import vector_statistics

SMALL = 512
"""Rows of the smaller sample."""
LIMIT = 0.001
"""Most nDCG@10 that a collection may lose."""
_HEAD = "| collection, unit | rows | nDCG@10 | independent | 512 rows | default | error of deviations |"


def losses(layout: Layout, unit: Unit) -> dict[str, Loss]:
    """Return by kind of statistics how the ranking changes."""
    truth = Truth(layout, unit)
    grouped = unit == "record"
    of_terms = layout.starts if layout.unit == "chunk" else None
    dim, length = layout.vectors.shape[1], len(layout.vectors)
    found = {"independent": loss(truth, truth.of_vectors, independent(layout, grouped=grouped))}
    for name, options in (("512 rows", {"sample": SMALL}), ("default", {})):
        vectors = vector_statistics([layout.vectors], dim=dim, length=length, starts=layout.starts, **options)
        terms = posting_statistics(layout.table, starts=of_terms, **options)
        found[name] = loss(
            truth,
            [vectors.spread(query, grouped=grouped) for query in layout.queries],
            [terms.spread(query, grouped=grouped) for query in layout.terms],
        )
    return found


def table(collections: list[str], encoder: str) -> bool:
    """Print a line for each collection, layout and unit; return True if none loses more than the limit."""
    print(f"{_HEAD}\n|---|---:|---:|---:|---:|---:|---:|")
    changes: list[float] = []
    for collection in collections:
        for kind in LAYOUTS:
            if not built(collection, kind, encoder):
                continue
            layout = opened(collection, kind, encoder)
            for unit in ("record", "chunk"):
                found = losses(layout, unit)
                first, small = found["default"], found["512 rows"]
                ndcg = f"{first.ndcg:.4f}" if layout.judged else ""
                cells = [f"{each.change:+.4f}, {each.same:.0%}" if layout.judged else f"{each.same:.0%}"
                         for each in found.values()]  # fmt: skip
                errors = f"{small.vectors:.2%}, {small.terms:.2%}; {first.vectors:.2%}, {first.terms:.2%}"
                name = f"{collection} {kind}, {unit}s"
                print(f"| {name} | {len(layout.vectors):,} | {ndcg} | {' | '.join(cells)} | {errors} |", flush=True)
                if layout.judged:
                    changes.append(first.change)
    mean = sum(changes) / max(len(changes), 1)
    good = all(change >= -LIMIT for change in changes) and mean >= -LIMIT
    print(f"least change {min(changes, default=0.0):+.4f}, mean {mean:+.5f}  {'ok' if good else 'BELOW'}")
    return good


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(COLLECTIONS), help="collections, by comma (default: %(default)s)")
    parser.add_argument("--encoder", default="auto", help="auto: all-MiniLM-L6-v2; hashed: without a model, fast")
    parser.add_argument("--sizes", default="10000,100000,1000000", help="rows of generated data (default: %(default)s)")
    arguments = parser.parse_args()
    good = table([name for name in arguments.only.split(",") if name], arguments.encoder)
    statistics_scale.table([int(size) for size in arguments.sizes.split(",") if size])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
