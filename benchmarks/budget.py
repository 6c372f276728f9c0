"""Time of a cold query, by part: interpreter, imports by group of modules, model, search, reranking, output.

python -m benchmarks.budget [CHECKOUT]

Each round runs, in turn, an empty interpreter, the whole query, the query under -X importtime, and the query with all
those modules imported beforehand, so that the times of its stages hold no imports. What that command takes besides its
stages is the command line and the output; what its process takes after it is its end. Figures are medians of wall time,
but for the whole, which is given in both: on a busy machine the shares say more.
"""

import re
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.process import ENVIRONMENT, ROOT, WORK, Run, run

ROUNDS = 9
QUESTION = "segment lungs in CT"
CATALOG, ARTIFACTS = ROOT / "catalogs" / "tools.jsonl", WORK / "tools"
GROUPS = {
    "NumPy": ("numpy",),
    "contracts and settings": ("retrieve_cli.contracts", "retrieve_cli.frozen", "retrieve_cli.config"),
    "the rest of the program": ("retrieve_cli",),
    "typer, click, rich": ("typer", "click", "rich", "shellingham", "pygments", "markdown_it", "mdurl"),
    "yaml, orjson": ("yaml", "_yaml", "orjson"),
    "tokenizers": ("tokenizers", "huggingface_hub"),
    "standard library": tuple(sys.stdlib_module_names),
}
"""Module names and packages by group, the first that fits."""
OTHER = "other packages"
COMMAND, END = "command line and output", "end of the process"
STAGES = {"open": "opening the index", "encode": "model", "search": "search", "rerank": "reranking"}
"""Names in `--timing`, and their names here."""
_IMPORT = re.compile(r"^import time: +(\d+) \| +\d+ \| +(\S+)$", re.MULTILINE)
_STAGE = re.compile(r"(\w+) ([\d.]+) ms")
_STAGES_ALONE = """
import importlib, sys, time
for name in sys.stdin.read().split():
    try:
        importlib.import_module(name)
    except ImportError:
        pass
sys.argv[0] = "retrieve"
from retrieve_cli.__main__ import run
begun = time.perf_counter()
try:
    run()
finally:
    now = time.perf_counter()
    print(f"command {(now - begun) * 1000:.3f} ms, ended {time.monotonic() * 1000:.3f} ms", file=sys.stderr)
"""


def imported(text: str) -> dict[str, float]:
    """Return milliseconds by module, its own imports taken off, of what -X importtime printed."""
    return {name: int(spent) / 1000 for spent, name in _IMPORT.findall(text)}


def group_of(module: str) -> str:
    """Return the group of a module."""
    for group, names in GROUPS.items():
        if any(module == name or module.startswith(f"{name}.") for name in names):
            return group
    return OTHER


def by_group(modules: Mapping[str, float]) -> dict[str, float]:
    """Return the milliseconds of each group."""
    found: dict[str, float] = defaultdict(float)
    for name, spent in modules.items():
        found[group_of(name)] += spent
    return dict(found)


def stages(text: str) -> dict[str, float]:
    """Return milliseconds by stage of what `--timing` printed, and of the command besides; and when it ended."""
    spent = {name: float(number) for name, number in _STAGE.findall(text)}
    found = {title: spent[name] for name, title in STAGES.items() if name in spent}
    return {**found, COMMAND: spent["command"] - sum(found.values()), END: spent["ended"]}


@dataclass
class Budget:
    """Milliseconds of each round by part."""

    cpu: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    modules: int = 0

    def add(self, parts: Mapping[str, float], known: Iterable[str]) -> None:
        """Append a round; parts that it lacks took nothing."""
        for name in known:
            self.parts[name].append(parts.get(name, 0.0))

    def lines(self) -> list[str]:
        """Return the budget for people."""
        whole = statistics.median(self.whole)
        medians = {name: statistics.median(spent) for name, spent in self.parts.items()}
        left = whole - sum(medians.values())
        groups = [f"import {name}" for name in (*GROUPS, OTHER)]
        total = sum(medians.pop(name) for name in groups)
        head = f"{whole:.0f} ms wall, {statistics.median(self.cpu):.0f} ms CPU"
        rows = [("interpreter", medians.pop("interpreter")), (f"imports, {self.modules} modules", total)]
        rows += [(f"  {name}", statistics.median(self.parts[f"import {name}"])) for name in (*GROUPS, OTHER)]
        rows += [*medians.items(), ("the rest", left)]
        return [f"  {'cold query by part, sample catalog':44} {head}"] + [
            f"    {name:42} {spent:6.1f} ms  {spent / whole:4.0%}" for name, spent in rows
        ]


def budget_of(root: Path, rounds: int = ROUNDS) -> Budget:
    """Measure a checkout of the program on the sample catalog."""
    environment = {
        **ENVIRONMENT,
        "PYTHONPATH": str(root),
        "PYTHONPYCACHEPREFIX": str(WORK / "compiled" / root.parent.name),
    }
    artifacts = ARTIFACTS.with_name(f"tools-{root.parent.name}")

    def python(*words: str, stdin: str | None = None) -> Run:
        return run((sys.executable, "-P", *words), environment=environment, stdin=stdin)

    asked = ("query", QUESTION, "--artifacts", str(artifacts), "--timing")
    python("-m", "retrieve_cli", "build", "--catalog", str(CATALOG), "--artifacts", str(artifacts))
    python("-m", "retrieve_cli", *asked)
    found = Budget()
    for _ in range(rounds):
        empty = python("-X", "importtime", "-c", "pass")
        start = python("-c", "pass")
        whole = python("-m", "retrieve_cli", *asked)
        traced = imported(python("-X", "importtime", "-m", "retrieve_cli", *asked).errors)
        own = {name: spent for name, spent in traced.items() if name not in imported(empty.errors)}
        alone = python("-c", _STAGES_ALONE, *asked, stdin="\n".join(own))
        found.cpu.append(whole.cpu * 1000)
        found.whole.append(whole.seconds * 1000)
        found.modules = len(own)
        found.add({"interpreter": start.seconds * 1000}, ["interpreter"])
        found.add({f"import {name}": spent for name, spent in by_group(own).items()}, _groups())
        ended = time.monotonic() * 1000
        spent = stages(f"{alone.output}\n{alone.errors}")
        found.add({**spent, END: ended - spent[END]}, [*STAGES.values(), COMMAND, END])
    return found


def _groups() -> Sequence[str]:
    return [f"import {name}" for name in (*GROUPS, OTHER)]


def cold_budget() -> bool:
    """Print the budget of this checkout; nothing is held to it."""
    print("\n".join(budget_of(ROOT).lines()), flush=True)
    return True


if __name__ == "__main__":
    print("\n".join(budget_of(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT).lines()))
