"""Triples and solutions as the objects that catalogs write."""

from random import Random

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.contracts import Record
from retrieve_cli.sources.catalogs.linked import (
    Term,
    Triple,
    records_of_solutions,
    records_of_triples,
    triples_of_solutions,
)
from retrieve_cli.sources.fields import FieldMap, record_from
from retrieve_cli.storage.manifest import canonical

SCHEMA = "http://schema.org/"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
TYPE, FIRST, REST, NIL = (RDF + name for name in ("type", "first", "rest", "nil"))


def iri(name: str) -> Term:
    return Term("iri", name if ":" in name else f"https://x.org/{name}")


def blank(name: str) -> Term:
    return Term("blank", name)


def text(value: str, language: str = "") -> Term:
    return Term("literal", value, "" if language else XSD + "string", language)


def typed(value: str, datatype: str) -> Term:
    return Term("literal", value, XSD + datatype)


def fact(subject: Term, predicate: str, object_: Term) -> Triple:
    return subject, predicate if ":" in predicate else SCHEMA + predicate, object_


def facts_of(subject: Term, **objects: Term) -> list[Triple]:
    """The facts about a subject, of its objects by predicate."""
    return [fact(subject, predicate, object_) for predicate, object_ in objects.items()]


def tool(name: str = "a") -> Triple:
    return fact(iri(name), TYPE, iri(SCHEMA + "SoftwareSourceCode"))


def one(*triples: Triple) -> dict:
    [record] = records_of_triples([tool(), *triples])
    return record


# -------------------------------------------------------------------------------------------------- triples


@pytest.mark.parametrize("class_", ["http://schema.org/SoftwareSourceCode", "https://schema.org/SoftwareApplication"])
def test_tools_are_known_by_either_class_in_either_spelling_of_schema_org(class_: str) -> None:
    facts = [fact(iri("a"), TYPE, iri(class_)), fact(iri("b"), TYPE, iri(SCHEMA + "Person"))]
    assert [record["id"] for record in records_of_triples(facts)] == ["https://x.org/a"]


@pytest.mark.parametrize(
    ("term", "value"),
    [
        (text("3"), "3"),
        (typed("3", "integer"), 3),
        (typed(" +03 ", "int"), 3),
        (typed("9" * 30, "integer"), "9" * 30),
        (typed("1_000", "integer"), "1_000"),
        (typed("2.50", "decimal"), 2.5),
        (typed("1e3", "double"), 1000.0),
        (typed("INF", "double"), "INF"),
        (typed("1e999", "double"), "1e999"),
        (typed("NaN", "float"), "NaN"),
        (typed("true", "boolean"), True),
        (typed("0", "boolean"), False),
        (typed("maybe", "boolean"), "maybe"),
        (typed("2024-05-01", "date"), "2024-05-01"),
        (iri("http://x.org/v"), "http://x.org/v"),
    ],
)
def test_a_value_is_what_its_datatype_says(term: Term, value: object) -> None:
    found = one(fact(iri("a"), "v", term))["v"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        ([("Tool", "en"), ("Werkzeug", "de")], "Tool"),
        ([("Tool", "en-GB"), ("Outil", "fr")], "Tool"),
        ([("Tool", ""), ("Werkzeug", "de")], "Tool"),
        ([("Tool", ""), ("Instrument", "en"), ("Outil", "fr")], ["Instrument", "Tool"]),
        ([("Werkzeug", "de"), ("Outil", "fr")], ["Outil", "Werkzeug"]),
    ],
)
def test_english_and_untagged_texts_go_before_others(texts: list[tuple[str, str]], kept: object) -> None:
    assert one(*(fact(iri("a"), "name", text(*pair)) for pair in texts))["name"] == kept


def test_nodes_are_put_inside_and_records_are_pointed_to() -> None:
    facts = [
        *facts_of(iri("a"), supportingData=blank("d"), author=iri("p"), isPartOf=iri("b")),
        fact(blank("d"), "imagingModality", text("CT")),
        fact(iri("p"), "name", text("P")),
        tool("b"),
        fact(iri("b"), "license", iri("elsewhere")),
    ]
    first, second = records_of_triples([tool(), *facts])
    assert first["supportingData"] == {"imagingModality": "CT"}
    assert first["author"] == {"id": "https://x.org/p", "name": "P"}
    assert (first["isPartOf"], second["license"]) == ("https://x.org/b", "https://x.org/elsewhere")


def test_the_objects_are_read_as_catalogs_are() -> None:
    facts = [
        *facts_of(iri("a"), name=text("LungMapper"), description=text("Segments lungs."), identifier=text("doi:1")),
        *facts_of(iri("a"), featureList=text("Segmentation"), supportingData=blank("d"), runnableExample=blank("e")),
        *facts_of(blank("d"), imagingModality=text("CT"), hasDimensionality=typed("3", "integer")),
        fact(blank("e"), "url", text("https://demo.org")),
    ]
    made = record_from(one(*facts), FieldMap.of({}), source="c", line=1)
    assert isinstance(made, Record)
    assert (made.id, made.name) == ("https://x.org/a", "LungMapper")
    assert made.supporting_data == {
        "modalities": ["CT"], "dimensions": ["3D"], "formats": [], "demo_url": "https://demo.org",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["id", "_id"])
def test_a_property_called_id_does_not_replace_the_iri(name: str) -> None:
    record = one(fact(iri("a"), name, text("7")))
    assert record["id"] == "https://x.org/a"
    assert record[SCHEMA + name] == "7"


