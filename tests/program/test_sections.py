"""Filters and boosts by the section of a chunk, in the whole program: every stage obeys, and the JSON says so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from program.asking import Configure, answered, indexed, refused
from samples import Program

from retrieve_cli.errors import UsageError
from retrieve_cli.retrieval.queries.filters import parse_boost

CITIES = ("Berlin", "Munich", "Paris")


def plan(city: str) -> str:
    return (
        f"# {city}\n\nThe city of {city} has plans for its climate and its people.\n\n"
        f"## Transport\n\nTrams and buses in {city} run on electricity. The tram lines of {city} grow by a third, and "
        "bicycles get lanes of their own along the ring road.\n\n"
        f"## Heating\n\nDistrict heating in {city} replaces gas boilers. Heat pumps are paid for by the city; old "
        "houses get insulation.\n\n"
        f"### Results\n\nEmissions of heating in {city} fell by 12 percent within two years of work.\n\n"
        f"## Results\n\nOverall emissions in {city} fell by 20 percent. Trams contributed most of all, tram by tram.\n"
    )


def documents(retrieve: Program, **texts: str) -> None:
    """Index documents, each `NAME/plan.md`, at the default place."""
    for name, text in texts.items():
        path = Path("plans", name, "plan.md")
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert retrieve("build", "--docs-dir", "plans").code == 0


@pytest.fixture
def cities(retrieve: Program, configure: Configure) -> None:
    """An index of three plans, a chunk a section."""
    configure("chunking", size=40)
    documents(retrieve, **{city: plan(city) for city in CITIES})


def sections(found: Any) -> list[str]:
    return [str(result["section"]).partition(" > ")[2] for result in found["results"]]


def asked(retrieve: Program, *words: object) -> Any:
    return answered(retrieve, "trams of the city", *words)


WAYS: list[list[str]] = [
    [],
    ["--mode", "bm25"],
    ["--chunks", "--mode", "dense"],
    ["--chunks", "--route", "--also", "emissions of heating"],
]


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize(
    ("condition", "passing"),
    [
        ("section=results", {"Results", "Heating > Results"}),
        ("section=Heat*", {"Heating", "Heating > Results"}),
        ("section=Munich > Heating", {"Heating", "Heating > Results"}),
        ("section!=Heating", {"", "Transport", "Results"}),
    ],
)
def test_every_way_to_ask_shows_chunks_of_the_section_alone(
    cities: None, retrieve: Program, way: list[str], condition: str, passing: set[str]
) -> None:
    found = asked(retrieve, "--filter", condition, *way)
    assert found["filters"] == {"section": condition}
    assert set(sections(found)) <= passing
    wanted = {"Munich"} if "Munich" in condition else set(CITIES)
    if "bm25" not in way:  # which lists what has a word of the query
        assert {result["doc_id"].partition("/")[0] for result in found["results"]} == wanted
    assert found["results"]


@pytest.mark.parametrize("way", [["--chunks", "--mode", "dense"], ["--chunks", "--no-rerank"]], ids=" ".join)
def test_a_filtered_answer_is_the_full_ranking_of_chunks_less_the_others(
    cities: None, retrieve: Program, way: list[str]
) -> None:
    full = asked(retrieve, "-k", 100, *way)["results"]
    found = asked(retrieve, "-k", 100, "--filter", "section=Results", *way)["results"]
    kept = [result for result in full if "Results" in result["section"]]
    names = {result["id"]: result["score"] for result in kept}
    assert [result["id"] for result in found if result["id"] in names] == list(names)
    assert all(result["score"] == names.get(result["id"], result["score"]) for result in found)
    assert len(found) == 6


def test_records_that_only_words_find_are_shown_by_the_allowed_chunk_that_has_them(
    retrieve: Program, configure: Configure
) -> None:
    configure("bm25", unit="record")
    configure("chunking", size=40)
    documents(retrieve, Oslo=plan("Oslo"))
    found = asked(retrieve, "--mode", "bm25", "--filter", "section=Results")["results"]
    assert [result["section"] for result in found] == ["Oslo > Results"]
    assert asked(retrieve, "--mode", "bm25", "--filter", "section=Nothing")["results"] == []


def test_several_conditions_hold_for_one_chunk_and_one_of_records_beside_them(cities: None, retrieve: Program) -> None:
    both = ["--filter", "section=Heating", "--filter", "section=Results", "--filter", "path=Paris/**"]
    found = asked(retrieve, "--chunks", *both)["results"]
    assert [result["section"] for result in found] == ["Paris > Heating > Results"]
    assert asked(retrieve, "--filter", "section=Transport", "--filter", "section=Results")["results"] == []


def test_why_and_the_reason_of_an_empty_answer_and_the_list_of_records_know_sections(
    cities: None, retrieve: Program
) -> None:
    told = retrieve("inspect", "why", "trams", "Munich/plan.md#1", "--filter", "section=Results", "--json").json
    assert told["filters"] == {"section=Results": False}
    assert told["verdict"] == "it does not pass section=Results"
    told = retrieve("inspect", "why", "trams", "Munich/plan.md", "--filter", "section=Results", "--json").json
    assert told["filters"] == {"section=Results": True}
    empty = retrieve("query", "trams", "--filter", "section=Nothing").out
    assert "0 of 3 records pass section=Nothing" in empty
    assert retrieve("inspect", "records", "--filter", "section=Munich*", "--json").json["matched"] == 1
    assert "did you mean `section`?" in refused(retrieve, "query", "trams", "--filter", "secton=Results")


def test_a_field_of_records_that_is_called_section_filters_as_it_did(retrieve: Program) -> None:
    tools = [{"id": name, "name": name, "description": "counts trams", "section": name.upper()} for name in ("a", "b")]
    indexed(retrieve, tools)
    assert [each["id"] for each in asked(retrieve, "--filter", "section=A")["results"]] == ["a#0"]
    assert retrieve("query", "trams", "--filter", "heading=A").code == 2


def test_sections_of_front_matter_and_headings_are_both_sections(retrieve: Program) -> None:
    trams = "\n\nTrams of the city.\n"
    documents(retrieve, a=f"---\nsection: Annex\n---\n# A{trams}", b=f"# Annex{trams}", c=f"# C{trams}")
    for condition, ids in (("section=annex", {"a/plan.md", "b/plan.md"}), ("!section=annex", {"c/plan.md"})):
        assert {each["doc_id"] for each in asked(retrieve, "--filter", condition)["results"]} == ids


def test_a_section_that_only_another_tenant_has_is_no_field(retrieve: Program) -> None:
    trams = "Trams of the city.\n"
    documents(retrieve, a=f"---\ntenant: acme\n---\n# Secret\n\n{trams}", b=f"---\ntenant: other\n---\n{trams}")
    assert retrieve("query", "trams", "--tenant", "acme", "--filter", "section=Secret").code == 0
    refused(retrieve, "query", "trams", "--tenant", "other", "--filter", "section=Secret")
    assert "did you mean" not in retrieve("query", "trams", "--tenant", "other", "--filter", "secton=x").err


# ---------------------------------------------------------------------------------------------------- boosts


def test_a_boost_raises_its_section_and_says_so(cities: None, retrieve: Program) -> None:
    plain = asked(retrieve, "--chunks", "-k", 100)
    found = asked(retrieve, "--chunks", "-k", 100, "--boost", "section=Heat*:2")
    assert found["pipeline"] == f"{plain['pipeline']} > boost(section=Heat*:2)"
    before = {result["id"]: result for result in plain["results"]}
    floor = found["trace"]["boost"]["floor"]
    assert found["trace"]["boost"]["boosted"] == 6
    for result in found["results"]:
        old = before[result["id"]]["score"]
        if "Heating" in result["section"]:
            assert result["score"] > old
            assert result["score"] == pytest.approx(floor + 2 * (old - floor))
            why = result["source_scores"]["boost"]
            assert (why["rank"], why["score"], why["weight"]) == (before[result["id"]]["rank"], old, 1.0)
        else:
            assert result["score"] == old
            assert "boost" not in result["source_scores"]
    shown = retrieve("query", "trams", "--chunks", "--boost", "section=Heat*:2", "--explain").out
    assert re.search(r"^ +boost +rank \d", shown, re.MULTILINE)


def test_boosts_of_the_configuration_hold_for_records_and_sections_and_a_flag_wins(
    cities: None, retrieve: Program, configure: Configure
) -> None:
    configure("boost", section="{Results: 3}", group='{"M*": 0.5}')
    found = asked(retrieve, "--chunks")
    assert found["pipeline"].endswith("boost(group=M*:0.5, section=Results:3)")
    assert "Results" in found["results"][0]["section"]
    assert not found["results"][0]["doc_id"].startswith("Munich")
    found = asked(retrieve, "--chunks", "--boost", "section=Results:0.1")
    assert found["pipeline"].endswith("boost(group=M*:0.5, section=Results:0.1)")
    assert "Results" not in found["results"][0]["section"]


def test_a_boost_of_the_configuration_on_a_field_that_no_record_has_is_said_and_one_of_a_flag_is_an_error(
    index: Path, retrieve: Program, configure: Configure
) -> None:
    assert "no record has a field 'section'" in refused(retrieve, "query", "brain", "--boost", "section=Results:2")
    plain = retrieve("query", "brain").out
    configure("boost", section="{Results: 3}")
    done = retrieve("query", "brain")
    assert (done.code, done.out) == (0, plain)
    assert "boost.section raises nothing" in done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((f"section=Results{factor}", "no factor") for factor in ("", ":", ":x", ":-1", ":1e9", ":nan")),
        ("section=Results:0", "above 0 up to 10"),
        ("section=Results:10.5", "above 0 up to 10"),
        ("section:1.2", "no operator"),
        ("section=:1.2", "empty value"),
    ],
)
def test_what_is_no_boost_is_an_error_that_quotes_it(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_boost(text)


@pytest.mark.parametrize("unit", [[], ["--chunks"]], ids=["records", "chunks"])
@pytest.mark.parametrize("bm25_unit", ["record", "chunk"])
def test_matches_are_counted_among_the_chunks_that_pass(
    cities: None, retrieve: Program, configure: Configure, unit: list[str], bm25_unit: str
) -> None:
    configure("bm25", unit=bm25_unit)
    assert retrieve("sync").code == 0
    for condition in ("section=Transport", "section=Results", "!section=Results", "section=Munich > Heating"):
        found = asked(retrieve, "--mode", "bm25", "-k", "100", "--filter", condition, *unit)
        assert found["total_matches"] == found["total_results"] == len(found["results"])
        hybrid = asked(retrieve, "--filter", condition, *unit, "--route", "--also", "emissions")
        assert hybrid["total_matches"] >= found["total_matches"]
