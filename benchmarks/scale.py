"""`make bench-scale`: how cost grows with the catalog, beside other engines and, if named, beside another checkout.

python -m benchmarks.scale [--sizes 10000,100000] [--compare CHECKOUT] [--work DIR] [--only build,cold,disk,loaded,sync]

Catalogs are synthetic (zipfian.py), and the hidden states of passages are planted (planted.py): `build` is all of a
build but the model's arithmetic, the time of planting taken off. Cold figures are whole processes, the model of the
query included; peers are given the query's vector and skip that. All programs run in turn, `--rounds` times; a figure
is the median of processor seconds (all threads), wall seconds, and peak resident memory. `now/before` is the median of
the ratios of processor seconds within a round. `growth` is the exponent of the processor seconds from the size above.
Indexes in `--work` are kept and used again. A million records need 50 GB there for each checkout, 10 GB with `--kinds
plain`. The peak memory of a build holds 55 MiB of what is planted from, and not the model.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from benchmarks.process import ROOT, WORK
from benchmarks.scale_parts import BEFORE, NOW, PARTS, QUERIES, Bench
from benchmarks.sides import KINDS


def options_of(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--sizes", default="10000,100000", help="records, by comma (default: %(default)s)")
    parser.add_argument("--compare", type=Path, help="another checkout of the program, measured in turn")
    parser.add_argument("--now", type=Path, default=ROOT, help="the checkout to measure (default: this one)")
    parser.add_argument("--work", type=Path, default=WORK / "scale", help="folder of catalogs and indexes, kept")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, by comma (default: %(default)s)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="indexes to build and ask (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=QUERIES, help="queries that are drawn (default: %(default)s)")
    parser.add_argument("--no-trial", action="store_true", help="measure the first round too")
    parser.add_argument("--limit", type=float, default=12.0, help="GiB of address space of a build")
    parser.add_argument("--rebuild", action="store_true", help="build indexes again that are there")
    parser.add_argument("--peers", type=Path, default=WORK / "peers", help="where tantivy and lancedb are installed")
    parser.add_argument("--json", type=Path, help="file for all samples")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Measure part by part from the smallest size up, and print the table."""
    options = options_of(arguments)
    only = options.only.split(",")
    if unknown := set(only) - set(PARTS):
        print(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(PARTS)}")
        return 2
    bench = Bench(options)
    loads = [os.getloadavg()[0]]
    for size in sorted(int(size) for size in options.sizes.split(",")):
        for part in PARTS:
            if part in only:
                getattr(bench, part)(size)
        loads.append(os.getloadavg()[0])
    commits = ", ".join(f"{side.name} {side.commit()}" for side in bench.sides)
    print(f"{commits}; {os.cpu_count()} cores, load {' '.join(f'{load:.1f}' for load in loads)}")
    for line in bench.table.lines(before=BEFORE, now=NOW):
        print(line)
    if options.json:
        options.json.write_text(json.dumps(bench.table.as_json(), indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
