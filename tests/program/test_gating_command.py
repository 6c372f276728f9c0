"""A gate in the whole program: which groups it saw and picked, what it cost, and what quotas leave."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program.asking import Configure, answered, indexed, refused
from samples import Program

CITIES = [f"city{at}" for at in range(20)]
ASKED = "museum of trams in city7"


Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(retrieve: Program, configure: Configure) -> Ask:
    """Asks an index of twenty groups of four records, of which three are picked."""
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
    indexed(retrieve, records)
    configure("gating", top_groups=3)
    return lambda *words: answered(retrieve, ASKED, *words)


def groups(found: dict[str, Any]) -> list[str]:
    return [result["group"] for result in found["results"]]


def ids(found: dict[str, Any]) -> list[str]:
    return [result["id"] for result in found["results"]]


def test_the_answer_tells_what_the_gate_saw_picked_and_cost(ask: Ask) -> None:
    found = ask("--route")
    gate = found["trace"]["gate"]
    counts = {"candidates": 80, "groups_seen": 20, "left_out": 17, "passes": 2, "searched": 3 * 4}
    assert {name: gate[name] for name in counts} == counts
    assert gate["chosen"][0]["group"] == "city7"
    assert sum(chosen["candidates"] for chosen in gate["chosen"]) == 12
    assert found["pipeline"].startswith("gate(300 > 3 groups, fuse(")


def test_results_are_of_the_picked_groups_in_the_order_of_the_full_ranking(ask: Ask) -> None:
    found, full = ask("--route"), ask("-k", "80")
    chosen = {each["group"] for each in found["trace"]["gate"]["chosen"]}
    assert ids(found) == [each["id"] for each in full["results"] if each["group"] in chosen][:10]
    assert len(set(groups(full))) > len(set(groups(found)))


def test_without_a_gate_there_is_no_trace_of_one_and_the_flag_wins_over_the_key(ask: Ask, configure: Configure) -> None:
    assert "trace" not in ask()
    configure("gating", enabled="true")
    assert ask()["trace"]["gate"]["passes"] == 2
    assert "trace" not in ask("--no-route")


def test_a_quota_holds_and_what_it_leaves_open_is_filled(ask: Ask, configure: Configure) -> None:
    configure("gating", per_group=1, min_results=0)
    found = ask("--route")
    assert set(Counter(groups(found)).values()) == {1}
    assert (len(found["results"]), found["trace"]["gate"]["filled"]) == (3, 0)
    configure("gating", min_results=7)
    filled = ask("--route")
    assert set(Counter(groups(filled)).values()) == {1}
    assert filled["results"][:3] == found["results"]
    assert (len(filled["results"]), filled["trace"]["gate"]["filled"]) == (7, 4)
    assert [each.get("topped_up", False) for each in filled["results"]] == [False] * 3 + [True] * 4


def test_records_are_grouped_by_any_field_that_some_have(ask: Ask, retrieve: Program, configure: Configure) -> None:
    configure("gating", field="license", top_groups=1)
    found = ask("--route")
    (chosen,) = found["trace"]["gate"]["chosen"]
    assert {result["license"] for result in found["results"]} == {chosen["group"]}
    assert found["trace"]["gate"]["searched"] == 40
    configure("gating", field="grup")
    assert "`group`" in refused(retrieve, "query", ASKED, "--route")


def test_where_no_record_has_a_group_the_gate_changes_nothing(retrieve: Program) -> None:
    records = [{"id": f"r{at}", "name": f"tool {at}", "description": "of trams"} for at in range(8)]
    indexed(retrieve, records)
    found, plain = answered(retrieve, ASKED, "--route"), answered(retrieve, ASKED)
    assert found["results"] == plain["results"]
    assert (found["trace"]["gate"]["passes"], found["trace"]["gate"]["groups_seen"]) == (1, 1)


def test_a_group_of_documents_is_their_top_folder(guides: Path, retrieve: Program, configure: Configure) -> None:
    configure("gating", top_groups=1)
    found = answered(retrieve, "inspect the claims of storage", "--route", "--chunks")
    assert set(groups(found)) == {"storage"}
    assert found["trace"]["gate"]["searched"] == 3


@pytest.mark.parametrize("most", [1, 2, 3])
def test_all_texts_of_a_question_choose_no_more_groups_than_one_may(ask: Ask, configure: Configure, most: int) -> None:
    configure("gating", top_groups=most, min_results=0)
    found = ask("--route", "--also", "market of city3", "--also", "theatre of city11")
    gates = [text["trace"]["gate"] for text in found["trace"]["texts"]]
    chosen = [[each["group"] for each in gate["chosen"]] for gate in gates]
    assert chosen[0] == chosen[1] == chosen[2]
    assert set(groups(found)) == set(chosen[0]) <= {"city3", "city7", "city11"}
    assert len(chosen[0]) == most
    assert [gate["searched"] for gate in gates] == [4 * most] * 3


@pytest.mark.parametrize("most", [1, 2])
def test_diversity_allows_so_many_of_a_group_and_tells_what_it_cut(ask: Ask, configure: Configure, most: int) -> None:
    full = ask("-k", "80")
    configure("diversity", per_group=most)
    found = ask()
    counts: Counter[str] = Counter()
    wanted = []
    for each in full["results"]:
        counts[each["group"]] += 1
        if counts[each["group"]] <= most:
            wanted.append(each["id"])
    assert ids(found) == wanted[:10]
    assert {cut["why"] for cut in found["trace"]["diversity"]["cut"]} == {f"per_group {most}"}


def test_diversity_allows_so_many_chunks_of_a_record(guides: Path, retrieve: Program, configure: Configure) -> None:
    configure("diversity", per_source=2)
    found = answered(retrieve, "inspect claims", "--chunks")
    assert max(Counter(each["doc_id"] for each in found["results"]).values()) == 2
    assert len(found["results"]) == 10
    assert {cut["why"] for cut in found["trace"]["diversity"]["cut"]} == {"per_source 2"}


def test_marginal_relevance_trades_likeness_for_novelty(guides: Path, retrieve: Program, configure: Configure) -> None:
    def asked() -> dict[str, Any]:
        return answered(retrieve, "inspect claims", "--chunks", "-k", "5")

    plain = ids(asked())
    configure("diversity", mmr=1)
    assert ids(asked()) == plain
    configure("diversity", mmr=0.3)
    novel = asked()
    assert ids(novel)[0] == plain[0]
    assert ids(novel) != plain
    assert all(each["source_scores"]["mmr"]["weight"] < 0 for each in novel["results"])
