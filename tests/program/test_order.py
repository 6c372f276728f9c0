"""Matching records in the order of a field, and lists of records without a query."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from program.asking import Batch, answered, indexed, refused
from samples import Program

import retrieve_cli

YEARS = [2021, 2021.0, "1999", None, 20, "20", 2024.5, 3, None, 2022, "x", 1e6]
ROWS = [
    {"id": f"r{number:02}", "name": f"pump {number}", "text": "a pump " * (number % 3 + 1), "year": year}
    for number, year in enumerate(YEARS)
]


@pytest.fixture
def index(tmp_path: Path) -> retrieve_cli.Index:
    return retrieve_cli.build(ROWS, tmp_path / "index")


def ids(answer: Any) -> list[str]:
    return [str(hit.id).partition("#")[0] for hit in answer.results]


def in_order(rows: Sequence[dict[str, Any]], *, descending: bool = False) -> list[float | str | None]:
    """Return the years in their order: numbers, then texts, and what has none at the end."""
    years = [float(row["year"]) if row["year"] not in (None, "x") else row["year"] for row in rows]
    some = sorted(filter(None, years), key=lambda year: (year == "x", 0 if year == "x" else year))
    return [*(reversed(some) if descending else some), *(year for year in years if year is None)]


@pytest.mark.parametrize("text", ["pump", ""])
@pytest.mark.parametrize("descending", [False, True])
def test_records_come_in_the_order_of_a_field_and_those_without_it_last(
    index: retrieve_cli.Index, text: str, descending: bool
) -> None:
    found = ids(index.search(text, sort="year:desc" if descending else "year", k=20))
    rows = {row["id"]: row for row in ROWS}
    assert in_order([rows[one] for one in found], descending=descending) == [in_order([rows[one]])[0] for one in found]
    assert sorted(found) == sorted(rows)


def test_equal_values_are_in_the_order_of_score(tmp_path: Path) -> None:
    chance = random.Random(5)
    rows = [
        {"id": f"d{number:03}", "text": f"pump {'water ' * chance.randint(0, 4)}", "make": chance.choice("ab")}
        for number in range(300)
    ]
    index = retrieve_cli.build(rows, tmp_path / "index")
    scored = ids(index.search("pump water", mode="bm25", k=300))
    makes = {row["id"]: row["make"] for row in rows}
    for size in (1, 7, 250, 300):
        found = ids(index.search("pump water", sort="make:desc", k=size))
        assert found == sorted(scored, key=lambda name: makes[name], reverse=True)[:size], size


def test_dates_and_years_are_in_the_order_of_time(tmp_path: Path) -> None:
    days = ["2024-01-05", "2023", 2024, "2024-01-05T23:30:00-02:00", "2023-12-31", None]
    rows = [{"id": f"{at}", "text": "a pump", "day": day} for at, day in enumerate(days)]
    index = retrieve_cli.build(rows, tmp_path / "index")
    assert ids(index.search("", sort="day")) == ["1", "4", "2", "0", "3", "5"]


def test_filters_alone_list_what_they_keep(retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    indexed(retrieve, [{**row, "license": "MIT" if row["id"] < "r03" else "GPL-3.0"} for row in ROWS])
    listed = ["r00", "r01", "r02"]
    for words in (["--filter", "license=mit"], ["license:MIT"], ["[FILTER:license=MIT]"]):
        answer = answered(retrieve, *words)
        assert [one["doc_id"] for one in answer["results"]] == listed, words
        assert (answer["total_results"], answer["total_matches"], answer["strategies_used"]) == (3, 3, [])
    assert ids(retrieve_cli.open("artifacts").search("-license:GPL-3.0")) == listed
    page = answered(retrieve, "--filter", "license=MIT", "--sort", "name:desc", "-k", 2, "--offset", 1)
    assert [one["doc_id"] for one in page["results"]] == listed[1::-1]
    facets = answered(retrieve, "--filter", "license=MIT", "--facet", "license")["facets"]["license"]
    assert [one["count"] for one in facets] == [9, 3]
    assert "no record has license=BSD" in retrieve("query", "--filter", "license=BSD").err
    assert "the query is empty" in refused(retrieve, "query")
    assert "did you mean `year`" in refused(retrieve, "query", "pump", "--sort", "yeer:desc")
    assert "sort" in refused(retrieve, "query", "pump", "--sort", "year", "--rerank")
    unscored = answered(retrieve, "--filter", "license=MIT", "--min-score", 5, "--expand")
    assert unscored["notices"] == ["a list without a query has no scores: not applied: expand, min_score"]
    monkeypatch.setenv("RETRIEVE_EXPANSION__ENABLED", "true")  # of the configuration, which refuses no order
    assert answered(retrieve, "pump", "--sort", "year")["notices"] == ["no linked records: `sort` orders the results"]


def test_a_threshold_drops_records_and_not_the_others_of_the_order(index: retrieve_cli.Index) -> None:
    scores = {one.id: one.score for one in index.search("pump", mode="bm25", k=20).results}
    least = sorted(scores.values())[len(scores) // 2]
    found = index.search("pump", sort="year", min_score=least, k=3)
    assert len(found.results) == 3
    assert all(one.score >= least for one in found.results)


NAMES = ["pydicom", "OHIF Viewer", "3D Slicer", "elastix", "list_api_keys", "C++ Toolbox", "Überblick"]


@pytest.mark.parametrize("between", [", ", " ", " and ", "\n", "; "])
def test_a_list_of_names_has_each_of_them_first_in_its_order(tmp_path: Path, between: str) -> None:
    rows = [{"id": f"r{at}", "name": name, "text": "it does one thing"} for at, name in enumerate(NAMES)]
    rows += [{"id": f"o{at}", "name": f"other {at}", "text": f"{name} " * 9} for at, name in enumerate(NAMES * 3)]
    index = retrieve_cli.build(rows, tmp_path / "index")
    for mode in ("hybrid", "bm25"):
        wanted = [f"r{at}" for at in (4, 1, 6, 0, 5)]
        asked = between.join([NAMES[int(name[1:])].upper() for name in wanted])
        answer = index.search(asked, mode=mode, k=6)
        assert ids(answer)[:5] == wanted
        for result in answer.results[:5]:
            assert result.score == pytest.approx(sum(one.part for one in result.hit.evidence))
    assert ids(index.search("elastix, pydicom", filters="id!=r0", k=3))[0] == "r3"
    assert "names" not in index.search("pydicom does one thing").pipeline


def test_answers_of_a_batch_are_those_of_each_request_alone(retrieve: Program, batch: Batch) -> None:
    indexed(retrieve, [{**row, "license": "MIT"} for row in ROWS])
    lines = ["pump", {"filters": "license=MIT"}, "pump 1, pump 2", {"query": "", "sort": "year"}]
    alone = [batch([line])[0] for line in lines]
    changing = {"timings_ms", "query_id"}
    together = batch(lines)
    for one, other in zip(together, alone, strict=True):
        assert {key: one[key] for key in one.keys() - changing} == {key: other[key] for key in other.keys() - changing}
    assert [one["pipeline"].split(" > ")[-1] for one in together[1:3]] == ["list", "names"]
