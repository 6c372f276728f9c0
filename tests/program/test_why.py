"""`inspect why`: one record or chunk through every stage, to its place in the answer or the stage that lost it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program.asking import Configure, answered, refused
from program.conftest import OWNERS
from samples import Program

IDS = ["lungs", "cells", "brain", "stitch", "align"]


def why(retrieve: Program, *words: str) -> dict[str, Any]:
    done = retrieve("inspect", "why", *words, "--json")
    assert done.code == 0, done
    return dict(done.json)


def results(retrieve: Program, *words: str) -> list[dict[str, Any]]:
    return list(answered(retrieve, *words)["results"])


# ------------------------------------------------------------------------------------------------- invariant

SETTINGS: list[dict[str, str]] = [
    {},
    {"SEARCH__MODE": "bm25"},
    {"SEARCH__GRADE": "0.2"},
    {"SEARCH__DEPTH": "1", "SEARCH__K": "1", "FUSION__METHOD": "rrf"},
    {"GATING__ENABLED": "true", "GATING__TOP_GROUPS": "1", "GATING__MIN_RESULTS": "0"},
    {"DIVERSITY__PER_GROUP": "1"},
    {"DIVERSITY__MMR": "0.3", "SEARCH__K": "3"},
    {"BUDGET__MAX_CHUNKS": "2"},
]


@pytest.mark.parametrize("keys", SETTINGS, ids=str)
@pytest.mark.parametrize(
    "query", ["brain volumes", "microscope images [EXCLUDE:stitch]", "brain volumes zebra quokka lynx badger"]
)
def test_it_names_the_rank_that_the_answer_has_and_a_verdict_in_any_case(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, keys: dict[str, str], query: str
) -> None:
    for key, value in keys.items():
        monkeypatch.setenv(f"RETRIEVE_{key}", value)
    monkeypatch.setenv("RETRIEVE_SEARCH__DEADLINE_MS", "null")  # an answer is to take the time it takes as well
    answer = {result["doc_id"]: result for result in results(retrieve, query)}
    for name in IDS:
        told = why(retrieve, query, name)
        if name in answer:
            assert (told["rank"], told["verdict"]) == (answer[name]["rank"], f"it is result {told['rank']}")
            assert told["stages"][-1]["score"] == answer[name]["score"]
        else:
            assert told["rank"] is None
            assert told["verdict"]
            assert not told["verdict"].startswith("it is result")


@pytest.mark.parametrize(
    "words",
    [
        ["--filter", "license=MIT"],
        ["--filter", "!license=MIT", "--mode", "bm25"],
        ["--tenant", "globex"],
        ["--tenant", "acme", "-k", "1"],
        ["-k", "2", "--mode", "dense"],
    ],
    ids=" ".join,
)
def test_its_flags_are_those_of_query(tenants: Path, retrieve: Program, words: list[str]) -> None:
    ranks = {result["doc_id"]: result["rank"] for result in results(retrieve, "brain", *words)}
    tenant = words[1] if "--tenant" in words else None
    for name in IDS:
        if tenant is None or OWNERS.get(name) == tenant:
            assert why(retrieve, "brain", name, *words).get("rank") == ranks.get(name)
        else:
            refused(retrieve, "inspect", "why", "brain", name, *words)


OF_CHUNKS = ({}, {"CONTEXT__WINDOW": "1"}, {"DIVERSITY__PER_SOURCE": "1"}, {"BUDGET__MAX_TOKENS": "90"})


@pytest.mark.parametrize("keys", OF_CHUNKS, ids=str)
def test_it_follows_chunks_too(
    guides: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, keys: dict[str, str]
) -> None:
    for key, value in keys.items():
        monkeypatch.setenv(f"RETRIEVE_{key}", value)
    ranks = {result["id"]: result["rank"] for result in results(retrieve, "remove claims", "--chunks", "-k", "6")}
    for name in [f"storage/claims.md#{at}" for at in range(6)] + ["network/services.md#2"]:
        assert why(retrieve, "remove claims", name, "-k", "6")["rank"] == ranks.get(name)


# -------------------------------------------------------------------------------------------------- verdicts


def test_what_the_query_excludes(index: Path, retrieve: Program) -> None:
    told = why(retrieve, "brain [EXCLUDE:BrainStrip]", "brain")
    assert (told["excluded"], told["may_be_found"]) == (True, False)
    assert told["verdict"] == "the query excludes it"
    assert told["legs"]["bm25"]["rank"] == 1


def test_what_does_not_pass_a_filter_is_told_which(index: Path, retrieve: Program) -> None:
    flags = ("--filter", "license=MIT", "--filter", "!group=neuroimaging")
    told = why(retrieve, "brain [FILTER:dims>=3]", "brain", *flags)
    assert told["filters"] == {"license=MIT": True, "!group=neuroimaging": False, "dims>=3": False}
    assert told["verdict"] == "it does not pass !group=neuroimaging and dims>=3"
    told = why(retrieve, "brain [INCLUDE:cells]", "brain")
    assert told["verdict"] == "it is not one of the records that the query searches"


def test_a_record_of_another_tenant_is_not_in_the_index_whatever_the_case(tenants: Path, retrieve: Program) -> None:
    for name in ("lungs", "lungs#0", "lung"):
        said = refused(retrieve, "inspect", "why", "lungs", name, "--tenant", "ACME")
        assert f"there is no record '{name}' in the index\n" in said
        assert "LungMapper" not in said


def test_what_no_leg_lists(index: Path, retrieve: Program, configure: Configure) -> None:
    configure("search", depth=2)
    told = why(retrieve, "brain volumes", "stitch", "-k", "1")
    assert not any(leg["listed"] for leg in told["legs"].values())
    rank = told["legs"]["dense"]["rank"]
    assert told["verdict"] == (f"no retriever has it in its top 2: bm25 does not match it, dense ranks it at {rank}")


def test_what_comes_behind_the_last_result(index: Path, retrieve: Program, configure: Configure) -> None:
    third = results(retrieve, "brain")[2]["doc_id"]
    told = why(retrieve, "brain", third, "-k", "2")
    assert told["verdict"] == ("it is at rank 3 without cuts, and the fusion of bm25 and dense passes on 2 hits")
    configure("search", min_score=-9)
    told = why(retrieve, "brain", third, "-k", "2")
    shown = "it is at rank 3 after the cut threshold(min_score=-9), and 2 results are requested: -k 3 shows it"
    assert told["verdict"] == shown


def test_what_a_threshold_takes(index: Path, retrieve: Program, configure: Configure) -> None:
    configure("search", min_score=1)
    told = why(retrieve, "brain", "cells")
    assert told["stages"][-1] == {"stage": "threshold(min_score=1)", "rank": None, "hits": 1}
    assert told["verdict"].startswith("it is at rank ")
    assert told["verdict"].endswith("and the cut threshold(min_score=1) removes it")


def test_what_the_gate_does_not_search(index: Path, retrieve: Program, configure: Configure) -> None:
    configure("gating", enabled="true", top_groups=1, min_results=0)
    told = why(retrieve, "brain", "cells")
    assert told["verdict"] == "group routing searches 1 of 3 groups, and not its group, 'microscopy'"


def test_what_the_budget_has_no_room_for(index: Path, retrieve: Program, configure: Configure) -> None:
    configure("budget", max_chunks=1)
    last = results(retrieve, "brain")[0]["doc_id"]
    told = why(retrieve, "brain", next(name for name in IDS if name != last))
    assert told["verdict"] == ("it does not fit into the budget: skipped: it takes 1 chunk where 0 of 1 are left")


def test_a_chunk_that_is_shown_with_another_is_told_with_which(
    guides: Path, retrieve: Program, configure: Configure
) -> None:
    configure("context", window=1)
    best = results(retrieve, "remove claims", "--chunks", "-k", "3")[0]
    around = {*best["context"]["chunks"]} - {best["id"]}
    assert around
    for name in around:
        told = why(retrieve, "remove claims", name, "-k", "3")
        assert told["rank"] is None
        assert told["verdict"].endswith(f"; its text is shown in the context of result 1, {best['id']}")


@pytest.mark.parametrize("name", ["lung", "lungs#7", "nobody", "", "#0", "lungs#x"])
def test_what_is_not_in_the_index(index: Path, retrieve: Program, name: str) -> None:
    said = refused(retrieve, "inspect", "why", "brain", name)
    assert "there is no record" in said
    assert "hint: " in said


# --------------------------------------------------------------------------------------------- empty answers


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["brain", "--filter", "license=GPL"], "0 of 5 records pass license=GPL"),
        (["brain [INCLUDE:nobody]"], "0 of 5 records pass all conditions"),
        (["hers theirs", "--mode", "bm25"], "bm25: the query has only stop words"),
        (["brain", "--min-score", "99"], "threshold(min_score=99) passed on 0 hits"),
        (["brain", "--max-tokens", "1"], "brain#0: skipped: it takes"),
    ],
)
def test_an_empty_answer_says_which_stage_took_the_last(
    index: Path, retrieve: Program, words: list[str], sentence: str
) -> None:
    done = retrieve("query", *words)
    assert sentence in done.out
    for format_ in (["--json"], ["-l"]):
        done = retrieve("query", *words, *format_)
        assert sentence in done.err
        assert sentence not in done.out
    assert sentence not in retrieve("query", *words, "-l", "-q").err


def test_of_a_batch_the_empty_answers_are_explained_alone(
    index: Path, retrieve: Program, stdin: Callable[[str], None]
) -> None:
    assert "has no results" not in retrieve("query", "brain").out
    stdin("brain\n" + json.dumps({"query": "cells", "id": "q", "filters": ["license=GPL"]}))
    done = retrieve("query", "-", "--json")
    assert done.err.splitlines()[0] == "query q has no results:"
    assert len(done.out.splitlines()) == 2


def test_a_tenant_is_told_of_its_own_records_only(tenants: Path, retrieve: Program) -> None:
    done = retrieve("query", "brain", "--tenant", "globex", "--filter", "license=BSD-3-Clause")
    assert "0 of 2 records pass license=BSD-3-Clause" in done.out
    assert " of 5 " not in done.out
