"""Nodes and edges from files: JSON Lines, tables, ontologies; what is wrong with a line is said with its number."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from column_samples import columns, record
from graph_samples import graph

from retrieve_cli.errors import UsageError
from retrieve_cli.retrieval.graph.edges import GraphEdge, GraphNode, read_edges, read_ontology
from retrieve_cli.retrieval.graph.expand import WalkLimits, expand
from retrieve_cli.retrieval.graph.whole_graph import WholeGraph

OBO = """format-version: 1.2
ontology: sample

[Term]
id: T:1
name: Imaging

[Term]
id: T:2
name: Microscopy
is_a: T:1 ! Imaging
relationship: part_of T:3 ! Optics

[Term]
id: T:3
name: Optics

[Term]
id: T:4
name: Gone
is_a: T:1
is_obsolete: true

[Term]
id: T:5
name: Orphan
is_a: T:4
"""
OWL = """<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"
         xmlns:owl="http://www.w3.org/2002/07/owl#">
  <owl:Class rdf:about="http://example.org/topic_0001"><rdfs:label xml:lang="en">Imaging</rdfs:label></owl:Class>
  <owl:Class rdf:about="http://example.org/topic_0002">
    <rdfs:label>Microscopy</rdfs:label>
    <rdfs:label xml:lang="de">Mikroskopie</rdfs:label>
    <rdfs:subClassOf rdf:resource="http://example.org/topic_0001"/>
    <rdfs:subClassOf><owl:Restriction/></rdfs:subClassOf>
  </owl:Class>
  <owl:Class rdf:about="http://example.org/topic_0003">
    <rdfs:label>Gone</rdfs:label>
    <owl:deprecated>true</owl:deprecated>
    <rdfs:subClassOf rdf:resource="http://example.org/topic_0001"/>
  </owl:Class>
