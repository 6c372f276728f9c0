"""What tests cost: CPU time, own and of the processes they start, memory, and what they import.

CPU time decides about a tier, not wall time: waiting for other programs does not count. But a core that is shared with
them does less in a second, so the limits grow with the time that a fixed piece of work takes during the run. What a
fixture of a module or of the session costs is listed as its own row and is not charged to the test that happened to
come first.
"""

import ctypes
import gc
import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tiers import Tiers

TOO_DEAR_S = 2.0
"""CPU seconds above which a test of the default tier is reported."""
CERTAIN = 2.5
"""By how much a cost must exceed its limit to fail CI: on shared cores, one measurement is off by half of that."""
SHARED_S = 15.0
"""The same for a fixture of a module or of the session: 160 texts take the real encoder 4 to 7 s, and three times as
long if the workers encode at the same time and their threads wait for a core."""
COLLECTION_S = 20.0
"""CPU seconds that a worker of the default tier may take until it has collected: half of them rewrite assertions."""
WORKER_MB = 1000
"""Peak memory of a worker of the default tier."""
WORK_S = 0.02
"""CPU seconds that `work` takes on the processor that the limits are for, when nothing shares its cores."""
WORK_EVERY = 100
"""Tests between two measurements of `work`."""
COVERAGE = 2.0
"""By how much the limits of CPU time grow where coverage is measured, which takes about 1.7 times as long. Memory, of
which its data are a part, is not limited there."""
HEAVY = (
    "torch",
    "transformers",
    "spacy",
    "ranx",
    "schemathesis.openapi",
    "sklearn",
    "openvino",
    "playwright",
    # One of these two is part of all of SciPy that is used; others import its name alone.
    "scipy.sparse",
    "scipy.special",
)
"""Packages that take a worker half a second or 100 MB to import: tests that load them are for the complete tier."""
_REMEDY = "make it cheaper, or list it in tests/complete.txt"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> tuple[float, float]:
    """CPU seconds of this process, and of its child processes, the running ones (on Linux) included."""
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, ended.ru_utime + ended.ru_stime + sum(_running("self"))


def work() -> float:
    """Return the CPU seconds that a fixed piece of work takes now."""
    begun, total = time.process_time(), 0
    for number in range(300_000):
        total += number * number % 7
    return time.process_time() - begun


def loaded() -> set[str]:
    """Those of `HEAVY` that are imported: a name that a test has blocked with `None` is not."""
    return {name for name in HEAVY if sys.modules.get(name) is not None}


def _running(process: str) -> Iterator[float]:
    """CPU seconds of each descendant of a process; those that end meanwhile are counted by their parent."""
    for thread in _entries(f"/proc/{process}/task"):
        for child in _content(f"/proc/{process}/task/{thread}/children").split():
            fields = _content(f"/proc/{child}/stat").rpartition(")")[2].split()
            yield sum(int(ticks) for ticks in fields[11:15]) / _TICKS
            yield from _running(child)


def _entries(folder: str, listdir: Callable[[str], list[str]] = os.listdir) -> list[str]:
    """Names in a folder, none if it is gone. Defaults hold the functions as they are: tests replace those of `os`."""
    try:
        return listdir(folder)
    except OSError:
        return []


def _content(path: str, opened: Callable[[str], Any] = open) -> str:
    """Text of a file, empty if it is gone."""
    try:
        with opened(path) as file:
            return str(file.read())
    except OSError:
        return ""


def peak_mb() -> int:
    """Return the most memory that this process has had, in MB of 1,000,000 bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 // 1_000_000


class Memory:
    """Keep a worker small.

    Models of closed indexes are parts of cycles of references: 50 to 90 MB a test. The collector of garbage goes by the
    number of new objects, of which a model has few, so that a long run grew to 2.7 GB. Here it goes by memory, too.
    """

    growth_mb = 50

    def __init__(self) -> None:
        self._kept_mb = 0

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        if self._resident_mb() > self._kept_mb + self.growth_mb:
            gc.collect()
            with suppress(AttributeError):  # other systems than Linux, or another library of C
                ctypes.CDLL(None).malloc_trim(0)
            self._kept_mb = self._resident_mb()

    @staticmethod
    def _resident_mb() -> int:
        """Return the memory of this process; 0 where /proc does not tell."""
        pages = _content("/proc/self/statm").split()
        return int(pages[1]) * _PAGE_BYTES // 1_000_000 if pages else 0


@dataclass
class Cost:
    """What one test, or one shared fixture, costs."""

    cpu: float = 0.0
    children: float = 0.0
    """The part of `cpu` that processes took which it started."""
    wall: float = 0.0
    grown_mb: int = 0
    """By how much the peak memory of its worker grew."""
    loaded: list[str] = field(default_factory=list)
    """Heavy packages that were imported while it ran, the first time in its worker."""

    def add(self, other: dict[str, Any]) -> None:
        for name, value in other.items():
            setattr(self, name, getattr(self, name) + value)


class Meter:
    """The part of the plug-in that measures, in each worker: a cost goes along with each report."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._last = (0.0, 0.0)
        self._shared: dict[str, dict[str, Any]] = {}
        self._peak = 0
        self._loaded: set[str] = set()
        self._work: list[float] = []
        self._tests = 0
        self.summary: dict[str, Any] = {}

    def pytest_collection_finish(self) -> None:
        self._loaded = loaded()
        self.summary = {"collection_s": sum(cpu_seconds()), "collection_loaded": sorted(self._loaded)}
        self._peak = peak_mb()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        if self._tests % WORK_EVERY == 0:
            self._work.append(work())
        self._tests += 1
        self._last = cpu_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        began, start = time.perf_counter(), cpu_seconds()
        try:
            return (yield)
        finally:
            own, children = (after - before for after, before in zip(cpu_seconds(), start, strict=True))
            name = f"{fixturedef.baseid or 'tests'}::{fixturedef.argname} ({fixturedef.scope})"
            self._shared[name] = {"cpu": own + children, "children": children, "wall": time.perf_counter() - began}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = cpu_seconds()
        own, children = (after - before for after, before in zip(now, self._last, strict=True))
        new = sorted(loaded() - self._loaded)
        cost = {"cpu": own + children, "children": children, "wall": report.duration, "loaded": new}
        cost["grown_mb"] = max(0, peak_mb() - self._peak)
        for shared in self._shared.values():
            for name in shared:
                cost[name] -= shared[name]
        report.costs = {report.nodeid: cost, **self._shared}  # type: ignore[attr-defined]
        self._last, self._shared, self._peak = now, {}, max(self._peak, peak_mb())
        self._loaded |= set(new)
        return report

    @pytest.hookimpl(tryfirst=True)  # before they are judged
    def pytest_sessionfinish(self) -> None:
        self.summary["peak_mb"] = peak_mb()
        self.summary["slowness"] = max(1.0, sum(self._work) / len(self._work) / WORK_S) if self._work else 1.0
        if (output := getattr(self._config, "workeroutput", None)) is not None:
            output["costs"] = self.summary


