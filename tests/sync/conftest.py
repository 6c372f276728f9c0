"""An index that is synced, and whole processes of the program."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from samples import Program, write_catalog
from sync.forks import Forks, Nursery
from sync.state import Fresh, Publish, Start, live, records

ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("RETRIEVE_")}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A catalog of sixty tools, in version 0."""
    return write_catalog(tmp_path / "tools.jsonl", records(0))


@pytest.fixture
def artifacts(source: Path, retrieve: Program) -> Path:
    """The index of that catalog, at the default place."""
    assert retrieve("build", "--catalog", source).code == 0
    return Path("artifacts").resolve()


@pytest.fixture
def publish(artifacts: Path, source: Path, retrieve: Program) -> Publish:
    """Writes a version of the catalog, or these records, syncs, and says which generation is live then."""

    def write_and_sync(catalog: int | list[dict[str, Any]]) -> str:
        write_catalog(source, records(catalog) if isinstance(catalog, int) else catalog)
        done = retrieve("sync")
        assert done.code == 0, done.err
        return live(artifacts)

    return write_and_sync


@pytest.fixture
def fresh(source: Path, retrieve: Program, tmp_path: Path) -> Fresh:
    """Builds the catalog in a folder of its own, without cache or predecessor, and returns that folder."""

    def build() -> Path:
        folder = tmp_path / "fresh"
        shutil.rmtree(folder, ignore_errors=True)
        done = retrieve("build", "--catalog", source, "--artifacts", folder)
        assert done.code == 0, done.err
        return folder

    return build


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """The process whose forks run the program."""
    place = Nursery()
    yield place
    place.close()


@pytest.fixture(scope="session")
def weighing_nursery() -> Iterator[Nursery]:
    """The same, with what it needs to weigh terms."""
    place = Nursery("torch", "transformers.models.bert.modeling_bert", "transformers.models.auto.modeling_auto")
    yield place
    place.close()


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of tokens and of term weights."""
    from splade_models import save_masked  # which loads torch

    return save_masked(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def forks(nursery: Nursery, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """Starts the program, or a task, as a process of its own by a fork; what still runs at the end is killed."""
    begun = Forks(nursery, tmp_path, tmp_path_factory.mktemp("forks"))
    yield begun
    begun.close()


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts the program, or a script, with an interpreter of its own and the hashed encoder."""

    def begin(*arguments: object, script: str = "") -> subprocess.Popen[str]:
        program = ["-c", script] if script else ["-m", "retrieve_cli"]
        return subprocess.Popen(
            [sys.executable, *program, *map(str, arguments)],
            cwd=tmp_path,
            env={**ENVIRONMENT, "RETRIEVE_ENCODER__KIND": "hashed"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return begin