</rdf:RDF>
"""


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# ------------------------------------------------------------------------------------------- names of tenants


def test_a_name_means_a_record_of_the_same_tenant_whoever_else_is_called_so() -> None:
    said = [
        ("a", "Caller", ["acme"], ["Reader", "b"]),
        ("b", "Reader", ["beta"], ["Reader", "Saver"]),
        ("c", "Reader", ["acme"], ["nobody"]),
        ("d", "b", ["acme"], []),
        ("e", "Saver", [], ["Saver", "Reader"]),
        ("f", "Both", ["acme", "beta"], ["reader"]),
    ]
    rows = [
        record(name, name=title, metadata={"tenant": owners, "needs": needs}) for name, title, owners, needs in said
    ]
    built = graph(columns(rows), refer={"requires": "needs"})

    pairs = {
        (name, said[near.node][0])
        for row, (name, *_) in enumerate(said)
        for near in built.neighbours(row, limit=9)
        if near.forward and isinstance(near.node, int)
    }
    assert WholeGraph(built).counts == {"requires": 6}
    assert pairs == {("a", "c"), ("a", "b"), ("a", "d"), ("b", "e"), ("f", "b"), ("f", "c")}
    assert [(said[each.record or 0][0], each.name, each.ambiguous) for each in WholeGraph(built).dangling] == [
        ("c", "nobody", False),
        ("e", "Reader", True),
    ]


# ------------------------------------------------------------------------------------------- nodes and edges


def test_json_lines_hold_nodes_and_edges(tmp_path: Path) -> None:
    lines = '{"id": "n", "label": "GraphNode"}\n\n{"source": "n", "target": 7, "kind": "k", "weight": 0.5}\n'

    assert list(read_edges(written(tmp_path / "x.jsonl", lines))) == [
        GraphNode("n", ("GraphNode",)),
        GraphEdge("n", "7", "k", 0.5),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", "source,target,kind,weight\na,b,k,2\nc,d,k,\n"),
        ("x.tsv", "subject\tpredicate\tobject\tweight\na\tk\tb\t2\nc\tk\td\n"),
    ],
)
def test_tables_hold_edges_in_the_usual_spellings(name: str, text: str, tmp_path: Path) -> None:
    assert list(read_edges(written(tmp_path / name, text))) == [
        GraphEdge("a", "b", "k", 2.0),
        GraphEdge("c", "d", "k", 1.0),
    ]


def test_a_table_of_nodes_is_read_past_its_byte_order_mark(tmp_path: Path) -> None:
    assert list(read_edges(written(tmp_path / "n.csv", "\ufeffid,name\na,Alpha\nb,\n"))) == [
        GraphNode("a", ("Alpha",)),
        GraphNode("b"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        '{"source": "a", "target": "b", "kind": "k", "weight": -1}',
        '{"source": "a", "target": "b", "kind": "k", "weight": "NaN"}',
        '{"source": "a", "target": "b", "kind": "k", "weight": "much"}',
        '{"source": "a", "target": "b", "kind": "k", "weight": 1e39}',
        '{"source": "a", "target": "b"}',
        '{"source": "a", "id": "b"}',
        '{"label": "a"}',
        "[1]",
        "{",
    ],
)
def test_a_line_that_cannot_be_used_is_named(line: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", '{"id": "fine"}\n' + line + "\n")

    with pytest.raises(UsageError, match=r"x\.jsonl:2: "):
        list(read_edges(path))


@pytest.mark.parametrize("name", ["x.jsonl", "x.txt"])
def test_a_file_that_is_absent_or_of_another_kind_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=name):
        list(read_edges(tmp_path / name))


def test_a_table_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"source,target,kind\n\xff\xfe,b,k\n")

    with pytest.raises(UsageError, match=r"x\.csv"):
        list(read_edges(tmp_path / "x.csv"))


# ------------------------------------------------------------------------------------------------- ontologies


@pytest.mark.parametrize("packed", [False, True])
def test_obo_gives_terms_and_relations_without_what_is_obsolete(packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("x.obo.gz" if packed else "x.obo")
    path.write_bytes(gzip.compress(OBO.encode()) if packed else OBO.encode())

    assert list(read_ontology(path)) == [
        GraphNode("T:1", ("Imaging",)),
        GraphNode("T:2", ("Microscopy",)),
        GraphNode("T:3", ("Optics",)),
        GraphNode("T:5", ("Orphan",)),
        GraphEdge("T:2", "T:1", "is_a"),
        GraphEdge("T:2", "T:3", "part_of"),
    ]


def test_owl_gives_named_classes_by_their_english_labels_and_short_forms(tmp_path: Path) -> None:
    first, second = "http://example.org/topic_0001", "http://example.org/topic_0002"

    assert list(read_ontology(written(tmp_path / "x.owl", OWL))) == [
        GraphNode(first, ("Imaging", "topic_0001", "topic:0001")),
        GraphNode(second, ("Microscopy", "topic_0002", "topic:0002")),
        GraphEdge(second, first, "is_a"),
    ]


def test_an_ontology_joins_records_whose_values_are_kinds_of_one_thing(tmp_path: Path) -> None:
    rows = [record("scope", metadata={"topics": ["microscopy"]}), record("lens", metadata={"topics": ["topic_0001"]})]
    rows += [record(f"other {row}") for row in range(8)]
    built = graph(columns(rows), share=["topics"], add=read_ontology(written(tmp_path / "x.owl", OWL)))
    (path,) = expand(built, [(0, 1.0)], WalkLimits(depth=3))

    told = path.rendered(built.label)
    assert told.startswith("scope —topics→ topics:microscopy —is_a→ topics:topic_0001 ←topics— lens (")


@pytest.mark.parametrize(
    ("name", "text"),
    [("x.owl", "<rdf:RDF"), ("x.obo", "nothing\n"), ("x.ttl", "a b"), ("x.obo", ""), ("x.obo.gz", OBO)],
    ids=["cut", "no term", "another kind", "empty", "not compressed"],
)
def test_a_damaged_ontology_is_refused(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=name):
        list(read_ontology(written(tmp_path / name, text)))
