"""Edges between records: built with the index, walked from the first hits, shown, and kept by a sync."""

import json
from pathlib import Path
from typing import Any

import pytest
from samples import Program, collection, write_catalog


def tool(name: str, title: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "name": title, "description": text, **more}


TOOLS = [
    tool("cluster", "CellCluster", "Clusters single-cell data.", requires_tool=["doublets", "batch"]),
    tool("doublets", "Twins", "Scores pairs that were captured as one.", requires_tool=["loader"]),
    tool("batch", "Harmoniser", "Removes effects of the day.", requires_tool=["Reader", "nobody"]),
    tool("loader", "Reader", "Opens matrices.", topics=["io"]),
    tool("writer", "Saver", "Stores tables.", topics=["io"], requires_tool=["mirror"]),
    tool("mirror", "Copy", "Doubles files.", requires_tool=["writer"]),
    *(tool(f"other{at}", f"Other {at}", f"Paints wall number {at} green.") for at in range(8)),
]


@pytest.fixture
def tools(tmp_path: Path, retrieve: Program) -> Path:
    """The artifacts of that catalog."""
    done = retrieve("build", "--catalog", write_catalog(tmp_path / "graph.jsonl", TOOLS))
    assert done.code == 0
    assert "1 names of related records lead nowhere" in done.err
    return Path("artifacts")


def found(retrieve: Program, *flags: object) -> dict[str, Any]:
    done = retrieve("query", "cluster single-cell data", "--json", "-k", "4", *flags)
    assert done.code == 0, done.err
    return {hit["doc_id"]: hit for hit in done.json["results"]}


def test_what_the_first_hit_requires_comes_in_behind_it_with_the_path_to_it(tools: Path, retrieve: Program) -> None:
    hits = found(retrieve)
    assert next(iter(hits)) == "cluster"
    assert {"doublets", "batch", "loader"} == set(list(hits)[1:])
    assert hits["doublets"]["path"] == "cluster —requires→ doublets (0.70)"
    assert hits["loader"]["path"].startswith("cluster —requires→ ")
    assert hits["loader"]["path"].endswith("—requires→ loader (0.49)")


@pytest.mark.parametrize("flags", [("--no-expand",), ("--mode", "bm25")])
def test_without_expansion_and_in_a_single_leg_nothing_has_a_path(
    tools: Path, retrieve: Program, flags: tuple[str, ...]
) -> None:
    assert not any("path" in hit for hit in found(retrieve, *flags).values())


def test_a_single_leg_is_expanded_where_that_is_asked_for(tools: Path, retrieve: Program) -> None:
    assert "path" in found(retrieve, "--mode", "bm25", "--expand")["doublets"]


def test_a_filter_holds_for_what_comes_in(tools: Path, retrieve: Program) -> None:
    assert "doublets" not in found(retrieve, "--filter", "id!=doublets")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("DEPTH", "1"),
        ("DECAY", "0.1"),
        ("MAX_NODES", "2"),
        ("KINDS", "[part_of]"),
        ("ENABLED", "false"),
        ("METHOD", "pagerank"),
    ],
)
def test_every_key_of_expansion_changes_the_answer(
    tools: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, key: str, value: str
) -> None:
    before = {name: hit["score"] for name, hit in found(retrieve).items()}
    monkeypatch.setenv(f"RETRIEVE_EXPANSION__{key}", value)
    assert {name: hit["score"] for name, hit in found(retrieve).items()} != before


