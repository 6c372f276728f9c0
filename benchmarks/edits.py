"""`make bench-edits`: what a change costs at each size of an index, beside another checkout and other engines.

python -m benchmarks.edits [--sizes 1000,10000,100000] [--before CHECKOUT] [--plot docs/edits.svg]

Records have 40 words by Zipf's law, and the vectors of the hashed encoder. All programs do each work in turn, in a
process of its own, `--rounds` times: medians of its processor seconds (all threads, imports included), wall seconds,
and bytes of the files below its index that are new or changed. Adding one record is measured within a process that has
the index open, until a search finds the record. The other engines have the texts and no vectors; their builds, changes
and additions are compared with ours, which have both. They are skipped unless their packages are in `--peers`.
"""

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import orjson

from benchmarks.process import ENVIRONMENT, ROOT, WORK, run
from benchmarks.zipfian import draw, own_name, words

WORDS, SCATTERED = 40, 1_000
TRIAL = 100
"""Records of an index on which everything is done once, unmeasured: modules are compiled then."""
PEERS = ("tantivy", "lancedb")
EDITS = ("nothing changed, file touched", "one record edited", f"{SCATTERED:,} records edited", "one record added")
WORK_DONE = ("build without vectors", "build", *EDITS)
ADD = """
import json, resource, sys, time
import retrieve_cli
def cpu():
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)
def finds(index):
    return record["id"] in [hit.doc_id for hit in index.search(record["name"].split()[0], mode="bm25")]
[record] = map(json.loads, open(sys.argv[2]))
index = retrieve_cli.open(sys.argv[1])
finds(index)
wall, spent = time.perf_counter(), cpu()
index.add(record)
if not finds(index):
    index.sync()
    assert finds(index)
print(json.dumps({"cpu": cpu() - spent, "wall": time.perf_counter() - wall}))
"""
"""Before segments, a record that was added was found after a sync."""


Table = dict[str, dict[int, dict[str, list["Cost"]]]]
"""Costs by work, size and program."""


@dataclass(frozen=True)
class Cost:
    """Resources that a change took."""

    cpu: float
    wall: float
    written: int


def record(number: int, edit: int = 0) -> dict[str, str]:
    """Return a record: the same for the same number and edit."""
    known = words()
    text = [known[rank] for rank in draw(np.random.default_rng((number, edit)), WORDS - 1).tolist()]
    return {"id": f"record-{number:07d}", "name": own_name(number), "description": " ".join(text)}


