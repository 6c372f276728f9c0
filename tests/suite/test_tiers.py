"""The tiers divide the suite: each test is in exactly one, and CI runs both."""

import re
from pathlib import Path

import pytest
from samples import ROOT
from tiers import FOLDER, LIST, Entries, Tiers

SUITE = """
import pytest

def test_cheap(): pass
def test_dear(): pass

@pytest.mark.parametrize("size", ["small", "large one"])
def test_sizes(size): pass
"""
CONFTEST = """
from pathlib import Path
import tiers

def pytest_addoption(parser):
    tiers.add_option(parser)

def pytest_configure(config):
    config.option.cov_source = ["."]  # as with --cov
    entries = tiers.Entries(Path("list.txt").read_text())
    config.pluginmanager.register(tiers.Tiers(config.getoption("--tier"), entries, Path(__file__).parent))
"""
FILES = ("test_one.py", "folder/test_two.py")
TESTS = ("test_cheap", "test_dear", "test_sizes[small]", "test_sizes[large one]")
ALL = [f"checks/{file}::{test}" for file in FILES for test in TESTS]


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite of two files with this plug-in."""
    monkeypatch.chdir(pytester.path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # half a second each time
    pytester.makeini("[pytest]\ntestpaths = checks\naddopts = --import-mode=importlib")
    (pytester.path / "checks" / "folder").mkdir(parents=True)
    (pytester.path / "checks" / "conftest.py").write_text(CONFTEST)
    for file in FILES:
        (pytester.path / "checks" / file).write_text(SUITE)
    return pytester


def ran(suite: pytest.Pytester, tier: str) -> list[str]:
    """Run a tier of that suite and return the ids of its tests."""
    calls = suite.inline_run(f"--tier={tier}").getreports("pytest_runtest_logreport")
    return [report.nodeid for report in calls if report.when == "call"]


@pytest.mark.parametrize(
    "listed",
    ["", "kills test_one.py", "kills test_one.py::test_dear", "scale folder/test_two.py::test_sizes[large one]"],
)
def test_each_test_is_in_exactly_one_tier(suite: pytest.Pytester, listed: str) -> None:
    Path("list.txt").write_text(f"# comment\n\n{listed}\n")
    default, complete = ran(suite, "default"), ran(suite, "complete")
    assert sorted([*default, *complete]) == sorted(ALL)
    name = listed.partition(" ")[2]
    assert complete == [nodeid for nodeid in ran(suite, "all") if name and nodeid.startswith(f"checks/{name}")]


def test_coverage_is_not_measured_in_tests_that_repeat_what_others_do(suite: pytest.Pytester) -> None:
    Path("list.txt").write_text("kills test_one.py::test_dear\nmodels test_one.py::test_cheap\n")
    items, _ = suite.inline_genitems("--tier=all")
    unmeasured = [item.nodeid for item in items if item.get_closest_marker("no_cover")]
    assert (unmeasured, len(items)) == (["checks/test_one.py::test_dear"], len(ALL))


@pytest.mark.parametrize("name", ["test_three.py", "test_one.py::test_gone", "test_one.py::test_sizes[huge]"])
def test_an_entry_that_names_nothing_is_an_error(suite: pytest.Pytester, name: str) -> None:
    Path("list.txt").write_text(f"kills {name}\n")
    done = suite.runpytest_inprocess("--tier=all")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert f"complete.txt names what is not there: {name}" in done.stderr.str()


@pytest.mark.parametrize("line", ["because test_one.py", "test_one.py", "kills test_one", "kills a.py\nscale a.py"])
def test_a_line_that_cannot_be_read_is_named_by_its_number(line: str) -> None:
    number = 2 + line.count("\n")
    with pytest.raises(pytest.UsageError, match=rf"complete\.txt:{number}: "):
        Entries(f"\n{line}\n")


def test_a_file_without_tests_of_the_tier_is_not_imported() -> None:
    entries = Entries("kills a.py\nscale b.py::test_x\n")
    assert [entries.skips_file(file, "default") for file in ("a.py", "b.py", "c.py")] == [True, False, False]
    assert [entries.skips_file(file, "complete") for file in ("a.py", "b.py", "c.py")] == [False, False, True]
    assert not any(entries.skips_file(file, "all") for file in ("a.py", "b.py", "c.py"))


def test_entries_of_this_suite_name_files_that_are_there() -> None:
    entries = Entries(LIST.read_text("utf-8"))
    files = entries.files | {test.partition("::")[0] for test in entries.tests}
    assert sorted(file for file in files if not (FOLDER / file).is_file()) == []
    assert not [test for test in entries.tests if test.partition("::")[0] in entries.files]


def test_every_function_that_is_called_a_test_is_in_a_file_that_is_collected() -> None:
    tests = re.compile(r"^(async )?def test_", re.MULTILINE)
    strays = [path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.py")
              if not path.name.startswith("test_") and tests.search(path.read_text("utf-8"))]  # fmt: skip
    assert strays == []


def test_ci_runs_both_tiers_and_the_targets_exist() -> None:
    makefile, ci = (ROOT / "Makefile").read_text("utf-8"), (ROOT / ".ci" / "run").read_text("utf-8")
    recipes = dict(re.findall(r"^([a-z-]+):[^\n]*\n\t([^\n]*--tier=[^\n]*)", makefile, re.MULTILINE))
    run = [recipes[target] for target in re.findall(r"^make (\S+)", ci, re.MULTILINE) if target in recipes]
    assert {re.findall(r"--tier=(\w+)", recipe)[0] for recipe in run} == {"default", "complete"}


def test_tiers_are_told_apart_by_ids_relative_to_the_suite() -> None:
    tiers = Tiers("all", Entries("kills a.py::test_x\n"))
    assert [tiers.is_default(f"tests/a.py::{name}") for name in ("test_x", "test_x[1]", "test_xy")] == [
        False,
        False,
        True,
    ]