def listed(*members: Term) -> list[Triple]:
    cells = [blank(f"cell{at}") for at in range(len(members))] + [iri(NIL)]
    return [
        triple
        for at, member in enumerate(members)
        for triple in (fact(cells[at], FIRST, member), fact(cells[at], REST, cells[at + 1]))
    ]


def test_an_rdf_list_is_a_list_in_its_order() -> None:
    facts = listed(text("z"), text("a"), text("z"))
    assert one(fact(iri("a"), "featureList", blank("cell0")), *facts)["featureList"] == ["z", "a", "z"]
    assert "featureList" not in one(fact(iri("a"), "featureList", iri(NIL)))


def test_nodes_that_point_at_each_other_end() -> None:
    facts = [
        fact(iri("a"), "author", iri("p")),
        *facts_of(iri("p"), knows=iri("q"), worksFor=blank("w")),
        fact(iri("q"), "knows", iri("p")),
        *facts_of(blank("w"), employee=blank("w"), name=text("W")),
    ]
    assert one(*facts)["author"] == {
        "id": "https://x.org/p",
        "knows": {"id": "https://x.org/q", "knows": "https://x.org/p"},
        "worksFor": {"name": "W"},
    }


def test_a_tool_without_an_iri_is_a_record_unless_it_is_inside_another() -> None:
    class_ = iri(SCHEMA + "SoftwareApplication")
    facts = [
        fact(iri("catalog"), "dataset", blank("x")),
        *facts_of(blank("x"), **{TYPE: class_}, name=text("X"), requires=blank("y")),
        *facts_of(blank("y"), **{TYPE: class_}, name=text("Y")),
    ]
    inner = {"name": "Y", "type": "SoftwareApplication"}
    assert records_of_triples(facts) == [{"name": "X", "type": "SoftwareApplication", "requires": inner}]


def test_tools_without_iris_that_only_point_at_each_other_are_not_lost() -> None:
    class_ = iri(SCHEMA + "SoftwareApplication")
    facts = [
        fact(blank(one_), predicate, term)
        for one_, other in ("xy", "yx")
        for predicate, term in ((TYPE, class_), ("name", text(one_)), ("next", blank(other)))
    ]
    assert [record["name"] for record in records_of_triples(facts)] == ["x", "y"]


# ----------------------------------------------------------------------------------------------------- laws

IRIS = st.sampled_from([iri(name) for name in "abcd"] + [iri(NIL), iri(SCHEMA + "SoftwareSourceCode")])
BLANKS = st.sampled_from([blank(name) for name in "wxyz"])
LITERALS = st.builds(text, st.sampled_from(["u", "v"]), st.sampled_from(["", "en", "de"])) | st.just(typed("1", "int"))
PREDICATES = st.sampled_from([TYPE, FIRST, REST, SCHEMA + "p", "https://schema.org/p", SCHEMA + "q", SCHEMA + "id"])
GRAPHS = st.lists(st.tuples(IRIS | BLANKS, PREDICATES, IRIS | BLANKS | LITERALS), max_size=25)


def lines(triples: list[Triple]) -> bytes:
    return b"\n".join(map(canonical, records_of_triples(triples)))


@given(GRAPHS, st.randoms(use_true_random=False), st.permutations("stuv"))
def test_the_lines_do_not_depend_on_order_or_on_names_of_blank_nodes(
    triples: list[Triple], random: Random, names: list[str]
) -> None:
    renamed = {blank(old): blank(new) for old, new in zip("wxyz", names, strict=True)}
    other = [(renamed.get(one_, one_), predicate, renamed.get(two, two)) for one_, predicate, two in triples * 2]
    random.shuffle(other)
    assert lines(other) == lines(triples)


@given(GRAPHS)
def test_every_typed_iri_is_one_record(triples: list[Triple]) -> None:
    typed_ = {one_.value for one_, predicate, two in triples
              if one_.kind == "iri" and predicate == TYPE and two.value.endswith("/SoftwareSourceCode")}  # fmt: skip
    records = records_of_triples(triples)
    if typed_:
        assert {record["id"] for record in records if "id" in record} == typed_
    assert all(record for record in records)


# ------------------------------------------------------------------------------------------------ solutions


def test_rows_of_one_subject_are_one_record() -> None:
    rows = [
        {"id": iri("b"), "name": text("B")},
        {"id": iri("a"), "name": text("A"), "keywords": text("z")},
        {"id": iri("a"), "name": text("A"), "keywords": text("k"), "size": typed("3", "integer")},
    ]
    assert records_of_solutions(["name", "id", "keywords", "size"], rows) == [
        {"id": "https://x.org/a", "name": "A", "keywords": ["k", "z"], "size": 3},
        {"id": "https://x.org/b", "name": "B"},
    ]


@pytest.mark.parametrize(
    ("variables", "subject"), [("x id", "id"), ("identifier _id", "_id"), ("x identifier", "identifier"), ("t x", "t")]
)
def test_the_subject_is_the_variable_called_id_or_the_first(variables: str, subject: str) -> None:
    names = variables.split()
    rows = [{name: text(f"{name}{number}") for name in names} for number in range(2)]
    assert [record["id"] for record in records_of_solutions(names, rows)] == [f"{subject}0", f"{subject}1"]


@pytest.mark.parametrize("names", ["s p o", "subject predicate object"])
def test_rows_of_subject_predicate_and_object_are_triples(names: str) -> None:
    subject, predicate, object_ = names.split()
    rows = [{subject: iri("a"), predicate: iri(SCHEMA + "name"), object_: text("A")}, {subject: iri("b")}]
    triples = triples_of_solutions([object_, subject, predicate], rows)
    assert triples is not None
    assert list(triples) == [(iri("a"), SCHEMA + "name", text("A"))]
