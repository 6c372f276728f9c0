"""Related records: what the results link to and no retriever supports, listed apart from them with the path to it."""

import json
from pathlib import Path
from typing import Any

import pytest
from program.asking import answered, indexed
from samples import Program
from servers import sent, state_of

from retrieve_cli.server.http.app import server_app

QUERY = "cluster single-cell data"


def tool(name: str, title: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "name": title, "description": text, **more}


TOOLS = [
    tool("cluster", "CellCluster", "Clusters single-cell data.", requires_tool=["doublets", "tables"], license="MIT"),
    tool("doublets", "Twins", "Scores pairs that were captured as one.", requires_tool=["loader"], license="GPL-3.0"),
    tool("loader", "Reader", "Opens matrices.", license="MIT"),
    tool("counts", "CellCounter", "Counts every cell of single-cell data in a cluster of data.", license="MIT"),
    tool("tables", "Tabler", "Keeps data in tables that are wide, long, sparse, dense, flat or deep.", license="MIT"),
    tool("weather", "Forecast", "Says whether it rains, from data of stations."),
    *(tool(f"other{at}", f"Other {at}", f"Paints wall number {at} green.", license="MIT") for at in range(42)),
]
"""By BM25 alone three match better than `tables`; `doublets` and `loader` do not match at all."""
PATH = "cluster —requires→ doublets (0.70)"


@pytest.fixture
def tools(retrieve: Program) -> Path:
    """The artifacts of that catalog; the encoder is one that knows no language."""
    Path("config.yaml").write_text("encoder: {kind: hashed}\nfusion: {weights: {dense: 0}}\nsearch: {depth: 10}\n")
    indexed(retrieve, TOOLS)
    return Path("artifacts")


def asked(retrieve: Program, *flags: object, query: str = QUERY, **keys: object) -> dict[str, Any]:
    """The answer to the query by BM25, with keys of `expansion` in the environment."""
    with pytest.MonkeyPatch.context() as patch:
        for key, value in keys.items():
            patch.setenv(f"RETRIEVE_EXPANSION__{key}", str(value))
        return answered(retrieve, query, "--mode", "bm25", "--expand", "-k", "4", *flags)


def ids(answer: dict[str, Any], key: str = "results") -> list[str]:
    return [each["doc_id"] for each in answer[key]]


def test_over_http_they_are_named_with_their_paths_unless_asked_for_in_full(tools: Path, retrieve: Program) -> None:
    request = {"query": QUERY, "mode": "bm25", "expand": True, "k": 4}
    state = state_of(tools)
    try:
        plain, full, link, batch = sent(
            server_app(state),
            ("POST", "/search", {"json": request}),
            ("POST", "/search", {"json": {**request, "related": "full"}}),
            ("GET", "/search", {"params": {"q": QUERY, "mode": "bm25", "expand": "true", "k": 4}}),
            ("POST", "/search/batch", {"json": {"requests": [{**request, "id": "1"}]}}),
        )
    finally:
        state.close()
    whole = {key: value for key, value in asked(retrieve).items() if key != "timings_ms"}
    assert full.json() == whole
    assert link.json() == batch.json()["answers"][0] == plain.json()
    assert {**plain.json(), "related": whole["related"]} == whole
    named = ("rank", "id", "doc_id", "score", "name", "url", "path")
    assert plain.json()["related"] == [{key: each[key] for key in named} for each in whole["related"]]
    assert len(plain.content) < 0.8 * len(full.content)


def test_a_link_alone_makes_no_match_and_is_listed_apart_with_its_path(tools: Path, retrieve: Program) -> None:
    answer, plain = asked(retrieve), asked(retrieve, "--no-expand")
    assert set(ids(answer)) == set(ids(plain))
    assert ids(answer)[0] == "cluster"
    assert ids(answer, "related") == ["doublets", "loader"]
    first = answer["related"][0]
    assert (first["rank"], first["path"], first["strategies_used"]) == (1, PATH, [])
    assert first.keys() >= answer["results"][0].keys() - {"rerank"}
    assert 0 < first["score"] < answer["results"][0]["score"]
    assert "append" in answer["pipeline"]


def test_a_match_that_a_retriever_supports_is_raised_by_a_link(tools: Path, retrieve: Program) -> None:
    plain = ["cluster", "counts", "weather", "tables"]
    assert ids(asked(retrieve, "--no-expand")) == plain
    raised = asked(retrieve)
    assert ids(raised) == ["cluster", "counts", "tables", "weather"]
    assert raised["results"][2]["path"] == "cluster —requires→ tables (0.70)"


