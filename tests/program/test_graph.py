"""Edges between records: built with the index, walked from the first hits, shown, and kept by a sync.

Here linked records are placed among the results (`expansion.placement: blend`); test_related.py has them listed apart.
"""

from pathlib import Path
from typing import Any

import pytest
from graph_samples import SINGLE_CELL
from program.asking import Configure, answered, indexed, refused
from samples import Program, write_catalog


@pytest.fixture(autouse=True)
def _blended(configure: Configure) -> None:
    configure("expansion", placement="blend")


def tool(name: str, title: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "name": title, "description": text, **more}


QUERY = "cluster single-cell data"
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
    """That catalog, indexed."""
    catalog = write_catalog(tmp_path / "graph.jsonl", TOOLS)
    done = retrieve("build", "--catalog", catalog)
    assert (done.code, "1 dangling reference" in done.err) == (0, True), done
    return catalog


def found(retrieve: Program, *flags: object, query: str = QUERY, k: int = 4) -> dict[str, Any]:
    """The hits of a query, by their ids."""
    return {hit["doc_id"]: hit for hit in answered(retrieve, query, "-k", k, *flags)["results"]}


def drawn(retrieve: Program, *words: object) -> dict[str, Any]:
    """The graph as a whole, or around a node."""
    return dict(retrieve("inspect", "graph", *words, "--json").json)


def test_what_the_first_hit_requires_comes_in_behind_it_with_the_path_to_it(tools: Path, retrieve: Program) -> None:
    hits = found(retrieve)
    assert next(iter(hits)) == "cluster"
    assert {"doublets", "batch", "loader"} == set(list(hits)[1:])
    assert hits["doublets"]["path"] == "cluster —requires→ doublets (0.70)"
    assert hits["loader"]["path"].startswith("cluster —requires→ ")
    assert hits["loader"]["path"].endswith("—requires→ loader (0.49)")


def test_a_single_leg_is_expanded_only_where_that_is_asked_for(tools: Path, retrieve: Program) -> None:
    for flags in (("--no-expand",), ("--mode", "bm25")):
        assert not any("path" in hit for hit in found(retrieve, *flags).values())
    assert "path" in found(retrieve, "--mode", "bm25", "--expand")["doublets"]


def test_a_filter_holds_for_what_comes_in(tools: Path, retrieve: Program) -> None:
    assert "doublets" not in found(retrieve, "--filter", "id!=doublets")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("DEPTH", "1"),
        ("MAX_NODES", "2"),
        ("KINDS", "[part_of]"),
    ],
)
def test_every_key_of_expansion_changes_the_answer(
    tools: Path, retrieve: Program, configure: Configure, key: str, value: str
) -> None:
    before = {name: hit["score"] for name, hit in found(retrieve).items()}
    configure("expansion", **{key: value})
    assert {name: hit["score"] for name, hit in found(retrieve).items()} != before


@pytest.mark.parametrize(("key", "value"), [("kinds", "[requird]"), ("weights", "{requird: 1}")], ids=str.upper)
def test_a_kind_that_the_graph_does_not_have_is_refused_with_the_nearest_one(
    tools: Path, retrieve: Program, configure: Configure, key: str, value: str
) -> None:
    configure("expansion", **{key: value})
    said = refused(retrieve, "query", QUERY)
    assert f"expansion.{key}" in said
    assert "did you mean `requires`?" in said


@pytest.mark.parametrize("weight", ["{requires: 2}", "{requires: -1}", "{requires: much}", "[requires]"])
def test_a_weight_that_is_not_from_0_to_1_is_refused(
    tools: Path, retrieve: Program, configure: Configure, weight: str
) -> None:
    configure("expansion", weights=weight)
    refused(retrieve, "query", QUERY)


def test_a_bundle_names_what_is_needed_in_an_order_that_can_be_run(tools: Path, retrieve: Program) -> None:
    needs = [need["id"] for need in found(retrieve, "--with-dependencies")["cluster"]["bundle"]["needs"]]
    assert set(needs) == {"loader", "doublets", "batch"}
    assert needs.index("loader") < min(needs.index("doublets"), needs.index("batch"))
    lines = retrieve("query", QUERY, "--with-dependencies").out.splitlines()
    assert f"    needs: {', '.join(needs)}" in lines
    circle = found(retrieve, "--with-dependencies", query="stores tables", k=1)["writer"]["bundle"]
    assert circle["cycles"] == [["mirror", "writer"]]


