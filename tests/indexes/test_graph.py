"""The graph as it is made and opened: what names mean, what edges count, components, damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from column_samples import columns, record
from graph_samples import NODES, edge_lists, graph, weights
from hypothesis import given

from retrieve_cli.errors import IndexCorrupt, UsageError
from retrieve_cli.retrieval.graph.edges import GraphEdge, GraphNode
from retrieve_cli.retrieval.graph.file_edges import FileEdges
from retrieve_cli.retrieval.graph.file_edges_writer import packed
from retrieve_cli.retrieval.graph.graph import Graph, Neighbour, Node
from retrieve_cli.retrieval.graph.whole_graph import Dangling, WholeGraph
from retrieve_cli.storage import pickles

CATALOG = [
    record("scanpy", name="Scanpy", metadata={"needs": ["scrublet", "Harmony"], "topics": ["Cells", "RNA"]}),
    record("scrublet", name="Scrublet", metadata={"topics": ["cells"]}),
    record("harmony-1", name="Harmony", metadata={"needs": ["numpy", "Twin", "harmony-1"]}),
    record("a", name="Twin"),
    record("b", name="twin"),
]


def catalog(**parts: Any) -> Graph:
    return graph(columns(CATALOG), refer={"requires": "needs"}, **parts)


def near(built: Graph, node: Node, *, limit: int = 100) -> list[Neighbour]:
    return built.neighbours(node, limit=limit)


# -------------------------------------------------------------------------------------------- names and edges


def test_a_reference_is_an_id_or_else_the_name_of_one_record_in_any_case() -> None:
    assert near(catalog(), 0) == [
        Neighbour("requires", 2, 1.0, forward=True),
        Neighbour("requires", 1, 1.0, forward=True),
    ]


def test_names_that_mean_nothing_or_several_records_are_reported_and_loops_are_no_edges() -> None:
    built = WholeGraph(catalog())

    assert built.dangling == [
        Dangling(2, "requires", "Twin", ambiguous=True),
        Dangling(2, "requires", "numpy", ambiguous=False),
    ]
    assert built.counts == {"requires": 2}


def test_values_that_differ_in_case_are_one_node() -> None:
    built = catalog(share=["topics"])
    cells = built.find("TOPICS:cells")

    assert [each.node for each in near(built, cells)] == [0, 1]
    assert built.label(cells) == "topics:Cells"
    assert built.degree(0) == {"requires": (2, 0), "topics": (2, 0)}
    assert built.degree(cells) == {"topics": (0, 2)}


def test_an_edge_from_a_file_joins_records_by_name_values_and_declared_nodes() -> None:
    table = columns(CATALOG)
    said = [
        GraphNode("term:1", ("RNA",)),
        GraphNode("term:2", ("Molecules",)),
        GraphEdge("term:1", "term:2", "is_a"),
        GraphEdge("Scrublet", "term:2", "uses", 0.5),
        GraphEdge("Cells", "TWIN", "is_a"),
    ]
    built = graph(table, share=["topics"], add=said)
    molecules = built.find("molecules")

    assert near(built, molecules) == [
        Neighbour("is_a", built.find("topics:RNA"), 1.0, forward=False),
        Neighbour("uses", 1, 0.5, forward=False),
    ]
    assert WholeGraph(built).dangling == [Dangling(None, "is_a", "TWIN", ambiguous=True)]


def test_a_name_that_only_a_file_of_edges_knows_is_a_node_in_any_case() -> None:
    said = [
        GraphEdge("scrublet", "TP53", "studies"),
        GraphEdge("Harmony", "tp53", "studies"),
        GraphEdge("TP53", "apoptosis", "in"),
    ]
    built = graph(columns(CATALOG), add=said)

    assert [each.node for each in near(built, built.find("tp53")) if not each.forward] == [2, 1]
    assert [built.label(each.node) for each in near(built, built.find("apoptosis"))] == ["TP53"]
    assert WholeGraph(built).dangling == []


@given(edges=edge_lists)
def test_of_equal_edges_the_heaviest_counts_and_an_edge_to_itself_does_not(edges: list[GraphEdge]) -> None:
    built = graph(add=edges)
    found = {
        (node, near.node, near.kind): near.weight
        for node in range(NODES)
        for near in built.neighbours(node, limit=100)
        if near.forward
    }

    assert found == weights(edges)
    assert sum(WholeGraph(built).counts.values()) == len(found)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf"), 1e300])
def test_a_weight_that_cannot_be_one_is_refused(weight: float) -> None:
    with pytest.raises(UsageError, match="a -> b"):
        graph(add=[GraphEdge("a", "b", "seen_with", weight)])


def test_more_kinds_than_can_be_told_apart_are_refused() -> None:
    with pytest.raises(UsageError, match="257 kinds"):
        graph(add=[GraphEdge("0", "1", f"kind {number}") for number in range(257)])


# ------------------------------------------------------------------------------------------------- the file

STATED = [
    GraphNode("term:1", ("RNA",)),
    GraphEdge("term:1", "Cells", "is_a"),
    GraphEdge("Scrublet", "term:1", "uses", 0.5),
]


def test_a_name_means_the_record_that_has_it_now() -> None:
    moved = columns(CATALOG[::-1])

    assert [each.node for each in near(graph(moved, refer={"requires": "needs"}), 4)] == [2, 3]


def test_the_file_does_not_depend_on_the_order_of_edges(tmp_path: Path) -> None:
    contents = []
    for number, stated in enumerate((STATED, STATED[::-1])):
        pickles.dump(packed(stated), tmp_path / str(number))
        contents.append((tmp_path / str(number)).read_bytes())
    assert contents[0] == contents[1]
    opened = FileEdges(pickles.load(tmp_path / "0"))
    assert [opened.name(name) for name in range(len(opened))] == ["Cells", "RNA", "Scrublet", "term:1"]


@pytest.mark.parametrize("part", list(packed(STATED)))
def test_a_file_without_one_of_its_parts_is_corrupt(part: str) -> None:
    value = packed(STATED)
    del value[part]

    with pytest.raises(IndexCorrupt):
        FileEdges(value)


@pytest.mark.parametrize("part", ["names", "kinds", "ends", "weights"])
def test_edges_that_do_not_fit_are_corrupt(part: str) -> None:
    value = packed(STATED)
    value["outward"][part] = value["outward"][part][:-1]

    with pytest.raises(IndexCorrupt):
        FileEdges(value)


@pytest.mark.parametrize("part", ["names", "name_ends", "nodes", "alias_starts", "aliases", "named", "owners"])
def test_names_that_do_not_fit_are_corrupt(part: str) -> None:
    value = packed(STATED)
    for damaged in (value[part][:-1], value[part].astype(np.float32), np.full_like(value[part], 99)):
        if part != "names" or len(damaged) != len(value[part]) or damaged.dtype != value[part].dtype:
            with pytest.raises(IndexCorrupt):
                FileEdges({**value, part: damaged})


@pytest.mark.parametrize(("part", "number"), [("ends", -1), ("ends", 99)])
def test_an_edge_of_no_kind_or_to_no_name_is_corrupt(part: str, number: int) -> None:
    value = packed(STATED)
    value["outward"][part][:] = number
    damaged = Graph(columns(CATALOG), entities=["topics"], files=FileEdges(value))

    with pytest.raises(IndexCorrupt):
        near(damaged, 1)
    with pytest.raises(IndexCorrupt):
        _ = WholeGraph(damaged)


# ----------------------------------------------------------------------------------------------- looking at it


@given(edges=edge_lists)
def test_components_are_those_of_networkx(edges: list[GraphEdge]) -> None:
    drawn = nx.Graph()
    drawn.add_nodes_from(range(NODES))
    drawn.add_edges_from((int(edge.source), int(edge.target)) for edge in edges)

    assert WholeGraph(graph(add=edges)).sizes() == sorted(map(len, nx.connected_components(drawn)), reverse=True)


def test_an_unknown_node_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UsageError) as error:
        catalog(share=["topics"]).find("topics:cell")

    assert "topics:Cells" in error.value.hint