class Account:
    """The part of the plug-in that adds up, in the process that the user started."""

    def __init__(self, config: pytest.Config, tiers: Tiers, meter: Meter) -> None:
        self._options, self._tiers, self._meter = config.option, tiers, meter
        self.costs: defaultdict[str, Cost] = defaultdict(Cost)
        self.workers: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, cost in getattr(report, "costs", {}).items():
            self.costs[name].add(cost)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.workers += [output["costs"]] if "costs" in (output := getattr(node, "workeroutput", {})) else []

    def complaints(self, *, leeway: float = 1.0) -> list[str]:
        """Return what does not fit into the default tier, with the remedy; limits of CPU time grow by `leeway`."""
        if self._tiers.tier != "default":
            return []
        found = []
        workers = self.workers or [self._meter.summary]
        covered = bool(getattr(self._options, "cov_source", None))
        slower = max(worker.get("slowness", 1.0) for worker in workers) * (COVERAGE if covered else 1.0)
        slower *= leeway
        for name, cost in self.costs.items():
            limit = (
                slower * SHARED_S
                if name.endswith(("(session)", "(package)", "(module)", "(class)"))
                else slower * TOO_DEAR_S
            )
            if cost.cpu > limit:
                found.append(f"{name} takes {cost.cpu:.1f} s of CPU time, more than {limit:.1f}: {_REMEDY}")
            if cost.loaded:
                found.append(f"{name} imports {', '.join(cost.loaded)}: {_REMEDY}")
        for worker in workers:
            found += _about(worker, slower, covered=covered)
        return found

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._options.costs:
            rows = [json.dumps({"test": name, **vars(cost)}) for name, cost in sorted(self.costs.items())]
            Path(self._options.costs).write_text("".join(f"{row}\n" for row in rows), "utf-8")
        enforced = self._options.enforce_costs and self.complaints(leeway=CERTAIN)
        if enforced and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        dearest = sorted(self.costs.items(), key=lambda row: -row[1].cpu)[: self._options.dearest]
        if dearest:
            terminalreporter.section("dearest: CPU seconds, of these in child processes, wall seconds, MB more")
        for name, cost in dearest:
            numbers = f"{cost.cpu:8.2f} {cost.children:8.2f} {cost.wall:8.2f} {cost.grown_mb:5d}"
            terminalreporter.line(f"{numbers}  {name}{' loads ' + ' '.join(cost.loaded) if cost.loaded else ''}")
        if complaints := self.complaints():
            terminalreporter.section("too dear for the default tier", red=self._options.enforce_costs, yellow=True)
            for complaint in complaints:
                terminalreporter.line(complaint)


def _about(worker: dict[str, Any], slower: float, *, covered: bool = False) -> Iterator[str]:
    """Return what is wrong with a worker of the default tier."""
    if worker.get("collection_s", 0) > (limit := slower * COLLECTION_S):
        yield f"a worker took {worker['collection_s']:.1f} s of CPU time to collect, more than {limit:.1f}"
    if worker.get("collection_loaded"):
        yield f"collecting imports {', '.join(worker['collection_loaded'])}: import them inside the tests"
    if not covered and worker.get("peak_mb", 0) > WORKER_MB:
        yield f"a worker grew to {worker['peak_mb']} MB, more than {WORKER_MB}: see --dearest for the tests that did it"


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--dearest", type=int, default=0, metavar="N", help="print the N tests that cost most")
    parser.addoption("--costs", metavar="FILE", help="write what each test costs, as JSON Lines")
    parser.addoption("--enforce-costs", action="store_true", help="fail if the default tier is too dear")


def install(config: pytest.Config, tiers: Tiers) -> None:
    """Register the plug-in: it measures in each worker, and adds up in the process that was started."""
    meter = Meter(config)
    config.pluginmanager.register(meter, "retrieve-meter")
    config.pluginmanager.register(Memory(), "retrieve-memory")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Account(config, tiers, meter), "retrieve-costs")