def test_a_bundle_counts_in_the_budget_and_is_there_whole_or_not_at_all(
    tools: Path, retrieve: Program, configure: Configure
) -> None:
    configure("budget", max_chunks=4)
    whole = answered(retrieve, QUERY, "-k", "1", "--with-dependencies")
    assert (whole["budget"]["chunks"], len(whole["results"][0]["bundle"]["needs"])) == (4, 3)
    assert "Scores pairs" in str(whole["results"][0]["bundle"]["needs"])
    configure("budget", max_chunks=3)
    tight = answered(retrieve, QUERY, "-k", "1", "--with-dependencies")
    assert tight["budget"]["chunks"] == 1
    assert "bundle" not in tight["results"][0]
    assert "shown without its dependencies: their text takes 3 chunks" in tight["budget"]["cut"][0]["why"]
    assert answered(retrieve, QUERY, "--with-dependencies", "--max-tokens", "40")["budget"]["tokens"] <= 40


def test_the_graph_is_shown_as_a_whole_and_by_record(tools: Path, retrieve: Program) -> None:
    whole = drawn(retrieve)
    assert (whole["edges"], whole["kinds"]) == (6, {"requires": 6})
    assert [(each["record"], each["name"]) for each in whole["dangling"]] == [("batch", "nobody")]
    assert whole["components"][0] == 4
    one = drawn(retrieve, "doublets")
    assert one["degree"] == {"requires": {"out": 1, "in": 1}}
    assert {each["node"] for each in one["neighbours"]} == {"cluster", "loader"}
    refused(retrieve, "inspect", "graph", "nothing")
    assert retrieve("inspect", "status", "--json").json["graph"] == {"edges": 7, "kinds": ["requires"]}


def test_a_catalog_without_edges_has_no_graph_and_says_so(index: Path, retrieve: Program) -> None:
    assert not list(index.glob("generations/*/graph.pkl"))
    assert "no edges" in retrieve("inspect", "status", "--json").json["graph"]
    assert drawn(retrieve)["edges"] == 0
    answer = answered(retrieve, "brain", "--with-dependencies")
    assert "expand" not in answer["pipeline"]
    assert not any("bundle" in hit for hit in answer["results"])


def test_values_that_records_share_and_files_of_edges_are_edges_too(retrieve: Program) -> None:
    edges = Path("edges.csv")
    edges.write_text("source,target,kind,weight\nother1,other2,part_of,1\n")
    Path("config.yaml").write_text(
        "graph: {entities: [topics], files: [edges.csv], relations: {requires_tool: requires}}\n"
    )
    catalog = indexed(retrieve, TOOLS)
    assert drawn(retrieve)["kinds"] == {"part_of": 1, "requires": 6, "topics": 2}
    assert "loader" in str(drawn(retrieve, "topics:io")["neighbours"])
    edges.write_text("source,target,kind,weight\nother1,other2,part_of,-1\n")
    assert "edges.csv:2" in refused(retrieve, "build", "--catalog", catalog)


# ------------------------------------------------------------------------------------------- single-cell tools


HIDDEN = {"celltypist_annotation", "harmony_batch_correction", "scrublet_doublet_detection"}
"""Tools that share no word with the query."""


def by_name(retrieve: Program, query: str, *flags: object, k: int = 10) -> dict[str, dict[str, Any]]:
    return {hit["name"]: hit for hit in answered(retrieve, query, "-k", k, *flags)["results"]}


def test_a_clustering_query_brings_in_what_the_tool_requires_and_what_requires_it(
    retrieve: Program, configure: Configure
) -> None:
    indexed(retrieve, SINGLE_CELL)
    hits = by_name(retrieve, "scRNA-seq clustering")
    assert next(iter(hits)) == "leiden_clustering"
    assert set(hits) >= HIDDEN
    assert " ←requires— " in hits["celltypist_annotation"]["path"]
    assert all("path" in hits[name] for name in HIDDEN)
    configure("expansion", weights="{required_by: 0}")
    kept = by_name(retrieve, "scRNA-seq clustering", "--no-rerank").get("celltypist_annotation", {})
    assert "←requires—" not in kept.get("path", "")
    bundle = by_name(retrieve, "scRNA-seq clustering", "--with-dependencies")["leiden_clustering"]["bundle"]
    assert [need["name"] for need in bundle["needs"]] == ["harmony_batch_correction", "scanpy_preprocess"]


