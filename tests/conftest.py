"""Fixtures: an empty folder for every test, an index without any model, the program as a function."""

import gc
import os
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import costs
import pytest
import tiers
from hypothesis import given, settings, strategies as st
from hypothesis.errors import HypothesisSideeffectWarning
from profiles import NAME, SEED
from samples import ROOT, TOOLS, Done, Program, write_catalog

from retrieve_cli.cli.main import main

settings.load_profile(NAME)


def pytest_report_header() -> str:
    return f"profile: {NAME} (HYPOTHESIS_PROFILE), seed: {SEED} (TEST_SEED)"


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers.add_option(parser)
    costs.add_options(parser)
    parser.addoption("--attack-seconds", type=float, help="attack the program so long: make fuzz")
    parser.addoption("--attack-seed", default="0", help="repeats the attacks of another campaign")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect 13,000 tests without the collector of garbage, which would walk them again and again, then and later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def draw_once() -> None:
    """Let Hypothesis make its tables: in a clean checkout those of all characters take 1 s and 200 MB."""
    settings(max_examples=1, database=None)(given(st.text())(lambda text: None))()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Draw before the first test: Hypothesis reads each file of the package, which would be charged to that test."""
    if any(getattr(getattr(item, "obj", None), "is_hypothesis_test", False) for item in session.items):
        draw_once()


def pytest_configure(config: pytest.Config) -> None:
    os.environ["RETRIEVE_TRUST"] = "1"  # for fixtures of modules, and processes that tests start
    costs.install(config, tiers.install(config))
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HypothesisSideeffectWarning)
            draw_once()  # for all workers, which read the tables from the disk


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in an empty folder, without the user's configuration; the hashed encoder unless it says else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
    monkeypatch.setenv("RETRIEVE_TRUST", "1")  # what tests of trust take back
    for name in ("NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def retrieve(capfd: pytest.CaptureFixture[str]) -> Program:
    """The program `retrieve`, run in this process."""

    def run(*arguments: object) -> Done:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Done(int(code), captured.out, captured.err)

    return run


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """A catalog of five tools."""
    return write_catalog(tmp_path / "tools.jsonl", TOOLS)


@pytest.fixture
def index(catalog: Path, retrieve: Program) -> Path:
    """The artifacts folder of an index of that catalog, at the default place."""
    assert retrieve("build", "--catalog", catalog).code == 0
    return Path("artifacts").resolve()


@pytest.fixture(scope="session")
def parsed_package() -> None:
    """Parse the package before tests of its text ask for it, so that none of them is charged for all."""
    from package_text import package

    package()


@pytest.fixture(scope="session")
def sample_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifacts folder of an index of the sample catalog by the default encoder, to be read only."""
    artifacts = tmp_path_factory.mktemp("sample") / "artifacts"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(artifacts.parent)
        patch.setenv("RETRIEVE_ENCODER__KIND", "auto")
        assert main(["build", "--catalog", str(ROOT / "catalogs" / "tools.jsonl"), "--artifacts", str(artifacts)]) == 0
    return artifacts


@pytest.fixture
def stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str | bytes], None]]:
    """Gives the program its standard input."""
    files = []

    def give(content: str | bytes) -> None:
        path = tmp_path / f"stdin-{len(files)}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        files.append(path.open(encoding="utf-8"))
        monkeypatch.setattr("sys.stdin", files[-1])

    yield give
    for file in files:
        file.close()
