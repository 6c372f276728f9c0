"""`make bench-serve`, second part: latency of `retrieve serve` while generations are published, beside without.

python -m benchmarks.serve_swaps [--rounds 5] [--seconds 8] [--clients 4] [--every 1] [--workers 1] [--modes retrieve]

The index is that of serve.py, with a second generation in which every thousandth record is edited. Phases alternate in
one run: none is published, or the other generation becomes current every second, as the last step of a sync and of a
rollback does it. What a sync computes before that step is the work of another process, and not measured. A figure is
the median over the rounds, a ratio the median of the ratios within a round.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from threading import Event, Thread

from benchmarks.serve import CORPUS, FOLDER, MODES, build, environment, load, serving, write_bodies
from retrieve_cli.storage import durable
from retrieve_cli.storage.store import Store

ARTIFACTS, CATALOG = FOLDER / "swaps", FOLDER / "swaps.jsonl"
EDITED = 1000
"""One record of so many is edited."""
TIMES_SLOWER = 1.5
"""Largest ratio of the 99th percentile with publications to that without."""
_SETTLED_S = 30.0


def generations() -> tuple[str, str]:
    """Return the ids of two generations, made if they are not there.

    Raises:
        SystemExit: they could not be made.
    """
    if reason := build("retrieve"):
        raise SystemExit(f"there is no index: {reason}")
    if not ARTIFACTS.exists():
        shutil.copytree(FOLDER / "retrieve", ARTIFACTS)
    if len(Store(ARTIFACTS).kept()) < 2:
        with CORPUS.open(encoding="utf-8") as source, CATALOG.open("w", encoding="utf-8") as target:
            for number, line in enumerate(source):
                record = json.loads(line)
                edit = {} if number % EDITED else {"text": f"{record['text']} Edited."}
                target.write(json.dumps({**record, **edit}) + "\n")
        command = [sys.executable, "-m", "retrieve_cli", "build", "--catalog", str(CATALOG), "--artifacts"]
        subprocess.run([*command, str(ARTIFACTS), "-q"], cwd=FOLDER, env=environment(), check=True)
    first, second = [kept.manifest.id for kept in Store(ARTIFACTS).kept()][-2:]
    return first, second


def make_current(generation: str) -> None:
    """Name the current generation, as the store does."""
    durable.replace(ARTIFACTS / "current", generation + "\n")


@contextmanager
def publishing(pair: tuple[str, str], every: float) -> Iterator[None]:
    """Make the one and the other generation current in turn, until the end."""
    ended = Event()

    def publish() -> None:
        for generation in cycle(pair):
            if ended.wait(every):
                return
            make_current(generation)

    thread = Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def settle(port: int, generation: str) -> None:
    """Make a generation current, and wait until the server answers from it. Raises: SystemExit."""
    make_current(generation)
    end = time.monotonic() + _SETTLED_S
    while time.monotonic() < end:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/search?q=protein&limit=1&mode=bm25", timeout=30
        ) as answer:
            if json.load(answer)["generation"] == generation:
                return
        time.sleep(0.1)
    raise SystemExit(f"the server does not follow to {generation}")


def measure(options: argparse.Namespace, port: int, mode: str) -> list[tuple[dict[str, float], dict[str, float]]]:
    """Return the figures of each round, without publications and with them."""
    pair, rounds = generations(), []

    def figures() -> dict[str, float]:
        numbers = load(port, options.clients, options.seconds, mode)
        return {key: float(value) for key, value in numbers.items() if isinstance(value, int | float)}

    load(port, options.clients, 3.0, mode)
    for _ in range(options.rounds):
        settle(port, pair[1])
        still = figures()
        with publishing(pair, options.every):
            moving = figures()
        rounds.append((still, moving))
    settle(port, pair[1])
    return rounds


def main(arguments: Sequence[str]) -> int:
    """Measure and print; 1 if the 99th percentile is above what it is held to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve_swaps", description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of one phase (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--modes", default="retrieve", help=f"of {', '.join(MODES)}, by comma (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="file for all samples")
    options = parser.parse_args(arguments)
    if not CORPUS.is_file():
        print(f"the test collections are not at {CORPUS.parent}: nothing to measure")
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_bodies()
    generations()
    good, samples, before = True, {}, os.getloadavg()[0]
    print(f"{'request':12} {'generations':12} {'per s':>8} {'p50 ms':>8} {'p99 ms':>8} {'failed':>7}")
    with serving("retrieve", workers=options.workers, artifacts=ARTIFACTS) as (port, _):
        for mode in options.modes.split(","):
            rounds = samples[mode] = measure(options, port, mode)
            for place, name in enumerate(("one", "published")):
                per_second, p50, p99, failed = (
                    statistics.median(pair[place][key] for pair in rounds)
                    for key in ("per_second", "p50", "p99", "failed")
                )
                print(f"{mode:12} {name:12} {per_second:8.1f} {p50:8.1f} {p99:8.1f} {failed:7.0f}")
            p50, p99 = (
                statistics.median(moving[key] / still[key] for still, moving in rounds) for key in ("p50", "p99")
            )
            lost = sum(moving["failed"] for _, moving in rounds)
            reached = p99 <= TIMES_SLOWER and not lost
            good = good and reached
            print(
                f"{'reached' if reached else 'MISSED '} {mode}: p99 {p99:.2f} times (≤ {TIMES_SLOWER}), p50 {p50:.2f}"
            )
    print(f"{len(os.sched_getaffinity(0))} cores, load before and after {before:.1f}, {os.getloadavg()[0]:.1f}")
    if options.json:
        options.json.write_text(json.dumps(samples, indent=1), "utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
