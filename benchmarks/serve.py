"""`make bench-serve`: throughput and latency of `retrieve serve` beside other servers, on loopback, in one run.

python -m benchmarks.serve [--rounds 3] [--seconds 6] [--clients 1,8,32] [--only retrieve,naive] [--requests 20000]

The index is that of the bio.tools registry, the queries are its titles of papers; see ../shared/data. The peers are in
serve_peers.py; one that is not installed is skipped, and the reason printed. All servers stay up, and are loaded in
turn, round by round, by a client in a process of its own (load.py); a figure is the median over the rounds, a ratio the
median of the ratios within a round. A server and its client share the machine; `cpu ms`, processor seconds of the
server for a request, change least if others use it too. `retrieve` answers as it is configured by default; `no rerank`
is the request that asks for what the naive peer does: two retrievers, fused.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from benchmarks.process import DATA, ROOT, WORK

CORPUS, QUERIES = DATA / "biotools" / "corpus.jsonl", DATA / "biotools" / "queries.jsonl"
FOLDER = WORK / "serve"
PEERS = ("naive", "lancedb", "txtai")
PROGRAM = ROOT / "benchmarks" / "serve_peers.py"
MODES: Mapping[str, dict[str, object]] = {"retrieve": {}, "no rerank": {"rerank": False}, "bm25": {"mode": "bm25"}}
"""Requests to `retrieve`, each with what it adds to the query."""
TIMES_FASTER = 10.0
"""Least ratio of its throughput to that of the naive peer."""
STARTING_S = 120.0
_VARIANTS = 24
"""Texts made of each query."""
_HEADS = ("p50 ms", "p95 ms", "p99 ms", "cpu ms", "failed", "x naive", "x cpu")


def environment() -> dict[str, str]:
    """The environment of all programs: no network, the packages of the peers last."""
    paths = [str(ROOT), str(ROOT / "benchmarks"), str(WORK / "peers")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"}


def build(name: str) -> str | None:
    """Make the index of a server that has none yet; the reason if that is impossible."""
    folder = FOLDER / name
    if folder.exists():
        return None
    command = [sys.executable, str(PROGRAM), "build", name, str(CORPUS), str(folder)]
    if name == "retrieve":
        program = [sys.executable, "-m", "retrieve_cli"]
        command = [*program, "build", "--catalog", str(CORPUS), "--artifacts", str(folder), "-q"]
    done = subprocess.run(command, cwd=FOLDER, env=environment(), capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[-1] if done.returncode else None


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def serving(name: str, *, workers: int, artifacts: Path | None = None) -> Iterator[tuple[int, int]]:
    """Start a server, wait until it answers, and end it afterwards; gives its port and process id."""
    artifacts = artifacts or FOLDER / name
    port = free_port()
    command = [sys.executable, str(PROGRAM), "serve", name, str(artifacts), str(port)]
    if name == "retrieve":
        flags = ["--workers", str(workers), "--threads", "1"] if workers > 1 else []
        program = [sys.executable, "-m", "retrieve_cli"]
        command = [*program, "serve", "--artifacts", str(artifacts), "--port", str(port), *flags]
    with (FOLDER / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=FOLDER, env=environment(), stdout=log, stderr=log)
    try:
        wait_for(port, process)
        yield port, process.pid
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers. Raises: RuntimeError if it ends or takes too long."""
    end = time.monotonic() + STARTING_S
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return
        time.sleep(0.1)
    raise RuntimeError("the server does not answer; see its log in build/bench/serve")


def load(port: int, clients: int, seconds: float, mode: str, *more: str) -> dict[str, object]:
    """Figures of one load."""
    command = [sys.executable, str(ROOT / "benchmarks" / "load.py"), str(port), str(clients), str(seconds)]
    bodies = FOLDER / f"{mode.replace(' ', '-')}.jsonl"
    done = subprocess.run([*command, str(bodies), *more], capture_output=True, text=True, check=True)
    figures: dict[str, object] = json.loads(done.stdout)
    return figures