def test_the_number_of_related_records_is_bounded(tools: Path, retrieve: Program) -> None:
    assert ids(asked(retrieve, MAX_RELATED=1), "related") == ["doublets"]
    assert asked(retrieve, MAX_RELATED=0)["related"] == []


def test_a_filter_and_what_a_query_excludes_hold_for_related_records(tools: Path, retrieve: Program) -> None:
    assert ids(asked(retrieve, "--filter", "license=MIT"), "related") == ["loader"]
    assert asked(retrieve, query=f"{QUERY} [EXCLUDE:doublets]")["related"] == []


def test_records_of_another_tenant_are_not_related_nor_on_a_path(retrieve: Program) -> None:
    indexed(retrieve, [{**each, "tenant": "globex" if each["id"] == "doublets" else "acme"} for each in TOOLS])
    assert "doublets" in ids(asked(retrieve), "related")
    answer = asked(retrieve, "--tenant", "acme")
    assert "doublets" not in json.dumps(answer["related"])
    assert ids(answer, "related") == []


def test_related_records_take_what_the_results_leave_of_a_budget(
    tools: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_BUDGET__MAX_CHUNKS", "4")
    full = asked(retrieve)
    assert (full["budget"]["chunks"], full["related"]) == (4, [])
    monkeypatch.setenv("RETRIEVE_BUDGET__MAX_CHUNKS", "5")
    some = asked(retrieve)
    assert (some["budget"]["chunks"], ids(some, "related"), some["budget"]["cut"]) == (5, ["doublets"], [])
    monkeypatch.delenv("RETRIEVE_BUDGET__MAX_CHUNKS")
    words = asked(retrieve, "--max-tokens", "500")["budget"]["tokens"]
    assert words > asked(retrieve, "--max-tokens", "500", MAX_RELATED=0)["budget"]["tokens"]


def test_what_a_result_lists_among_its_dependencies_is_not_listed_again(tools: Path, retrieve: Program) -> None:
    answer = asked(retrieve, "--with-dependencies")
    needed = {need["id"] for each in answer["results"] for need in each["bundle"]["needs"]}
    assert needed >= {"doublets", "loader"}
    assert answer["related"] == []


def test_why_says_that_a_record_is_related_and_by_what_path(tools: Path, retrieve: Program) -> None:
    Path("config.yaml").write_text("expansion: {enabled: true}\nsearch: {depth: 10}\n")
    why = retrieve("inspect", "why", QUERY, "doublets", "--mode", "bm25", "--json").json
    assert (why["rank"], why["related_rank"]) == (None, 1)
    assert why["verdict"] == f"it is listed under Also needed, at 1: {PATH}"
    assert "related_rank" not in retrieve("inspect", "why", QUERY, "other1", "--mode", "bm25", "--json").json


def test_an_evaluation_measures_the_results_and_the_recall_with_related_records(
    tools: Path, tmp_path: Path, retrieve: Program
) -> None:
    (tmp_path / "gold.jsonl").write_text(json.dumps({"query": QUERY, "relevant": ["cluster", "doublets", "loader"]}))
    Path("config.yaml").write_text("expansion: {enabled: true}\nsearch: {depth: 10}\n")
    command = ("eval", "--gold", tmp_path / "gold.jsonl", "--mode", "bm25", "--metrics", "nDCG@10 R@2 RR")
    third = pytest.approx(1 / 3)

    done = retrieve(*command, "--json", "--gate", "R@2 with related>=0.9", "--run-out", tmp_path / "run.txt")
    assert (done.code, done.err.count("is not")) == (0, 0), done.err
    assert done.json["metrics"] | {"nDCG@10": 0} == {"nDCG@10": 0, "R@2": third, "RR": 1, "R@2 with related": 1}
    assert "doublets" not in (tmp_path / "run.txt").read_text()

    one = retrieve(*command, "--json", "--with", "expansion.max_related=1", "--ablate").json
    runs = {run["run"]: run["metrics"] for run in one["runs"]}
    assert runs["expansion.max_related=1"]["R@2 with related"] == pytest.approx(2 / 3)
    assert "R@2 with related" not in runs["without expansion"]
    blended = retrieve(*command, "--json", "--with", "expansion.placement=blend").json["runs"][0]["metrics"]
    assert blended.keys() == {"nDCG@10", "R@2", "RR"}
