"""JSON-LD in catalogs: the same records as from the triples of the same graph, however it is written."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pyoxigraph
import pytest
from hypothesis import given, settings, strategies as st
from profiles import examples
from samples import Program, pieces

from retrieve_cli.contracts import Record, Refused
from retrieve_cli.frozen import replace
from retrieve_cli.sources.catalogs import json_ld, linked
from retrieve_cli.sources.catalogs.catalog import CatalogSource
from retrieve_cli.sources.catalogs.json_ld import is_linked, triples_of
from retrieve_cli.sources.catalogs.linked import records_of_triples
from retrieve_cli.sources.fields import FieldMap
from retrieve_cli.sources.remote.sparql import triples_in
from retrieve_cli.storage.manifest import canonical

KNOWN = FieldMap.of({})
SCHEMA = "http://schema.org/"
Node = dict[str, Any]


def read(path: Path, content: object) -> list[Record | Refused]:
    """What a catalog of this content is read as."""
    text = content if isinstance(content, str) else "\n".join(map(json.dumps, content))  # type: ignore[call-overload]
    path.write_text(text)
    return list(pieces(CatalogSource(path, KNOWN)))


def records(path: Path, content: object) -> list[Record]:
    """The same without the place that each comes from, by id."""
    made = read(path, content)
    assert all(isinstance(each, Record) for each in made), made
    return sorted((replace(each, line=1) for each in made), key=lambda each: each.id)  # type: ignore[type-var]


# ------------------------------------------------------------------------------------- one graph, many spellings

words = st.sampled_from(["lungs", "segments CT", "MIT", "https://spdx.org/licenses/MIT", "ct", "naïve", "3", "  x "])
literals = st.one_of(
    words.map(lambda text: {"@value": text}),
    st.tuples(words, st.sampled_from(["en", "de", "en-GB"])).map(lambda it: {"@value": it[0], "@language": it[1]}),
    st.integers(-99, 99).map(lambda number: {"@value": number}),
    st.floats(-9, 9, allow_nan=False).filter(lambda number: not number.is_integer()).map(lambda it: {"@value": it}),
    st.booleans().map(lambda value: {"@value": value}),
)
keys = st.sampled_from("description keywords license imagingModality hasDimensionality runnableExample note".split())


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    """Nodes in expanded form, each a tool, a blank node or a thing; a property holds literals and references."""
    tools = [f"https://x.org/t{number}" for number in range(draw(st.integers(1, 3)))]
    inner = [f"_:b{number}" for number in range(draw(st.integers(0, 3)))] + ["https://x.org/thing"]
    nodes = []
    for name in [*tools, *inner]:
        node: Node = {"@id": name}
        if name in tools:
            node |= {"@type": [SCHEMA + "SoftwareSourceCode"], SCHEMA + "name": [{"@value": f"Tool {name}"}]}
        later = [other for other in inner if other > name or name in tools]
        for key in draw(st.lists(keys, unique=True, max_size=4)):
            pointed = [{"@id": other} for other in draw(st.lists(st.sampled_from([*tools, *later]), max_size=1))]
            node[SCHEMA + key] = [*draw(st.lists(literals, min_size=1, max_size=3)), *pointed]
        nodes.append(node)
    return nodes


def compacted(value: Any) -> Any:
    """The same with `schema:` in the place of the IRI, single values out of their lists and plain texts as such."""
    if isinstance(value, list):
        parts = [compacted(part) for part in value]
        return parts[0] if len(parts) == 1 else parts
    if isinstance(value, dict):
        if value.keys() == {"@value"}:
            return value["@value"]
        return {key.replace(SCHEMA, "schema:"): compacted(part) for key, part in value.items()}
    return value.replace(SCHEMA, "schema:") if isinstance(value, str) else value


def nested(nodes: list[Node], node: Node, path: tuple[str, ...] = ()) -> Node:
    """A node with those inside it that it points to, but for tools and itself."""
    known = {each["@id"]: each for each in nodes if "@type" not in each}

    def inner(part: Any) -> Any:
        name = part.get("@id") if isinstance(part, dict) else None
        return nested(nodes, known[name], (*path, name)) if name in known and name not in path else part

    return {key: [inner(part) for part in value] if isinstance(value, list) else value for key, value in node.items()}


@settings(max_examples=examples(1))
@given(nodes=graphs(), seed=st.integers(0, 99))
def test_a_graph_gives_equal_records_as_lines_as_a_document_and_as_triples(
    tmp_path_factory: pytest.TempPathFactory, nodes: list[Node], seed: int
) -> None:
    path = tmp_path_factory.mktemp("graph") / "tools.jsonl"
    shuffled = Random(seed).sample(nodes, len(nodes))
    tools = [node for node in shuffled if "@type" in node]
    page = triples_in(json.dumps(nodes).encode(), "application/ld+json", "0:", "https://x.org/")
    found = records_of_triples(page.triples)  # what a SPARQL source makes of the graph, by another reader of JSON-LD
    expected = records(path, found)
    assert {each.id for each in expected} == {tool["@id"] for tool in tools}
    whole = {"@context": {"schema": SCHEMA}, "@graph": compacted(shuffled)}
    assert records(path, [{"@graph": shuffled}]) == expected
    assert records(path, [whole]) == expected
    assert records(path, json.dumps(whole, indent=1)) == expected
    assert records(path, json.dumps(shuffled, indent=1)) == expected
    assert records(path, [nested(shuffled, tool) for tool in tools]) == expected
    assert records(path, [compacted(nested(shuffled, tool)) for tool in tools]) == expected


DOCUMENTS = [
    {"@context": {"@vocab": SCHEMA}, "@id": "https://x.org/a", "name": ["x", 3, 2.5, True, None, -0.0, 1e30, 10**12]},
    {"@context": {"n": "schema:name", "schema": SCHEMA}, "@id": "https://x.org/a",
     "n": {"@value": "x", "@language": "fr"}},
    {"@context": [{"@vocab": SCHEMA}, {"l": {"@id": "license", "@type": "@id"}}], "@id": "https://x.org/a",
     "l": "https://x.org/mit"},
    {"@context": {"@vocab": SCHEMA, "@base": "https://x.org/d/", "id": "@id"}, "id": "a",
     "part": {"id": "../b", "name": "B"}},
    {"@context": {"@vocab": SCHEMA, "@language": "de"}, "@id": "https://x.org/a", "name": "Werkzeug",
     "note": {"@value": "N"}},
    {"@context": {"@vocab": SCHEMA, "name": {"@container": "@language"}}, "@id": "https://x.org/a",
     "name": {"en": ["a", "b"], "de": "c"}},
    {"@context": {"@vocab": SCHEMA, "steps": {"@container": "@list"}}, "@id": "https://x.org/a",
     "steps": ["b", "a", "c"]},
    {"@context": {"@vocab": SCHEMA}, "@id": "https://x.org/a", "steps": {"@list": []}, "all": {"@set": ["b", "a"]}},
    {"@context": {"@vocab": SCHEMA}, "@id": "https://x.org/a", "@reverse": {"made": [{"@id": "https://x.org/p"}]}},
    {"@context": {"@vocab": SCHEMA, "of": {"@reverse": "made"}}, "@id": "https://x.org/a",
     "of": {"@id": "https://x.org/p"}},
    {"@context": {"@vocab": SCHEMA, "x": None}, "@id": "https://x.org/a", "x": "gone", "name": "N"},
    {"@context": {"@vocab": SCHEMA, "xsd": "http://www.w3.org/2001/XMLSchema#",
                  "d": {"@type": "xsd:date"}}, "@id": "https://x.org/a", "d": "2024-05-01",
     "n": {"@value": "7", "@type": "xsd:integer"}},
    {"@context": {"@vocab": SCHEMA}, "@id": "https://x.org/a", "@type": ["SoftwareApplication", "Thing"],
     "inner": {"@context": {"@vocab": "https://y.org/"}, "note": "N", "deep": {"note": "M"}}},
    {"@context": {"@vocab": SCHEMA, "p": {"@container": "@index"}}, "@id": "https://x.org/a",
     "p": {"one": {"name": "P"}, "two": {"name": "Q"}}},
]  # fmt: skip


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_contexts_are_read_as_another_reader_of_json_ld_reads_them(document: Node) -> None:
    page = triples_in(json.dumps(document).encode(), "application/ld+json", "0:", "https://b.org/")
    triples, _ = triples_of(document)
    assert canonical(records_of_triples(triples)) == canonical(records_of_triples(page.triples))
    assert page.triples
    assert pyoxigraph.__version__


# ------------------------------------------------------------------------------------------------ what is a graph


def test_a_dump_without_its_context_is_read_by_the_prefixes_that_all_use(tmp_path: Path) -> None:
    line = {
        "@id": "https://x.org/a", "@type": "schema:SoftwareSourceCode", "schema:name": "LungMapper",
        "http://schema.org/description": {"@value": "segments lungs", "@language": "en"},
        "https://schema.org/license": {"@id": "https://spdx.org/licenses/MIT"},
        "schema:supportingData": {"@id": "_:b0", "schema:imagingModality": "ct", "schema:datasetFormat": "dcm"},
        "schema:runnableExample": {"@id": "https://x.org/demo"},
    }  # fmt: skip
    [made] = records(tmp_path / "c.jsonl", [line])
    assert (made.id, made.name, made.description, made.license) == (
        "https://x.org/a", "LungMapper", "segments lungs", "MIT"
    )  # fmt: skip
    assert made.supporting_data == {
        "modalities": ["CT"], "dimensions": [], "formats": ["DICOM"], "demo_url": "https://x.org/demo"
    }  # fmt: skip


def test_a_context_that_lies_elsewhere_is_not_fetched_and_names_are_kept(tmp_path: Path) -> None:
    line = {"@context": "https://schema.org", "type": "SoftwareSourceCode", "id": "a", "name": "A", "license": "MIT"}
    [made] = records(tmp_path / "c.jsonl", [line])
    assert (made.id, made.name, made.license, made.metadata) == ("a", "A", "MIT", {"type": "SoftwareSourceCode"})


def test_a_line_is_one_record_whatever_it_has_inside(tmp_path: Path) -> None:
    tool = {"@id": "https://x.org/b", "@type": "SoftwareSourceCode", "name": "B"}
    line = {"@id": "https://x.org/a", "@type": "Dataset", "name": "A", "isBasedOn": tool}
    made = records(tmp_path / "c.jsonl", [line, tool])
    assert [each.id for each in made] == ["https://x.org/a", "https://x.org/b"]
    assert made[0].metadata["isBasedOn"] == "https://x.org/b"


@pytest.mark.parametrize(
    "item",
    [{"id": "a", "@timestamp": "now"}, {"name": "a:b"}, {"note:x": 1}, {"keywords": ["@id"]},
     {"x": {"type": "y"}}, {}, []],
)  # fmt: skip
def test_an_object_without_keywords_or_vocabularies_is_no_linked_data(item: object) -> None:
    assert not is_linked(item)


# --------------------------------------------------------------------------------------------------- what is not


def test_an_object_over_several_lines_that_is_no_graph_is_a_record(tmp_path: Path) -> None:
    (made,) = read(tmp_path / "c.json", '{\n "id": "a",\n "name": "@id b"\n}')
    assert isinstance(made, Record)
    assert (made.id, made.name) == ("a", "@id b")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"@graph": []}', "no record"),
        ('{"@graph": [{"name": "nobody"}]}', "no record"),
        ('{"@id": "https://x.org/a"}', "describes no record"),
        ('{"@context": {"@vocab": 5}, "@id": 7}', "describes no record"),
        ('{"@graph": ' + "[" * 99 + "]" * 99 + "}", "nested deeper"),
        ('{"@id": "a", "@type": "x", "name": {"@value": null}}', "no text"),
    ],
)
def test_linked_data_that_holds_no_record_is_rejected_with_the_reason(tmp_path: Path, line: str, reason: str) -> None:
    [refused] = read(tmp_path / "c.jsonl", line)
    assert isinstance(refused, Refused)
    assert reason in refused.reason


def test_a_graph_of_too_many_values_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_ld, "MOST_TRIPLES", 10)
    [refused] = read(tmp_path / "c.jsonl", [{"@id": "a", "name": list(range(11))}])
    assert isinstance(refused, Refused)
    assert "more than 10 values" in refused.reason


def test_a_node_that_all_records_point_to_is_not_written_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linked, "_MOST_VALUES", 100)
    monkeypatch.setattr(linked, "_MOST_COPIES", 0)
    hub = {"@id": "_:hub", "note": list(range(50))}
    tools = [{"@id": f"t{at}", "@type": "SoftwareSourceCode", "x": {"@id": "_:hub"}} for at in range(9)]
    [refused] = read(tmp_path / "c.jsonl", [{"@graph": [hub, *tools]}])
    assert isinstance(refused, Refused)
    assert "too many records" in refused.reason


@pytest.mark.parametrize(
    "context",
    [
        {"a": "b:x", "b": "a:y"},
        {"a": "a"},
        {"a": {"@id": "b"}, "b": {"@id": "a"}},
        {"a": "x" * 400},
        {"@base": "http://[", "@vocab": "a:"},
        ["https://schema.org", None, 5, {"a": 5}, {"a": {"@container": 5, "@type": 5}}],
    ],
    ids=str,
)
def test_a_context_that_leads_in_circles_or_nowhere_ends(tmp_path: Path, context: object) -> None:
    [made] = read(tmp_path / "c.jsonl", [{"@context": context, "@id": "r", "name": "N", "a": "v", "a:z": "w"}])
    assert isinstance(made, Record | Refused)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*sorted(json_ld.KEYWORDS), "@nest", "id", "a", "schema:name", "name", "@x"]), inner
        )
    ),
    max_leaves=12,
)


@given(item=st.dictionaries(st.sampled_from(["@context", "@id", "@type", "@graph", "name", "a"]), json_values))
def test_no_object_fails_unforeseen(tmp_path_factory: pytest.TempPathFactory, item: Node) -> None:
    path = tmp_path_factory.mktemp("odd") / "c.jsonl"
    for made in read(path, [item]):
        assert not isinstance(made, Refused) or "please report" not in made.reason


# ------------------------------------------------------------------------------------------------------- the index


def test_a_document_is_indexed_synced_and_watched_as_lines_are(tmp_path: Path, retrieve: Program) -> None:
    def write(*names: str) -> None:
        nodes = [{"@id": f"https://x.org/{name[0]}", "schema:name": f"{name} lungs"} for name in names]
        (tmp_path / "tools.jsonld").write_text(json.dumps({"@graph": nodes}, indent=1))

    def states() -> dict[str, str]:
        return {each["name"]: each["freshness"] for each in retrieve("query", "lungs", "--json").json["results"]}

    write("a", "b", "c")
    assert retrieve("build", "--catalog", tmp_path / "tools.jsonld").code == 0
    assert set(states().values()) == {"fresh"}
    write("b", "a2", "d")
    assert states() == {"a lungs": "changed", "b lungs": "fresh", "c lungs": "deleted"}
    report = retrieve("sync", "--json").json
    assert (report["added"], report["changed"], report["removed"], report["kept"]) == (1, 1, 1, 1)
    assert states() == {"a2 lungs": "fresh", "b lungs": "fresh", "d lungs": "fresh"}
