"""The meter of the suite: CPU time of tests, their children and shared fixtures, imports, and what CI rejects."""

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import costs
import pytest

CONFTEST = """
import costs, tiers

def pytest_addoption(parser):
    tiers.add_option(parser)
    costs.add_options(parser)

def pytest_configure(config):
    chosen = tiers.Tiers(config.getoption("--tier"), tiers.Entries(""))
    costs.install(config, chosen)
"""
BURN = """
import subprocess, sys, time

def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until: pass

CHILD = [sys.executable, "-c", "import time\\nwhile time.process_time() < 0.2: pass\\nprint(1, flush=True)\\ninput()"]
"""
BURNT_S = 0.2


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with this plug-in, and `burn`."""
    monkeypatch.chdir(pytester.path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # half a second each time
    monkeypatch.setattr(costs, "work", lambda: costs.WORK_S)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(burning=BURN)
    pytester.syspathinsert()
    return pytester


def measured(suite: pytest.Pytester, tests: str, *options: str) -> tuple[pytest.RunResult, dict[str, Any]]:
    """Run tests and return the result, and what each costs by its plain name."""
    suite.makepyfile(test_it=f"import pytest, subprocess\nfrom burning import burn, CHILD\n{tests}")
    done = suite.runpytest_inprocess("--tier=default", "--costs=costs.jsonl", *options)
    rows = [json.loads(line) for line in Path("costs.jsonl").read_text("utf-8").splitlines()]
    return done, {row["test"].partition("::")[2]: row for row in rows}


def test_cpu_time_of_the_test_counts_and_waiting_does_not(suite: pytest.Pytester) -> None:
    done, rows = measured(suite, "def test_burns(): burn(0.2)\ndef test_waits(): __import__('time').sleep(0.2)\n")
    assert done.ret == 0
    assert rows["test_burns"]["cpu"] >= BURNT_S > rows["test_waits"]["cpu"]
    assert rows["test_waits"]["wall"] >= BURNT_S


def test_children_count_while_they_run_and_when_they_have_ended(suite: pytest.Pytester) -> None:
    tests = """
running = []

def test_starts():
    child = subprocess.Popen(CHILD, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline()
    running.append(child)

def test_ends():
    running[0].communicate(b"end")
"""
    done, rows = measured(suite, tests)
    assert done.ret == 0
    ticks_s = 0.05  # the system counts a running process in steps of 10 ms
    assert rows["test_starts"]["children"] >= BURNT_S - ticks_s
    assert rows["test_ends"]["children"] < BURNT_S


def test_a_shared_fixture_is_a_row_of_its_own(suite: pytest.Pytester) -> None:
    fixture = "@pytest.fixture(scope='module')\ndef shared(): burn(0.2)\n"
    done, rows = measured(suite, f"{fixture}def test_first(shared): pass\ndef test_second(shared): pass\n")
    assert done.ret == 0
    assert rows["shared (module)"]["cpu"] >= BURNT_S > rows["test_first"]["cpu"]


@pytest.mark.parametrize("enforced", [True, False])
def test_a_test_above_the_limit_is_named_with_the_remedy_and_fails_only_ci(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, enforced: bool
) -> None:
    monkeypatch.setattr(costs, "TOO_DEAR_S", BURNT_S / 2)
    monkeypatch.setattr(costs, "COLLECTION_S", 1e9)
    monkeypatch.setattr(costs, "WORKER_MB", 1e9)
    monkeypatch.setattr(costs, "HEAVY", ())
    options = ["--enforce-costs"] if enforced else []
    done, _ = measured(suite, "def test_burns(): burn(0.2)\ndef test_is_cheap(): pass\n", *options)
    assert done.ret == (pytest.ExitCode.TESTS_FAILED if enforced else pytest.ExitCode.OK)
    assert "test_burns takes 0." in done.stdout.str()
    assert "list it in tests/complete.txt" in done.stdout.str()
    assert "test_is_cheap" not in done.stdout.str()


def test_a_heavy_import_is_charged_to_the_test_that_made_it(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "HEAVY", ("heavy_package",))
    suite.makepyfile(heavy_package="")
    blocked = "def test_blocks(monkeypatch): monkeypatch.setitem(__import__('sys').modules, 'heavy_package', None)\n"
    done, rows = measured(suite, blocked + "def test_loads(): import heavy_package\n", "--enforce-costs")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    assert (rows["test_blocks"]["loaded"], rows["test_loads"]["loaded"]) == ([], ["heavy_package"])


def test_the_dearest_are_printed_first(suite: pytest.Pytester) -> None:
    done, _ = measured(suite, "def test_cheap(): pass\ndef test_dear(): burn(0.2)\n", "--dearest=2")
    done.stdout.re_match_lines([r"=+ dearest: .*", r" +0\.\d\d .*::test_dear$", r" +0\.0\d .*::test_cheap$"])


def test_a_test_that_replaces_functions_of_the_system_is_measured(suite: pytest.Pytester) -> None:
    tests = """
def test_lists_nothing(monkeypatch):
    import builtins, os
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, lambda *_: pytest.fail("a folder is listed"))
    monkeypatch.setattr(builtins, "open", lambda *_: pytest.fail("a file is opened"))
"""
    done, rows = measured(suite, tests)
    assert done.ret == 0
    assert list(rows) == ["test_lists_nothing"]


def test_a_worker_is_judged_by_its_collection_and_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "WORKER_MB", 700)
    assert list(costs._about({"collection_s": 3.0, "collection_loaded": [], "peak_mb": 700}, 1.0)) == []
    said = list(costs._about({"collection_s": 30.0, "collection_loaded": ["torch"], "peak_mb": 1800}, 1.0))
    assert [any(word in each for each in said) for word in ("30.0 s", "torch", "1800 MB")] == [True] * 3


def test_limits_grow_on_a_machine_that_others_use(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "TOO_DEAR_S", BURNT_S / 2)
    monkeypatch.setattr(costs, "COLLECTION_S", 1e9)
    monkeypatch.setattr(costs, "WORKER_MB", 1e9)
    monkeypatch.setattr(costs, "HEAVY", ())
    for slowness, outcome in ((1.0, pytest.ExitCode.TESTS_FAILED), (20.0, pytest.ExitCode.OK)):
        monkeypatch.setattr(costs, "work", lambda slowness=slowness: slowness * costs.WORK_S)
        done, _ = measured(suite, "def test_burns(): burn(0.2)\n", "--enforce-costs")
        assert done.ret == outcome


def test_what_only_cycles_hold_is_freed_when_memory_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model: ...

    memory, sizes = costs.Memory(), iter([100, 100, 140, 200, 120])
    monkeypatch.setattr(memory, "_resident_mb", lambda: next(sizes))
    memory.pytest_runtest_logfinish()
    model = Model()
    model.itself, freed = model, weakref.ref(model)  # type: ignore[attr-defined]
    del model
    gc.disable()
    try:
        memory.pytest_runtest_logfinish()
        assert freed() is not None  # 40 MB more: not yet
        memory.pytest_runtest_logfinish()
    finally:
        gc.enable()
    assert freed() is None