def test_a_domain_links_its_records_unless_a_fifth_of_them_have_it(
    tmp_path: Path, retrieve: Program, configure: Configure
) -> None:
    tools = [tool for tool in SINGLE_CELL if not tool["name"].startswith(("paint_1", "paint_2"))]
    done = retrieve("build", "--catalog", write_catalog(tmp_path / "cells.jsonl", tools))
    assert done.code == 0
    assert "more than 20 % of the records share domain:single-cell: this value links no records" in done.err
    assert drawn(retrieve)["common"] == [{"node": "domain:single-cell", "records": 5}]
    configure("expansion", weights="{same_domain: 1}")
    path = by_name(retrieve, "score gene sets")["fgsea_enrichment"]["path"]
    assert " —domain→ domain:enrichment ←domain— " in path

    def domains() -> list[str]:
        hits = by_name(retrieve, "names populations by reference atlases", k=20).values()
        return [hit["name"] for hit in hits if "domain:single-cell" in hit.get("path", "")]

    assert domains() == []
    configure("expansion", domain_share=1)
    assert domains() != []
    assert drawn(retrieve)["common"] == []


# -------------------------------------------------------------------------------- accession -> term -> tool

UNIPROT = [
    {"id": "P04637", "name": "Cellular tumor antigen p53", "description": "Guards the genome of a stressed cell."},
    {"id": "P38398", "name": "BRCA1", "description": "Repairs breaks with a sister as the template."},
    {"id": "caspase-screen", "name": "CaspaseScreen", "description": "Measures fluorescence of cleaved substrates."},
    {"id": "comet-count", "name": "CometCount", "description": "Measures tails on slides."},
    *(
        {"id": f"other{at}", "name": f"Other {at}", "description": f"Paints wall number {at} green."}
        for at in range(20)
    ),
]
GO = """format-version: 1.2
ontology: go

[Term]
id: GO:0006915
name: apoptotic process

[Term]
id: GO:0097190
name: apoptotic signaling pathway
relationship: part_of GO:0006915 ! apoptotic process

[Term]
id: GO:0006281
name: DNA repair
"""
ANNOTATIONS = "subject\tpredicate\tobject\nP04637\tannotated_with\tGO:0097190\nP38398\tannotated_with\tGO:0006281\n"
TOOL_TERMS = "source,target,kind\ncaspase-screen,GO:0006915,measures\ncomet-count,GO:0006281,measures\n"


def proteins(retrieve: Program, files: dict[str, str]) -> str:
    """Index the proteins with these files of edges; return what the build prints on stderr."""
    for name, text in files.items():
        Path(name).write_text(text)
    Path("config.yaml").write_text(f"graph: {{files: [{', '.join(files)}]}}\n")
    done = retrieve("build", "--catalog", write_catalog(Path("proteins.jsonl"), UNIPROT))
    assert done.code == 0, done
    return done.err


def test_an_accession_leads_over_terms_of_an_ontology_to_the_tool_for_it(retrieve: Program) -> None:
    said = proteins(retrieve, {"go.obo": GO, "goa.tsv": ANNOTATIONS, "tools.csv": TOOL_TERMS})
    assert "dangling reference" not in said
    hits = found(retrieve, query="p53 tumor antigen", k=30)
    assert hits["caspase-screen"]["path"].startswith(
        "P04637 —annotated_with→ apoptotic signaling pathway —part_of→ apoptotic process ←measures— caspase-screen ("
    )
    assert "path" not in hits.get("comet-count", {})


def test_the_nodes_of_a_file_of_edges_need_no_declaration(retrieve: Program) -> None:
    edges = "source,target,kind\nP04637,TP53,encoded_by\nTP53,apoptosis,in_pathway\ncaspase-screen,apoptosis,measures\n"
    assert "dangling reference" not in proteins(retrieve, {"edges.csv": edges})
    whole = drawn(retrieve)
    assert whole["nodes"] == {"records": len(UNIPROT), "others": 2}
    assert drawn(retrieve, "TP53")["degree"]["in_pathway"] == {"out": 1, "in": 0}
    path = found(retrieve, query="p53 tumor antigen", k=30)["caspase-screen"]["path"]
    assert "—in_pathway→ apoptosis ←measures— caspase-screen" in path


def test_what_only_edges_bring_in_is_followed_to_where_it_stands(tools: Path, retrieve: Program) -> None:
    flags = (QUERY, "doublets", "--mode", "bm25", "--json")
    Path("config.yaml").write_text("expansion: {enabled: true}\n")
    assert retrieve("inspect", "why", *flags).json["verdict"] == "it is result 3"
    beyond = retrieve("inspect", "why", *flags, "-k", "1").json
    assert beyond["verdict"].startswith("it is at rank 3 after adding linked records, and 1 result is requested")
    assert set(beyond["legs"]) == {"bm25"}
    assert beyond["fused"]["rank"] is None