def write_bodies() -> None:
    """Write the bodies of the requests of each mode: the queries, each with many words of others, so that none comes
    again: a server that remembers queries gains nothing."""
    texts = [json.loads(line)["text"] for line in QUERIES.read_text("utf-8").splitlines()]
    words = [text.split() for text in texts]
    queries = [
        f"{text} {words[(place + shift) % len(words)][0]}"
        for shift in range(1, _VARIANTS + 1)
        for place, text in enumerate(texts)
    ]
    for mode, added in MODES.items():
        lines = [json.dumps({"query": query, "k": 10, **added}) for query in queries]
        (FOLDER / f"{mode.replace(' ', '-')}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


class Table:
    """Figures by server and number of clients, a list each with one of every round."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)

    def add(self, side: str, clients: int, figures: dict[str, object]) -> None:
        numbers = {key: float(value) for key, value in figures.items() if isinstance(value, int | float)}
        self.rows[side, clients].append(numbers)

    def median(self, side: str, clients: int, key: str) -> float:
        return statistics.median(row[key] for row in self.rows[side, clients])

    def ratio(self, side: str, other: str, clients: int) -> float | None:
        """Median over the rounds of how many times the throughput of another server this one has."""
        if (other, clients) not in self.rows:
            return None
        pairs = zip(self.rows[side, clients], self.rows[other, clients], strict=True)
        ratios = [one["per_second"] / two["per_second"] for one, two in pairs]
        return statistics.median(ratios) if ratios else None

    def cheaper(self, side: str, other: str, clients: int) -> float:
        """Median over the rounds of how many times the processor seconds of a request another server takes."""
        pairs = zip(self.rows[side, clients], self.rows[other, clients], strict=True)
        return statistics.median(two["cpu_ms"] / max(one["cpu_ms"], 0.001) for one, two in pairs)

    def lines(self) -> Iterator[str]:
        """The table as text."""
        yield f"{'server':24} {'clients':>7} {'per s':>8}" + "".join(f" {name:>9}" for name in _HEADS)
        for side, clients in sorted(self.rows, key=lambda row: (row[1], row[0])):
            per_second = self.median(side, clients, "per_second")
            latencies = "".join(f" {self.median(side, clients, key):9.1f}" for key in ("p50", "p95", "p99", "cpu_ms"))
            ratio = self.ratio(side, "naive", clients)
            shown = "" if ratio is None else f" {ratio:9.1f} {self.cheaper(side, 'naive', clients):9.1f}"
            failed = self.median(side, clients, "failed")
            yield f"{side:24} {clients:7} {per_second:8.1f}{latencies} {failed:9.0f}{shown}"


def measure(options: argparse.Namespace, table: Table) -> Iterator[str]:
    """Load all servers in turn; yield the reasons of those that are skipped."""
    cores = len(os.sched_getaffinity(0))
    clients = [int(number) for number in options.clients.split(",")]
    with ExitStack() as stack:
        sides: list[tuple[str, str, int, int]] = []
        for name in ("retrieve", *PEERS):
            if name not in options.only.split(","):
                continue
            if reason := build(name):
                yield f"{name} is skipped: {reason}"
                continue
            try:
                port, pid = stack.enter_context(serving(name, workers=1))
                if name == "retrieve":
                    many, parent = stack.enter_context(serving(name, workers=cores))
                    sides += [(f"{mode}, 1 process", mode, port, pid) for mode in MODES]
                    sides += [(f"{mode}, {cores} workers", mode, many, parent) for mode in MODES]
                    yield from memory(options, port, pid)
                else:
                    sides.append((name, "retrieve", port, pid))
            except RuntimeError as error:
                yield f"{name} is skipped: {error}"
        for _, mode, port, _ in sides:
            load(port, max(clients), 2.0, mode)  # models and pages are loaded
        for _ in range(options.rounds):
            for count in clients:
                for side, mode, port, pid in sides:
                    table.add(side, count, load(port, count, options.seconds, mode, "--pid", str(pid)))


def memory(options: argparse.Namespace, port: int, pid: int) -> Iterator[str]:
    """Yield the memory of a server of one process over many requests, lexical ones and then whole ones."""
    for mode, share in (("bm25", 0.9), ("no rerank", 0.1)):
        if most := int(options.requests * share):
            load(port, 8, 1.0, mode)
            samples = load(port, 8, 0.0, mode, "--requests", str(most), "--pid", str(pid))["memory"]
            assert isinstance(samples, list)
            first, middle, last = samples[1], samples[len(samples) // 2], samples[-1]
            yield f"memory over {most} requests ({mode}): {first:.0f} MiB, {middle:.0f} MiB, {last:.0f} MiB"


def verdicts(table: Table, cores: int) -> Iterator[tuple[bool, str]]:
    """Yield what the server is held to: if it was reached, and the figures."""
    sides = {side for side, _ in table.rows}
    for side in sorted(side for side in sides if side.startswith("no rerank")):
        if "naive" in sides and (side, 8) in table.rows:
            ratio = table.ratio(side, "naive", 8) or 0.0
            yield ratio >= TIMES_FASTER, f"{side}: {ratio:.1f} times the naive peer's throughput at 8 clients (≥ 10)"
        if (side, 8) in table.rows and (side, 1) in table.rows:
            limit = 8 * table.median(side, 1, "p50") / cores
            p95 = table.median(side, 8, "p95")
            yield (
                p95 <= limit,
                f"{side}: p95 at 8 clients {p95:.1f} ms (≤ 8 single queries / {cores} cores: {limit:.1f})",
            )


def main(arguments: Sequence[str]) -> int:
    """Measure and print; 1 if a figure is below what it is held to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="of one load (default: %(default)s)")
    parser.add_argument("--clients", default="1,8,32", help="numbers of clients (default: %(default)s)")
    parser.add_argument("--only", default=",".join(("retrieve", *PEERS)), help="servers, by comma")
    parser.add_argument("--requests", type=int, default=20_000, help="requests over which memory is watched")
    parser.add_argument("--json", type=Path, help="file for all samples")
    options = parser.parse_args(arguments)
    if not CORPUS.is_file():
        print(f"the test collections are not at {DATA}: nothing to measure")
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_bodies()
    table, loads = Table(), [os.getloadavg()[0]]
    for said in measure(options, table):
        print(said, flush=True)
    loads.append(os.getloadavg()[0])
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, load before and after {loads[0]:.1f}, {loads[1]:.1f}")
    for line in table.lines():
        print(line)
    if options.json:
        samples = [{"server": side, "clients": count, "rounds": rows} for (side, count), rows in table.rows.items()]
        options.json.write_text(json.dumps(samples, indent=1), "utf-8")
    reached = list(verdicts(table, cores))
    for good, said in reached:
        print(f"{'reached' if good else 'MISSED '} {said}")
    return 0 if all(good for good, _ in reached) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
