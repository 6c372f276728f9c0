"""First guesses of a new user, from an empty folder and without reading: each works."""

import json
from pathlib import Path
from typing import Any

import pytest
from samples import Program

import retrieve_cli as package

ROWS: list[dict[str, Any]] = [
    {"Package": "kettle", "Summary": "Boils water for tea and coffee.", "license": "MIT"},
    {"Package": "trowel", "Summary": "Digs small holes for bulbs and seeds.", "license": "GPL-3.0-only"},
    {"Package": "lantern", "Summary": "Gives light on a camping ground at night.", "license": "MIT"},
]
"""Records with keys that are not known names."""


def write(name: str) -> None:
    """Write the records as a file of the format that its suffix names."""
    import pandas as pd

    frame = pd.DataFrame(ROWS)
    if name.endswith(".csv"):
        frame.to_csv(name, index=False)
    elif name.endswith(".parquet"):
        frame.to_parquet(name)
    elif name.endswith(".xlsx"):
        frame.to_excel(name, index=False)
    else:
        lines = (json.dumps(row) for row in ROWS)
        Path(name).write_text("\n".join(lines) if name.endswith(".jsonl") else json.dumps(ROWS), "utf-8")


@pytest.mark.parametrize("name", ["tools.csv", "tools.parquet", "tools.xlsx", "tools.json", "raw_keys.jsonl"])
def test_a_table_and_raw_keys_are_built_and_found(name: str, retrieve: Program) -> None:
    write(name)
    built = retrieve("build", name)
    assert (built.code, "Package: name" in built.err) == (0, True), built.err
    found = retrieve("query", "tea", "--filter", "license=MIT", "-k", "1", "--json").json["results"]
    assert [(hit["name"], hit["description"]) for hit in found] == [("kettle", ROWS[0]["Summary"])]


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    import pandas as pd

    monkeypatch.chdir(tmp_path)
    with package.build(pd.DataFrame(ROWS)) as index:
        yield index


def test_a_frame_is_built_searched_iterated_and_a_frame_again(index: Any) -> None:
    import pandas as pd

    answer = index.search("tea", limit=5, filters={"license": "MIT"})
    assert [result.name for result in answer] == ["kettle", "lantern"]
    frame = pd.DataFrame(answer)
    assert list(frame["name"]) == ["kettle", "lantern"]
    assert list(frame.columns) == list(pd.DataFrame(answer.to_dicts()).columns)


def test_folders_are_excluded_by_their_name(retrieve: Program) -> None:
    for name in ("guide.md", "node_modules/lib/readme.md"):
        Path("docs", name).parent.mkdir(parents=True, exist_ok=True)
        Path("docs", name).write_text(f"# {name}\n\nHow to boil water.\n", "utf-8")
    assert retrieve("build", "docs", "--exclude", "node_modules").code == 0
    assert [record["id"] for record in retrieve("inspect", "records", "--json").json["records"]] == ["guide.md"]
    assert retrieve("sync", "--dry-run", "--json").json["status"] == "unchanged"