def test_the_number_of_seeds_counts(tools: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = retrieve("query", "cluster single-cell data", "--json").json["trace"]
    assert trace["expansion"]["seeds"] == 5
    monkeypatch.setenv("RETRIEVE_EXPANSION__SEEDS", "1")
    assert retrieve("query", "cluster single-cell data", "--json").json["trace"]["expansion"]["seeds"] == 1


def test_a_bundle_names_what_is_needed_in_an_order_that_can_be_run(tools: Path, retrieve: Program) -> None:
    needs = [need["id"] for need in found(retrieve, "--bundle")["cluster"]["bundle"]["needs"]]
    assert set(needs) == {"loader", "doublets", "batch"}
    assert needs.index("loader") < min(needs.index("doublets"), needs.index("batch"))
    assert "cluster needs: loader, " in retrieve("query", "cluster single-cell data", "--bundle").out
    circle = retrieve("query", "stores tables", "-k", "1", "--bundle", "--json").json["results"][0]["bundle"]
    assert circle["cycles"] == [["writer", "mirror"]]


def test_a_bundle_counts_in_the_budget_and_is_there_whole_or_not_at_all(tools: Path, retrieve: Program) -> None:
    whole = retrieve("query", "cluster single-cell data", "-k", "1", "--bundle", "--json", "--max-chunks", "4").json
    assert (whole["budget"]["chunks"], len(whole["results"][0]["bundle"]["needs"])) == (4, 3)
    assert "Scores pairs" in str(whole["results"][0]["bundle"]["needs"])
    tight = retrieve("query", "cluster single-cell data", "-k", "1", "--bundle", "--json", "--max-chunks", "3").json
    assert tight["budget"]["chunks"] == 1
    assert "bundle" not in tight["results"][0]
    assert "shown without what it requires, which takes 3 chunks" in tight["budget"]["cut"][0]["why"]
    tokens = retrieve("query", "cluster single-cell data", "--bundle", "--json", "--max-tokens", "40").json["budget"]
    assert tokens["tokens"] <= 40


def test_the_graph_is_shown_as_a_whole_by_record_and_as_a_picture(tools: Path, retrieve: Program) -> None:
    whole = retrieve("inspect", "graph", "--json").json
    assert (whole["edges"], whole["kinds"]) == (6, {"requires": 6})
    assert [(each["record"], each["name"]) for each in whole["dangling"]] == [("batch", "nobody")]
    assert whole["components"][0] == 4
    one = retrieve("inspect", "graph", "doublets", "--json").json
    assert one["degree"] == {"requires": {"out": 1, "in": 1}}
    assert {each["node"] for each in one["neighbours"]} == {"cluster", "loader"}
    dot = retrieve("inspect", "graph", "doublets", "--dot").out
    assert dot.startswith("digraph")
    assert '"cluster"' in dot
    assert retrieve("inspect", "graph", "nothing").code == 2
    assert retrieve("inspect", "graph", "--dot").code == 2
    assert retrieve("inspect", "status", "--json").json["graph"] == {"edges": 6}


@pytest.mark.parametrize("name", ["around.svg", "around.png"])
def test_a_neighbourhood_is_drawn(tools: Path, retrieve: Program, tmp_path: Path, name: str) -> None:
    done = retrieve("inspect", "graph", "cluster", "--picture", tmp_path / name, "--radius", "2")
    assert done.code == 0, done.err
    assert "4 nodes" in done.err
    begins = (tmp_path / name).read_bytes()[:8]
    assert begins.startswith(b"<?xml" if name.endswith("svg") else b"\x89PNG")
    assert retrieve("inspect", "graph", "cluster", "--picture", tmp_path / "around.txt").code == 2
    assert retrieve("inspect", "graph", "cluster", "--picture", tmp_path / "no" / name).code == 2


def test_a_catalog_without_edges_has_no_graph_and_says_so(index: Path, retrieve: Program) -> None:
    assert not list(index.glob("generations/*/graph.pkl"))
    assert "no edges" in retrieve("inspect", "status", "--json").json["graph"]
    assert retrieve("inspect", "graph", "--json").json["edges"] == 0
    answer = retrieve("query", "brain", "--json", "--bundle").json
    assert "expand" not in answer["pipeline"]
    assert not any("bundle" in hit for hit in answer["results"])


def test_values_that_records_share_and_files_of_edges_are_edges_too(tmp_path: Path, retrieve: Program) -> None:
    (tmp_path / "edges.csv").write_text("source,target,kind,weight\nother1,other2,part_of,1\n")
    config = tmp_path / "graph.yaml"
    config.write_text("graph: {entities: [topics], files: [edges.csv], relations: {requires_tool: requires}}\n")
    catalog = write_catalog(tmp_path / "graph.jsonl", TOOLS)
    assert retrieve("build", "--catalog", catalog, "--config", config).code == 0
    kinds = retrieve("inspect", "graph", "--json").json["kinds"]
    assert kinds == {"part_of": 1, "requires": 6, "topics": 2}
    assert "loader" in str(retrieve("inspect", "graph", "topics:io", "--json").json["neighbours"])
    (tmp_path / "edges.csv").write_text("source,target,kind,weight\nother1,other2,part_of,-1\n")
    wrong = retrieve("build", "--catalog", catalog, "--config", config)
    assert wrong.code == 2
    assert "edges.csv:2" in wrong.err


def test_a_sync_gives_the_graph_that_a_fresh_build_gives(tools: Path, tmp_path: Path, retrieve: Program) -> None:
    changed = [{**tool, "requires_tool": ["writer"]} if tool["id"] == "doublets" else tool for tool in TOOLS]
    write_catalog(tmp_path / "graph.jsonl", [*changed[3:], *changed[:3]])
    assert retrieve("sync").code == 0
    assert retrieve("build", "--catalog", tmp_path / "graph.jsonl", "--artifacts", "fresh").code == 0
    synced, fresh = (
        (Path(folder) / "generations" / (Path(folder) / "current").read_text().strip() / "graph.pkl").read_bytes()
        for folder in ("artifacts", "fresh")
    )
    assert synced == fresh


@pytest.mark.parametrize("text", ["graph: {relations: [x]}", "graph: {entities: topics}", "graph: {files: [3]}"])
def test_a_graph_that_is_not_configured_as_it_should_be_is_refused(
    tmp_path: Path, retrieve: Program, text: str
) -> None:
    (tmp_path / "wrong.yaml").write_text(text)
    done = retrieve(
        "build", "--catalog", write_catalog(tmp_path / "g.jsonl", TOOLS), "--config", tmp_path / "wrong.yaml"
    )
    assert done.code == 2
    assert "graph." in done.err


@pytest.mark.slow
def test_tools_that_a_query_implies_are_found_twice_as_often(tmp_path: Path, retrieve: Program) -> None:
    folder = collection("toollinkos")
    assert retrieve("build", "--catalog", folder / "tools.jsonl").code == 0
    measured: dict[str, dict[str, float]] = {}
    for judgments in ("test", "test_with_dependencies"):
        files = ("--queries", folder / "queries.jsonl", "--qrels", folder / "qrels" / f"{judgments}.tsv")
        with_edges = ("--with", "expansion.enabled=true")
        done = retrieve("eval", *files, "--mode", "bm25", "--metrics", "nDCG@10 R@10", *with_edges, "--json")
        assert done.code == 0, done.err
        measured[judgments] = done.json["metrics"]
        measured[f"{judgments} expanded"] = done.json["arms"][0]["metrics"]
    plain, expanded = (measured[f"test_with_dependencies{which}"]["R@10"] for which in ("", " expanded"))
    assert expanded >= 2 * plain
    assert measured["test expanded"]["nDCG@10"] >= measured["test"]["nDCG@10"] - 0.01


def test_what_only_edges_bring_in_is_followed_to_where_it_stands(tools: Path, retrieve: Program) -> None:
    flags = ("cluster single-cell data", "doublets", "--mode", "bm25", "--json")
    Path("config.yaml").write_text("expansion: {enabled: true}\n")
    assert retrieve("inspect", "why", *flags).json["verdict"] == "it is result 2"
    beyond = retrieve("inspect", "why", *flags, "-k", "1").json
    assert beyond["verdict"].startswith("it is hit 2 of expand(5 seeds, 2 steps), and 1 are asked for")
    assert set(beyond["legs"]) == {"bm25"}
    assert beyond["fused"]["rank"] is None


def test_tuning_takes_in_what_edges_bring_in(
    tools: Path, tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = tmp_path / "gold.jsonl"
    texts = ("cluster single-cell data", "clusters single-cell", "single-cell clusters of data", "data of cells")
    topics = [{"query": texts[at % 4], "relevant": ["loader", "batch"], "id": str(at)} for at in range(12)]
    gold.write_text("".join(json.dumps(topic) + "\n" for topic in topics))
    values = []
    for enabled in ("true", "false"):
        monkeypatch.setenv("RETRIEVE_EXPANSION__ENABLED", enabled)
        done = retrieve("eval", "--gold", gold, "--tune", "--json")
        assert done.code == 0, done.err
        assert done.json["tuning"]["of"] == "the whole pipeline, without reranking"
        values.append(done.json["tuning"]["value"])
        assert values[-1] == pytest.approx(done.json["metrics"]["nDCG@10"])
    assert values[0] > values[1]
