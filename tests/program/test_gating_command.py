"""A gate in the whole program: which groups it saw and picked, what it cost, and what quotas leave."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program.asking import Configure, answered
from samples import Program, write_catalog

CITIES = [f"city{at}" for at in range(20)]
ASKED = "museum of trams in city7"


@pytest.fixture
def cities(tmp_path: Path, retrieve: Program, configure: Configure) -> Path:
    """An index of twenty groups of four records, of which three are picked."""
    records = [
        {
            "id": f"{city}-{thing}",
            "name": f"{thing} of {city}",
            "description": f"The {thing} of trams in {city}, number {at} of {len(CITIES)}.",
            "group": city,
            "license": "MIT" if at % 2 else "BSD",
        }
        for at, city in enumerate(CITIES)
        for thing in ("museum", "harbour", "market", "theatre")
    ]
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "cities.jsonl", records)).code == 0
    configure("gating", top_groups=3)
    return Path("artifacts").resolve()


def asked(retrieve: Program, *words: str) -> dict[str, Any]:
    return answered(retrieve, ASKED, "--gate", *words)


def groups(found: dict[str, Any]) -> list[str]:
    return [result["group"] for result in found["results"]]


def test_the_answer_tells_what_the_gate_saw_picked_and_cost(cities: Path, retrieve: Program) -> None:
    found = asked(retrieve)
    gate = found["trace"]["gate"]
    assert gate["candidates"] == 80
    assert gate["groups_seen"] == 20
    assert gate["left_out"] == 17
    assert gate["passes"] == 2
    assert gate["searched"] == 3 * 4
    assert gate["chosen"][0]["group"] == "city7"
    assert sum(chosen["candidates"] for chosen in gate["chosen"]) == 12
    assert found["pipeline"].startswith("gate(300 > 3 groups, fuse(")


def test_results_are_of_the_picked_groups_in_the_order_of_the_full_ranking(cities: Path, retrieve: Program) -> None:
    found = asked(retrieve)
    chosen = {each["group"] for each in found["trace"]["gate"]["chosen"]}
    full = retrieve("query", ASKED, "--json", "-k", "80").json
    wanted = [each["id"] for each in full["results"] if each["group"] in chosen][:10]
    assert [each["id"] for each in found["results"]] == wanted
    assert len(set(groups(full))) > len(set(groups(found)))


def test_without_a_gate_there_is_no_trace_of_one_and_the_flag_wins_over_the_key(
    cities: Path, retrieve: Program, configure: Configure
) -> None:
    assert "trace" not in retrieve("query", ASKED, "--json").json
    configure("gating", enabled="true")
    assert retrieve("query", ASKED, "--json").json["trace"]["gate"]["passes"] == 2
    assert "trace" not in retrieve("query", ASKED, "--json", "--no-gate").json


def test_the_hits_of_the_first_pass_are_configured(cities: Path, retrieve: Program, configure: Configure) -> None:
    configure("gating", global_candidates=9)
    gate = asked(retrieve)["trace"]["gate"]
    assert gate["candidates"] == 9
    assert gate["groups_seen"] <= 9


def test_a_quota_holds_and_what_it_leaves_open_is_filled(cities: Path, retrieve: Program, configure: Configure) -> None:
    configure("gating", per_group=1, min_results=0)
    found = asked(retrieve)
    assert set(Counter(groups(found)).values()) == {1}
    assert len(found["results"]) == 3
    assert found["trace"]["gate"]["filled"] == 0
    configure("gating", min_results=7)
    filled = asked(retrieve)
    assert set(Counter(groups(filled)).values()) == {1}
    assert filled["results"][:3] == found["results"]
    assert (len(filled["results"]), filled["trace"]["gate"]["filled"]) == (7, 4)
    assert [each.get("topped_up", False) for each in filled["results"]] == [False] * 3 + [True] * 4


def test_records_are_grouped_by_any_field(cities: Path, retrieve: Program, configure: Configure) -> None:
    configure("gating", field="license", top_groups=1)
    found = asked(retrieve)
    (chosen,) = found["trace"]["gate"]["chosen"]
    assert {result["license"] for result in found["results"]} == {chosen["group"]}
    assert found["trace"]["gate"]["searched"] == 40


def test_a_field_that_no_record_has_is_an_error_with_the_nearest(
    cities: Path, retrieve: Program, configure: Configure
) -> None:
    configure("gating", field="grup")
    done = retrieve("query", ASKED, "--gate")
    assert (done.code, done.out) == (2, "")
    assert "`group`" in done.err


def test_where_no_record_has_a_group_the_gate_changes_nothing(tmp_path: Path, retrieve: Program) -> None:
    records = [{"id": f"r{at}", "name": f"tool {at}", "description": "of trams"} for at in range(8)]
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "plain.jsonl", records)).code == 0
    found, plain = asked(retrieve), retrieve("query", ASKED, "--json").json
    assert found["results"] == plain["results"]
    assert (found["trace"]["gate"]["passes"], found["trace"]["gate"]["groups_seen"]) == (1, 1)


def test_a_group_of_documents_is_their_top_folder(guides: Path, retrieve: Program, configure: Configure) -> None:
    configure("gating", top_groups=1)
    found = retrieve("query", "inspect the claims of storage", "--gate", "--json", "--chunks").json
    assert set(groups(found)) == {"storage"}
    assert found["trace"]["gate"]["searched"] == 3


@pytest.mark.parametrize("most", [1, 2, 3])
def test_all_texts_of_a_question_choose_no_more_groups_than_one_may(
    cities: Path, retrieve: Program, configure: Configure, most: int
) -> None:
    configure("gating", top_groups=most, min_results=0)
    found = asked(retrieve, "--also", "market of city3", "--also", "theatre of city11")
    gates = [text["trace"]["gate"] for text in found["trace"]["texts"]]
    chosen = [[each["group"] for each in gate["chosen"]] for gate in gates]
    assert chosen[0] == chosen[1] == chosen[2]
    assert set(groups(found)) == set(chosen[0]) <= {"city3", "city7", "city11"}
    assert len(chosen[0]) == most
    assert [gate["searched"] for gate in gates] == [4 * most] * 3


def test_a_quota_holds_for_all_texts_of_a_question_together(
    cities: Path, retrieve: Program, configure: Configure
) -> None:
    configure("gating", per_group=1, min_results=0)
    found = asked(retrieve, "--also", "market of city3", "--also", "theatre of city11")
    assert set(Counter(groups(found)).values()) == {1}
    assert found["pipeline"].endswith("> merge(per_group 1)")
    assert len(found["results"]) == 3


def test_texts_of_a_question_are_filled_up_only_where_none_of_them_has_enough(
    cities: Path, retrieve: Program, configure: Configure
) -> None:
    configure("gating", min_results=12)
    configure("search", k=12)
    found = asked(retrieve, "--also", "market of city3", "--mode", "dense")
    assert [text["trace"]["gate"]["filled"] for text in found["trace"]["texts"]] == [0, 0]
    assert not any("topped_up" in each for each in found["results"])
    configure("gating", per_group=2)
    found = asked(retrieve, "--also", "market of city3", "--mode", "dense")
    assert min(text["trace"]["gate"]["filled"] for text in found["trace"]["texts"]) > 0
    assert len(found["results"]) == 12
    chosen = {each["group"] for each in found["trace"]["texts"][0]["trace"]["gate"]["chosen"]}
    assert {each["id"] for each in found["results"] if each.get("topped_up")} == {
        each["id"] for each in found["results"] if each["group"] not in chosen
    }


def test_queries_of_a_batch_choose_their_groups_each_for_itself(
    cities: Path, retrieve: Program, stdin: Callable[[str], None]
) -> None:
    lines = [
        {"id": "same", "query": ASKED, "also": ["market of city3"]},
        {"id": "same", "query": "theatre of city11"},
        {"id": "same", "query": "harbour of city5", "also": ["market of city2"]},
    ]
    stdin("\n".join(map(json.dumps, lines)))
    together = [json.loads(line) for line in retrieve("query", "-", "--gate", "--json").out.splitlines()]
    for line, found in zip(lines, together, strict=True):
        stdin(json.dumps(line))
        alone = retrieve("query", "-", "--gate", "--json").json
        assert [found["results"], found.get("trace")] == [alone["results"], alone.get("trace")]


@pytest.mark.parametrize(("key", "most"), [("per_group", 1), ("per_group", 2)])
def test_diversity_allows_so_many_of_a_group_and_tells_what_it_cut(
    cities: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, key: str, most: int
) -> None:
    full = retrieve("query", ASKED, "--json", "-k", "80").json
    monkeypatch.setenv(f"RETRIEVE_DIVERSITY__{key.upper()}", str(most))
    found = retrieve("query", ASKED, "--json").json
    counts: Counter[str] = Counter()
    wanted = []
    for each in full["results"]:
        counts[each["group"]] += 1
        if counts[each["group"]] <= most:
            wanted.append(each["id"])
    assert [each["id"] for each in found["results"]] == wanted[:10]
    assert {cut["why"] for cut in found["trace"]["diversity"]["cut"]} == {f"{key} {most}"}


def test_diversity_allows_so_many_chunks_of_a_record(guides: Path, retrieve: Program, configure: Configure) -> None:
    configure("diversity", per_source=2)
    found = retrieve("query", "inspect claims", "--json", "--chunks").json
    assert max(Counter(each["doc_id"] for each in found["results"]).values()) == 2
    assert len(found["results"]) == 10
    assert {cut["why"] for cut in found["trace"]["diversity"]["cut"]} == {"per_source 2"}


def test_marginal_relevance_trades_likeness_for_novelty(guides: Path, retrieve: Program, configure: Configure) -> None:
    words = ["query", "inspect claims", "--json", "--chunks", "-k", "5"]
    plain = retrieve(*words).json["results"]
    configure("diversity", mmr=1)
    assert [each["id"] for each in retrieve(*words).json["results"]] == [each["id"] for each in plain]
    configure("diversity", mmr=0.3)
    novel = retrieve(*words).json["results"]
    assert novel[0]["id"] == plain[0]["id"]
    assert [each["id"] for each in novel] != [each["id"] for each in plain]
    assert all(each["source_scores"]["mmr"]["weight"] < 0 for each in novel)
