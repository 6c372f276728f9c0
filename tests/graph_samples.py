"""Graphs to test with: drawn edges between records and values, written as a generation writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import networkx as nx
from column_samples import columns, record
from hypothesis import strategies as st

from retrieve_cli.retrieval.graph.edges import GraphEdge, GraphNode
from retrieve_cli.retrieval.graph.file_edges import FileEdges
from retrieve_cli.retrieval.graph.file_edges_writer import packed
from retrieve_cli.retrieval.graph.graph import Entity, Graph, Node
from retrieve_cli.retrieval.graph.walks import Walk, damping, direction
from retrieve_cli.storage.records.columns import Columns

NODES = 6
OTHERS = (NODES, NODES + 1)
"""Nodes that are no records, where there are any."""
KINDS = ("requires", "compatible_with", "part_of")
WALKS: Mapping[str, Walk] = {
    "requires": Walk(1.0, damped="never"),
    "required_by": Walk(0.6, damped="always"),
    "compatible_with": Walk(0.5),
    "part_of": Walk(0.75),
}
"""Directions that are walked: from a whole to its parts, nothing is."""

edge = st.builds(
    GraphEdge,
    st.integers(0, NODES - 1).map(str),
    st.integers(0, NODES - 1).map(str),
    st.sampled_from(KINDS),
    st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]),
)
# Drawn by their length first: lists are short where they may be, and short ones have no two paths to compare.
edge_lists = st.integers(0, 24).flatmap(lambda size: st.lists(edge, min_size=size, max_size=size))
linked_edge = st.builds(
    GraphEdge,
    st.sampled_from([*range(NODES), *OTHERS]).map(str),
    st.sampled_from([*range(NODES), *OTHERS]).map(str),
    st.sampled_from(KINDS),
    st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]),
)
linked_lists = st.integers(0, 24).flatmap(lambda size: st.lists(linked_edge, min_size=size, max_size=size))
"""Edges between records and other nodes."""
requirements = st.lists(
    st.builds(GraphEdge, *[st.integers(0, NODES - 1).map(str)] * 2, st.just("requires")), max_size=20
)
seeds = st.lists(st.tuples(st.integers(0, NODES - 1), st.sampled_from([0.5, 1.0, 2.0])), min_size=1, max_size=3)


def tools(count: int = NODES) -> Columns:
    """The columns of records that are called by their rows."""
    return columns([record(str(row)) for row in range(count)])


def graph(
    table: Columns | None = None,
    *,
    refer: Mapping[str, str] = {},
    share: Sequence[str] = (),
    add: Iterable[GraphNode | GraphEdge] = (),
) -> Graph:
    """The graph of records; `refer` are fields that name records, by kind of edge."""
    table = tools() if table is None else table
    relations = {field: kind for kind, field in refer.items()}
    return Graph(table, relations=relations, entities=share, files=FileEdges(packed(add)))


def number(node: Node) -> int:
    """The number by which a drawn edge names a node."""
    return int(node.form) if isinstance(node, Entity) else node


def linked(edges: Iterable[GraphEdge]) -> Graph:
    """The graph of edges between records and other nodes."""
    return graph(add=[*(GraphNode(str(node)) for node in OTHERS), *edges])


def weights(edges: Iterable[GraphEdge]) -> dict[tuple[int, int, str], float]:
    """The edges as they count: none to itself, of equal ones the heaviest."""
    found: dict[tuple[int, int, str], float] = {}
    for each in edges:
        key = (int(each.source), int(each.target), each.kind)
        if key[0] != key[1]:
            found[key] = max(found.get(key, 0.0), each.weight)
    return found


def steps(edges: Iterable[GraphEdge], walks: Mapping[str, Walk] = WALKS) -> nx.MultiDiGraph:
    """The same edges in networkx, each as often as it can be walked; `damped` is what it loses, and `always` says that
    it does so at a seed too."""
    known = weights(edges)
    largest = {kind: max([1.0, *(weight for (_, _, of), weight in known.items() if of == kind)]) for kind in KINDS}
    drawn = nx.MultiDiGraph()
    drawn.add_nodes_from([*range(NODES), *OTHERS])
    for (source, target, kind), weight in known.items():
        for tail, head, end in [(source, target, 0), (target, source, 1)]:
            walk = walks.get(direction(kind, forward=not end))
            if walk is None or not weight:
                continue
            fan = sum(key[end] == tail and key[2] == kind for key in known)
            lost = 1.0 if walk.damped == "never" else damping(fan, NODES)
            worth = weight / largest[kind] * walk.weight
            drawn.add_edge(tail, head, weight=worth, damped=lost, always=walk.damped == "always")
    return drawn


def single_cell(name: str, text: str, domain: str = "single-cell", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": text, "domain": domain, **more}


SINGLE_CELL = [
    single_cell(
        "scanpy_preprocess",
        "Quality control and normalisation of scRNA-seq counts.",
        compatible_with=["leiden_clustering"],
    ),
    single_cell(
        "leiden_clustering",
        "Leiden clustering of scRNA-seq cells on a neighbour graph.",
        requires_tool=["scanpy_preprocess", "harmony_batch_correction"],
    ),
    single_cell(
        "scrublet_doublet_detection",
        "Flags barcodes that captured two cells at once.",
        compatible_with=["scanpy_preprocess"],
    ),
    single_cell("harmony_batch_correction", "Aligns samples that were processed on different days."),
    single_cell(
        "celltypist_annotation",
        "Names populations by comparison with reference atlases.",
        requires_tool=["leiden_clustering"],
    ),
    single_cell("escape_enrichment", "Scores gene sets.", "enrichment"),
    single_cell("fgsea_enrichment", "Ranks pathways.", "enrichment"),
    *(single_cell(f"paint_{at}", f"Paints wall number {at} green.", f"wall {at}") for at in range(30)),
]
"""Tools of several domains, some of which share no word with a query for the clustering of cells."""