def write_lines(path: Path, lines: Sequence[dict[str, str]]) -> Path:
    """Write a file of records, by rename."""
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.writelines(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
    return new.replace(path)


def states(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """Return size, time and number of each file below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (stat.st_size, stat.st_mtime_ns, stat.st_ino) for path in files if (stat := path.stat())}


@dataclass
class Program:
    """A checkout of retrieve, or another engine, with its catalog and its index."""

    name: str
    folder: Path
    root: Path
    """Checkout, or folder of the packages of an engine."""
    count: int = 0
    rounds: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def index(self) -> Path:
        return self.folder / "index"

    @property
    def catalog(self) -> Path:
        return self.folder / "catalog.jsonl"

    def cost(self, *command: object, inside: bool = False, **environment: str) -> Cost:
        """Run Python in a process of its own; return what it took, by its own account if it is measured `inside`."""
        inherited = {name: value for name, value in ENVIRONMENT.items() if not name.startswith("RETRIEVE_")}
        own = {
            "PYTHONPATH": str(self.root),
            "PYTHONPYCACHEPREFIX": str(WORK / "compiled" / self.name),
            "RETRIEVE_ENCODER__KIND": "hashed",
            "RETRIEVE_RERANK__BACKEND": "none",
            "RETRIEVE_TRUST": "1",
        }
        words = (sys.executable, "-P", *map(str, command))
        before = states(self.index)
        done = run(words, environment={**inherited, **own, **environment}, folder=self.folder / "run")
        written = sum(state[0] for path, state in states(self.index).items() if before.get(path) != state)
        account = json.loads(done.output) if inside else {"cpu": done.cpu, "wall": done.seconds}
        return Cost(account["cpu"], account["wall"], written)

    def take(self, catalog: Path, count: int) -> None:
        """Begin with a catalog."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        shutil.copyfile(catalog, self.catalog)
        self.count = count

    def edit(self, numbers: Sequence[int]) -> Path:
        """Write another text into these records of the catalog; return a file of the changed ones alone."""
        edit = next(self.rounds)
        lines = self.catalog.read_bytes().splitlines(keepends=True)
        changed = {number: record(number, edit) for number in numbers}
        for number, line in changed.items():
            lines[number] = orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
        self.catalog.write_bytes(b"".join(lines))
        return write_lines(self.folder / "changed.jsonl", list(changed.values()))

    def added(self) -> Path:
        """Return a file of one more record."""
        return write_lines(self.folder / "added.jsonl", [record(self.count + next(self.rounds))])


class Retrieve(Program):
    """A checkout."""

    def measure(self, work: str, numbers: Sequence[int]) -> Cost | None:
        """Do one work."""
        at = ("--artifacts", self.index)
        if work.startswith("build"):
            shutil.rmtree(self.index, ignore_errors=True)
            dense = "false" if "without" in work else "true"
            command = ("-m", "retrieve_cli", "build", "-q", "--catalog", self.catalog, *at)
            return self.cost(*command, RETRIEVE_DENSE__ENABLED=dense)
        if work.endswith("added"):
            return self.cost("-c", ADD, self.index, self.added(), inside=True)
        if numbers:
            self.edit(numbers)
        self.catalog.touch()
        return self.cost("-m", "retrieve_cli", "sync", "-q", *at)


class Engine(Program):
    """Another engine."""

    def measure(self, work: str, numbers: Sequence[int]) -> Cost | None:
        """Do one work; None for those of a file."""
        script = ROOT / "benchmarks" / "edit_peers.py"
        if work == WORK_DONE[0]:
            return self.cost(script, "build", self.name, self.index, self.catalog)
        if work.endswith("added"):
            return self.cost(script, "add", self.name, self.index, self.added(), inside=True)
        return self.cost(script, "change", self.name, self.index, self.edit(numbers)) if numbers else None


def numbers_of(work: str, count: int, place: int) -> list[int]:
    """Return the records that a work edits in a round, scattered over the catalog."""
    wanted = {EDITS[1]: 1, EDITS[2]: SCATTERED}.get(work, 0)
    return sorted({(place * 7 + 3 + number * count // wanted) % count for number in range(wanted)}) if wanted else []


def programs_of(options: argparse.Namespace, size: int) -> list[Program]:
    """Return the programs, each with its copy of a catalog."""
    place: Path = options.work.resolve() / str(size)
    programs: list[Program] = [Retrieve("now", place / "now", ROOT)]
    if options.before:
        programs.insert(0, Retrieve("before", place / "before", options.before.resolve()))
    for name in PEERS:
        if (options.peers / name).is_dir():
            programs.append(Engine(name, place / name, options.peers.resolve()))
        elif size == TRIAL:
            print(f"{name} skipped: it is not installed in {options.peers}", file=sys.stderr)
    place.mkdir(parents=True, exist_ok=True)
    catalog = write_lines(place / "catalog.jsonl", [record(number) for number in range(size)])
    for program in programs:
        program.take(catalog, size)
    return programs


def results(options: argparse.Namespace) -> Table:
    """Return costs by work, size and program."""
    table: Table = {work: {} for work in WORK_DONE}
    for size in [TRIAL, *sorted(int(size) for size in options.sizes.split(","))]:
        programs = programs_of(options, size)
        for work in WORK_DONE:
            if size >= 10 * SCATTERED or work != EDITS[2]:
                print(f"{work}: {size:,} records", file=sys.stderr, flush=True)
                costs = table[work].setdefault(size, {})
                for turn in range(1 if work.startswith("build") else options.rounds):
                    measure(programs, work, turn, costs)
        shutil.rmtree(options.work.resolve() / str(size))
    return {work: {size: costs for size, costs in sizes.items() if size != TRIAL} for work, sizes in table.items()}


def measure(programs: Sequence[Program], work: str, turn: int, costs: dict[str, list[Cost]]) -> None:
    """Let all programs do a work, and note what it cost."""
    for program in programs:
        if cost := program.measure(work, numbers_of(work, program.count, turn)):
            costs.setdefault(program.name, []).append(cost)


def median(costs: Sequence[Cost], name: str) -> float:
    """Return the median of one number."""
    return float(statistics.median(getattr(cost, name) for cost in costs))


def lines_of(table: Table) -> list[str]:
    """Return the table in Markdown."""
    lines = ["| work | records | program | CPU s | wall s | written MB |", "|---|---:|---|---:|---:|---:|"]
    for work, sizes in table.items():
        for size, programs in sizes.items():
            for name, costs in programs.items():
                cpu, wall, written = (median(costs, field) for field in ("cpu", "wall", "written"))
                lines.append(f"| {work} | {size:,} | {name} | {cpu:.3g} | {wall:.3g} | {written / 1e6:.3g} |")
    return lines


def draw_plot(table: Table, path: Path) -> None:
    """Draw cost against size: processor seconds and bytes of one edited record."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "edits", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(7, 2.8), layout="constrained")
    sizes = table[EDITS[1]]
    for plot, (name, title) in zip(axes, (("cpu", "CPU seconds"), ("written", "bytes written")), strict=True):
        for program in dict.fromkeys(name for programs in sizes.values() for name in programs):
            points = [(size, median(costs[program], name)) for size, costs in sizes.items() if program in costs]
            plot.loglog(*zip(*points, strict=True), marker="o", label=program)
        plot.set(xlabel="records", title=f"one edited record: {title}")
        plot.grid(alpha=0.3)
    axes[0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main(arguments: list[str]) -> int:
    """Measure all works, print the table, draw the plot."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.edits", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--sizes", default="1000,10000,100000", help="records, by comma (default: %(default)s)")
    parser.add_argument("--before", type=Path, help="another checkout of the program, measured in turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, default=WORK / "edits", help="folder of catalogs and indexes")
    parser.add_argument("--peers", type=Path, default=WORK / "peers", help="folder of the packages of other engines")
    parser.add_argument("--plot", type=Path, help="file for a plot of cost against size (SVG)")
    parser.add_argument("--json", type=Path, help="file for all samples")
    options = parser.parse_args(arguments)
    table = results(options)
    asked = ("git", "-C", str(ROOT), "describe", "--always", "--dirty")
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    print(f"{commit}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print("\n".join(lines_of(table)))
    if options.json:
        options.json.write_text(json.dumps(table, default=asdict, indent=1), "utf-8")
    if options.plot:
        draw_plot(table, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
