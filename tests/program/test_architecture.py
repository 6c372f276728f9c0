"""docs/architecture.md names the files that a query and a record really take, in their order."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from architecture_picture import picture
from call_profile import Calls, profiled
from package_text import FLOORS, SENTENCES, imports, room
from samples import ROOT, Program

MOST_HOPS = 700
"""Calls between packages that one query may make."""
MOST_FILES, MOST_LINES = 10, 2300
"""The files that a reader opens to know what happens on a query."""
BUSIEST = 3
"""Files with the most calls between packages that the page names at least."""
ASKED = ("query", "segment lungs in CT", "-k", "2")


def page(heading: str) -> str:
    """The section of the page under a heading."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def listed(heading: str) -> list[str]:
    """The files of the numbered list under a heading."""
    return re.findall(r"^\d+\. `([^`]+)`", page(heading), re.MULTILINE)


def of_second(run: Callable[[int], None]) -> Calls:
    """The calls of a run after another one, which loaded what both need."""
    run(1)
    return profiled(lambda: run(2))


@pytest.fixture
def query(sample_index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> Calls:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")

    def run(_: int) -> None:
        assert retrieve(*ASKED, "--artifacts", sample_index).code == 0

    return of_second(run)


@pytest.fixture
def record(retrieve: Program) -> Calls:
    catalog = ROOT / "catalogs" / "tools.jsonl"

    def run(number: int) -> None:
        assert retrieve("build", catalog, "--artifacts", f"built{number}").code == 0

    return of_second(run)


def hold(heading: str, calls: Calls) -> None:
    """Hold a section to the calls that were made."""
    files = listed(heading)
    assert files == sorted(set(files), key=files.index)
    assert [file for file in files if file not in calls.files] == []
    assert files == sorted(files, key=calls.files.index)
    busiest = [file for file, _ in calls.hops_by_file.most_common(BUSIEST)]
    assert [file for file in busiest if f"`{file}`" not in page(heading)] == []


def test_the_page_names_the_files_that_a_query_takes(query: Calls) -> None:
    hold("The way of a query", query)


def test_the_page_names_the_files_that_a_record_takes(record: Calls) -> None:
    hold("The way of a record", record)


def test_a_query_makes_few_calls_between_packages(query: Calls) -> None:
    assert sum(query.hops.values()) < MOST_HOPS


def test_a_reader_of_a_query_opens_few_files() -> None:
    files = listed("The way of a query")
    lines = sum(len((ROOT / "retrieve_cli" / file).read_text().splitlines()) for file in files)
    assert len(files) <= MOST_FILES
    assert lines <= MOST_LINES


@pytest.mark.usefixtures("parsed_package")
def test_the_picture_is_that_of_the_package(record: Calls, query: Calls) -> None:
    """RETRIEVE_WRITE_GOLDEN=1 writes it."""
    rooms = [name for floor in FLOORS for name in floor]
    crossing = {(room(here), room(there)) for here, there in imports() if room(here) != room(there)}
    drawn = picture(FLOORS[::-1], SENTENCES, [pair for pair in crossing if {*pair} <= {*rooms}], [query, record])
    path = ROOT / "docs" / "architecture.svg"
    if os.environ.get("RETRIEVE_WRITE_GOLDEN"):
        path.write_text(drawn)
    assert path.read_text() == drawn
