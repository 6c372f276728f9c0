"""Walking the graph: bounded search against networkx, prerequisites in order, hubs, cycles, paths."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import networkx as nx
import numpy as np
import pytest
from column_samples import columns, record
from graph_samples import (
    NODES,
    OTHERS,
    WALKS,
    graph,
    linked,
    linked_lists,
    number,
    requirements,
    seeds,
    steps,
    tools,
    weights,
)
from hypothesis import given, settings, strategies as st

from retrieve_cli.frozen import replace
from retrieve_cli.retrieval.graph.edges import GraphEdge, GraphNode
from retrieve_cli.retrieval.graph.expand import DECAY, WalkLimits, expand
from retrieve_cli.retrieval.graph.graph import Graph, prerequisites
from retrieve_cli.retrieval.graph.walks import (
    WALKS as WALKS_BY_DEFAULT,
    Walk,
    chosen,
)
from retrieve_cli.retrieval.graph.whole_graph import WholeGraph

Seeds = list[tuple[int, float]]
FREE = WalkLimits(max_nodes=1000, walks=WALKS)
UNDAMPED = {name: replace(walk, damped="never") for name, walk in WALKS.items()}
SHARED = WALKS_BY_DEFAULT["shares_entity"]


def walked(built: Graph, **parts: Any) -> WalkLimits:
    """The default reach with what is configured."""
    return WalkLimits(walks=chosen(built.kinds, **{"weights": {}, "domain_share": 0.2, **parts}))


def sharing(field: str, values: Iterable[Any], **parts: Any) -> Graph:
    """The graph of records that have these values in a field, and are called by their rows."""
    rows = [record(str(row), metadata={field: value}) for row, value in enumerate(values)]
    return graph(columns(rows), share=[field], **parts)


def best_by_steps(drawn: nx.MultiDiGraph, start: Seeds, reach: WalkLimits) -> dict[int, float]:
    """The best score of each record over all paths of at most `depth` steps, one half step after another."""
    layers: list[dict[int, float]] = [{} for _ in range(2 * reach.depth + 3)]
    layers[0] = {node: max(score for at, score in start if at == node) for node, _ in start}
    for halves in range(2 * reach.depth):
        for node, score in layers[halves].items():
            for _, head, data in drawn.out_edges(node, data=True):
                factor = data["weight"] * (DECAY if node < NODES else 1.0)
                factor *= data["damped"] if halves or data["always"] else 1.0
                following = layers[halves + (2 if max(node, head) < NODES else 1)]
                if score * factor > 0:
                    following[head] = max(following.get(head, 0.0), score * factor)
    best: dict[int, float] = {}
    for layer in layers[: 2 * reach.depth + 1]:
        for node, score in layer.items():
            best[node] = max(score, best.get(node, 0.0))
    return {node: score for node, score in best.items() if node < NODES and score > layers[0].get(node, 0.0)}


# ------------------------------------------------------------------------------------------------- the search


visible = st.lists(st.booleans(), min_size=NODES, max_size=NODES)


def among(edges: list[GraphEdge], flags: list[bool]) -> list[GraphEdge]:
    """The edges between visible records, and nodes that are no records."""
    there = [*flags, *(True for _ in OTHERS)]
    return [edge for edge in edges if there[int(edge.source)] and there[int(edge.target)]]


def largest_alike(edges: list[GraphEdge], flags: list[bool]) -> bool:
    """Whether counts are divided by the same number with and without the other edges."""
    kept = graph(add=among(edges, flags)).largest
    return all(most == kept.get(kind, 1.0) for kind, most in graph(add=edges).largest.items())


@given(edges=linked_lists, start=seeds, flags=visible, most=st.integers(1, 6))
def test_a_search_that_may_see_some_records_finds_what_it_would_if_there_were_no_others(
    edges: list[GraphEdge], start: Seeds, flags: list[bool], most: int
) -> None:
    own = [(node, score) for node, score in start if flags[node]]
    reach = replace(FREE, depth=3, walks=UNDAMPED, max_nodes=most)
    some = expand(linked(edges).within(np.array(flags)), start, reach)
    alone = expand(linked(among(edges, flags)), own, reach)

    walked = [node for path in some for node in (path.start, *(step.node for step in path.steps))]
    assert all(flags[node] for node in walked if isinstance(node, int))
    if largest_alike(edges, flags):
        assert some == alone


@given(edges=linked_lists, start=seeds, depth=st.integers(0, 4), walks=st.sampled_from([WALKS, UNDAMPED]))
def test_a_node_has_the_score_of_its_best_path(
    edges: list[GraphEdge], start: Seeds, depth: int, walks: dict[str, Walk]
) -> None:
    reach = replace(FREE, depth=depth, walks=walks)
    wanted = best_by_steps(steps(edges, walks), start, reach)
    found = {path.node: path.score for path in expand(linked(edges), start, reach)}

    assert found == pytest.approx(wanted, rel=1e-6)


@given(edges=linked_lists, start=seeds, depth=st.integers(1, 4))
def test_a_path_is_one_of_the_graph_and_accounts_for_its_score(
    edges: list[GraphEdge], start: Seeds, depth: int
) -> None:
    known = weights(edges)
    for path in expand(linked(edges), start, replace(FREE, depth=depth)):
        origin = max(score for node, score in start if node == path.start)
        assert path.score == pytest.approx(origin * prod(step.weight for step in path.steps))
        tail, halves = number(path.start), 0
        for step in path.steps:
            head = number(step.node)
            halves += 2 if max(tail, head) < NODES else 1
            ends = (tail, head) if step.forward else (head, tail)
            assert (*ends, step.kind) in known
            tail = head
        assert path.steps
        assert halves <= 2 * depth


@given(edges=linked_lists, start=seeds, most=st.integers(1, 6), depth=st.integers(1, 4))
def test_a_bounded_search_finds_the_best_of_what_an_unbounded_one_finds(
    edges: list[GraphEdge], start: Seeds, most: int, depth: int
) -> None:
    built = linked(edges)
    reach = replace(FREE, depth=depth)
    bounded = expand(built, start, replace(reach, max_nodes=most))
    every = {path.node: path.score for path in expand(built, start, reach)}
    own: dict[int, float] = {}
    for node, score in start:
        own[node] = max(score, own.get(node, 0.0))
    # Nodes that are no records are visited too, so that fewer records may come out.
    few = sorted((own | every).values(), reverse=True)[: max(1, most - len(OTHERS))]
    worst = few[-1]

    assert len(bounded) <= most
    assert {path.node: path.score for path in bounded}.items() <= every.items()
    if most > len(OTHERS):
        assert {node for node, score in every.items() if score > worst} <= {path.node for path in bounded}


def test_a_direction_is_chosen_by_its_name_or_by_the_name_of_its_kind() -> None:
    ends = [("0", "1", "requires"), ("2", "0", "requires"), ("0", "3", "part_of"), ("4", "0", "part_of")]
    built = graph(tools(100), add=[GraphEdge(*each) for each in ends])

    def found(*names: str) -> set[int]:
        return {path.node for path in expand(built, [(0, 1.0)], walked(built, only=names))}

    assert (found("requires"), found("required_by"), found("has_part")) == ({1}, {2}, {4})
    assert found("part_of") == {3, 4}
    assert found() == {1, 2, 3, 4}


# --------------------------------------------------------------------------------- nodes that are no records


def test_a_value_between_two_records_is_one_step_and_its_kind_counts_once() -> None:
    reach = WalkLimits(depth=1, walks={"shares_entity": replace(SHARED, damped="never")})
    (path,) = expand(sharing("topics", [["x"]] * 2 + [[]] * 98), [(0, 1.0)], reach)

    assert path.score == pytest.approx(0.7 * SHARED.weight)


def test_depth_counts_records_so_that_three_records_in_a_row_are_too_far_for_two_steps() -> None:
    shared = [GraphEdge(row, name, "uses") for row, name in ["0a", "1a", "1b", "2b", "2c", "3c"]]

    assert {path.node for path in expand(graph(tools(100), add=shared), [(0, 1.0)], WalkLimits())} == {1, 2}


@pytest.mark.parametrize(("own", "others", "found"), [(3, 0, 2), (3, 60, 2), (6, 0, 0)])
def test_how_common_a_domain_is_is_counted_among_visible_records(own: int, others: int, found: int) -> None:
    """Of 20 visible records so many have the domain, and so many of 80 that are not."""
    flags = [row < 20 for row in range(100)]
    having = [*range(own), *range(20, 20 + others)]
    built = sharing("domain", [["x"] if row in having else [] for row in range(100)])

    assert len(expand(built.within(np.array(flags)), [(0, 1.0)], WalkLimits())) == found


def test_a_value_that_few_share_counts_for_more_than_one_that_many_share() -> None:
    topics = [["rare", "common"], ["rare"]] + [["common"]] * 18 + [[]] * 40
    found = expand(sharing("topics", topics), [(0, 1.0)], WalkLimits(max_nodes=1000))

    assert found[0].node == 1
    assert found[0].score > 2 * found[1].score > 0


def test_a_seed_whose_score_is_not_a_number_is_rejected() -> None:
    with pytest.raises(ValueError, match="not a number"):
        expand(graph(), [(0, float("nan"))], WalkLimits())


# ------------------------------------------------------------------------------------------------------- hubs


def test_of_a_value_that_many_share_the_first_in_order_of_ids_are_visited() -> None:
    rows = [record(f"{5000 - row:04}", metadata={"topics": ["x"] if row else ["y", "x"]}) for row in range(5000)]
    reach = WalkLimits(max_nodes=50, walks={"shares_entity": replace(SHARED, damped="never")})
    found = expand(graph(columns(rows), share=["topics"]), [(0, 1.0)], reach)

    assert [path.node for path in found] == list(range(4999, 4952, -1))


# ---------------------------------------------------------------------------------------------- prerequisites


def needs(edges: list[GraphEdge]) -> nx.DiGraph:
    drawn = nx.DiGraph()
    drawn.add_nodes_from(range(NODES))
    drawn.add_edges_from((int(edge.source), int(edge.target)) for edge in edges if edge.source != edge.target)
    return drawn


@given(edges=requirements, row=st.integers(0, NODES - 1))
def test_prerequisites_and_their_cycles_are_descendants_and_components_of_networkx(
    edges: list[GraphEdge], row: int
) -> None:
    drawn = needs(edges)
    within = drawn.subgraph({row, *nx.descendants(drawn, row)})
    circles = sorted(tuple(sorted(each)) for each in nx.strongly_connected_components(within) if len(each) > 1)
    found = prerequisites(graph(add=edges), row)

    assert sorted(found.order) == sorted(nx.descendants(drawn, row))
    assert list(found.cycles) == circles


@given(edges=requirements, row=st.integers(0, NODES - 1))
def test_without_cycles_the_order_is_the_lexicographical_topological_one(edges: list[GraphEdge], row: int) -> None:
    downward = [edge for edge in edges if int(edge.source) > int(edge.target)]
    drawn = needs(downward)
    within = drawn.subgraph({row, *nx.descendants(drawn, row)}).reverse()
    wanted = [node for node in nx.lexicographical_topological_sort(within) if node != row]

    assert list(prerequisites(graph(add=downward), row).order) == wanted


@given(edges=requirements, row=st.integers(0, NODES - 1), flags=visible)
def test_what_is_not_visible_is_not_needed_nor_what_only_that_needs(
    edges: list[GraphEdge], row: int, flags: list[bool]
) -> None:
    flags[row] = True
    seen = graph(add=edges).within(np.array(flags))
    assert prerequisites(seen, row) == prerequisites(graph(add=among(edges, flags)), row)


def test_a_long_chain_of_requirements_needs_no_recursion() -> None:
    chain = [GraphEdge(str(row), str(row + 1), "requires") for row in range(1999)]

    assert prerequisites(graph(tools(2000), add=chain), 0).order == tuple(range(1999, 0, -1))


# ------------------------------------------------------------------------------------------------------- segments

texts = st.sampled_from(["a", "A", "b", "c.md", "x/c.md", "Team", "team", "d", "nobody", "c"])
linked_rows = st.lists(
    st.builds(
        lambda name, needs, topics, tenants: {"name": name, "needs": needs, "topics": topics, "tenant": tenants},
        texts,
        st.lists(texts, max_size=3, unique=True),
        st.lists(texts, max_size=2, unique=True),
        st.lists(st.sampled_from(["one", "two"]), max_size=1),
    ),
    min_size=1,
    max_size=9,
)
stated = st.lists(
    st.builds(GraphEdge, texts, texts, st.sampled_from(["requires", "is_a"]), st.sampled_from([0.5, 1.0, 2.0]))
    | st.builds(GraphNode, texts, st.lists(texts, max_size=2).map(tuple)),
    max_size=6,
)


def told_of(built: Graph, names: list[str], seeds: list[str]) -> list[object]:
    """Everything that a graph tells of some records; `names` has the id of each row."""
    graph_of_all = WholeGraph(built)
    starts = [names.index(name) for name in sorted(seeds)]
    walks = [expand(built.within(None), [(row, 1.0)], WalkLimits(max_nodes=4)) for row in starts]
    return [
        built.kinds,
        built.records,
        graph_of_all.sizes(),
        graph_of_all.counts,
        graph_of_all.values("topics"),
        sorted(map(built.label, graph_of_all.others)),
        [(None if each.record is None else names[each.record], each.kind, each.name) for each in graph_of_all.dangling],
        [[(path.rendered(built.label), round(path.score, 9)) for path in found] for found in walks],
        [[names[row] for row in prerequisites(built, row).order] for row in starts],
    ]


@settings(max_examples=60)
@given(linked_rows, stated, st.data())
def test_segments_with_dead_records_have_the_graph_of_the_live_records_alone(
    drawn: list[dict[str, Any]], edges: list[Any], data: st.DataObject
) -> None:
    ids = data.draw(st.permutations(["a", "b", "c.md", "x/c.md", "d", "e", "f", "g", "h"]))
    rows = [
        record(name, name=row["name"], metadata={key: row[key] for key in ("needs", "topics", "tenant")})
        for name, row in zip(ids, drawn, strict=False)
    ]
    live = [data.draw(st.booleans()) for _ in rows]
    cut = data.draw(st.integers(0, len(rows)))
    left = [row for row, is_live in zip(rows, live, strict=True) if is_live]
    parts: dict[str, Any] = {"refer": {"requires": "needs"}, "share": ["topics"], "add": edges}
    several = columns(rows[:cut], rows[cut:]).within(np.array(live, np.bool_))

    names = [row["id"] if is_live else "" for row, is_live in zip(rows, live, strict=True)]
    some, alone = graph(several, **parts), graph(columns(left), **parts)
    ids_left = [row["id"] for row in left]
    assert told_of(some, names, ids_left) == told_of(alone, ids_left, ids_left)
