"""Fields that are offered as facets follow from the values of the records, and from nothing else."""

from pathlib import Path
from typing import Any

import numpy as np
from samples import Program, write_catalog

from retrieve_cli.storage.generation import open_generation
from retrieve_cli.storage.records.columns import Columns, columns_of
from retrieve_cli.storage.records.suggestions import offered
from retrieve_cli.storage.store import Store


def columns(retrieve: Program, folder: Path, records: list[dict[str, Any]]) -> Columns:
    assert (
        retrieve("build", "--catalog", write_catalog(folder / "r.jsonl", records), "--artifacts", folder / "a").code
        == 0
    )
    with open_generation(Store(folder / "a")) as generation:
        return columns_of(generation)


def records(number: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"r{place}",
            "name": f"Name {place}",
            "description": f"Text {place}",
            "license": ["MIT", "Apache-2.0"][place % 2],
            "shade": ["red", "Red", "blue"][place % 3],
            "hue": ["red", "Red", "blue"][place % 3],
            "alone": "same",
            "measure": place,
            "rare": "x" if place < 2 else None,
            "author": f"author {place // 2}",
            "tenant": ["one", "two"][place < 10],
            "level": place % 3 if place >= 10 else None,
        }
        for place in range(number)
    ]


def test_fields_with_few_shared_values_are_offered(tmp_path: Path, retrieve: Program) -> None:
    found = columns(retrieve, tmp_path, records(60))
    assert offered(found) == ["hue", "license", "level"], "equal fields once, those that most records have first"
    assert offered(found, most=1) == ["hue"]


def test_fields_of_invisible_records_are_not_offered(tmp_path: Path, retrieve: Program) -> None:
    found = columns(retrieve, tmp_path, records(60))
    first = np.arange(60) < 10
    assert "level" not in offered(found.within(first))
    assert "license" in offered(found.within(first))
