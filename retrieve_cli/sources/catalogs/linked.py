"""Convert linked data to the JSON objects of catalogs: triples of a graph, or solutions of a SELECT.

The objects depend on the graph alone, not on the order of triples or the labels of blank nodes: a blank node is
identified by its content, records are sorted by id, keys by name, and values by their canonical JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from math import isfinite
from typing import Literal

from retrieve_cli.contracts import Json
from retrieve_cli.errors import SourceFailed
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage.manifest import canonical

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"


class Term(Frozen):
    """An IRI, a blank node or a literal (RDF 1.1 Concepts, section 3)."""

    kind: Literal["iri", "blank", "literal"]
    value: str
    datatype: str = ""
    language: str = ""


Triple = tuple[Term, str, Term]
"""Subject, the predicate's IRI, object."""

_CLASSES = frozenset(("SoftwareSourceCode", "SoftwareApplication"))
"""Local names of the classes whose members become records."""
_TYPE, _FIRST, _REST, _NIL = (RDF + name for name in ("type", "first", "rest", "nil"))
_INTEGERS = frozenset(
    XSD + name
    for name in """integer int long short byte nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger
    unsignedLong unsignedInt unsignedShort unsignedByte""".split()
)
_FRACTIONS = frozenset(XSD + name for name in ("decimal", "double", "float"))
_TEXTS = ("", XSD + "string")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}")
"""Integers that every JSON reader represents exactly; longer ones stay text."""
_FRACTION = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DEPTHS = (6, 5, 4, 3, 2, 1)
"""Levels of nested nodes inside a record, deepest first; the first that stays within `_MOST_NODES` is used."""
_MOST_NODES = 1_000
"""Maximum nodes in one record. A vocabulary whose terms all refer to each other would otherwise expand endlessly."""
_MOST_VALUES, _MOST_COPIES = 1_000_000, 20
"""Maximum values in all records of a graph: a base number, plus a number per triple."""
_SUBJECTS = ("id", "_id", "identifier")
_TRIPLE_NAMES = (("s", "p", "o"), ("subject", "predicate", "object"))

Solution = Mapping[str, Term]
"""One row of a SELECT: the terms of its bound variables."""
Terms = tuple[Term, ...] | list[Term]
"""A tuple if the order counts, as in an RDF list; else a list."""
_Facts = Mapping[str, Terms]
"""A node's objects by key."""


def records_of_triples(triples: Iterable[Triple]) -> list[dict[str, Json]]:
    """Return one object for each member of the record classes, with the nodes it refers to nested inside; sorted by id.

    Without such members, every IRI that has facts and that no other node refers to is a record.

    Raises:
        SourceFailed: nodes that many records refer to would be copied too often.
    """
    graph = _Graph(triples)
    records = [graph.record(root) for root in graph.roots()]
    return sorted((record for record in records if record), key=_order)


def record_of_node(triples: Iterable[Triple], node: Term) -> dict[str, Json]:
    """Return the record of a node of any class, equal to its record among those that `records_of_triples` yields.

    Raises:
        SourceFailed: as `records_of_triples` does.
    """
    graph = _Graph(triples)
    graph.roots()
    return graph.record(node)


def records_of_solutions(variables: Sequence[str], solutions: Iterable[Solution]) -> list[dict[str, Json]]:
    """Return one object for each value of the subject variable (`id`, `_id`, `identifier`, or the first), by id.

    Raises:
        SourceFailed: a row does not bind the subject.
    """
    subject = next((name for name in _SUBJECTS if name in variables), variables[0])
    rows: dict[Term, dict[str, set[Term]]] = {}
    for solution in solutions:
        if subject not in solution:
            hint = f"bind it in every row: move ?{subject} out of OPTIONAL, or add FILTER(BOUND(?{subject}))"
            raise SourceFailed(f"the answer has a row without ?{subject}, which identifies the record", hint=hint)
        row = rows.setdefault(solution[subject], {})
        for name, term in solution.items():
            if name != subject:
                row.setdefault(name, set()).add(term)
    records = []
    for term, row in rows.items():
        values = {name: _bare(_sorted(_literal_or_iri(terms))) for name, terms in row.items()}
        record = {name: value for name, value in values.items() if value is not None}
        # The label of a blank node means nothing outside the answer: its content identifies the record.
        records.append(record if term.kind == "blank" else {**record, "id": term.value})
    return sorted((record for record in records if record), key=_order)


def triples_of_solutions(variables: Sequence[str], solutions: Iterable[Solution]) -> Iterator[Triple] | None:
    """Return the triples of a SELECT of exactly subject, predicate and object; None for any other SELECT."""
    names = next((names for names in _TRIPLE_NAMES if sorted(names) == sorted(variables)), None)
    if names is None:
        return None
    subject, predicate, object_ = names
    whole = (solution for solution in solutions if len(solution) == len(names))
    return ((row[subject], row[predicate].value, row[object_]) for row in whole)


class _Graph:
    """A set of triples, by subject."""

    def __init__(self, triples: Iterable[Triple]) -> None:
        self._nodes: dict[Term, dict[str, set[Term]]] = {}
        self._left = _MOST_VALUES
        """Number of values that may still be written."""
        for subject, predicate, object_ in triples:
            self._nodes.setdefault(subject, {}).setdefault(predicate, set()).add(object_)
            self._left += _MOST_COPIES
        self._facts: dict[Term, _Facts] = {}
        self._sizes: dict[tuple[Term, int], int] = {}
        self._named: AbstractSet[Term] = frozenset()

    def roots(self) -> list[Term]:
        """Return the nodes that become records. A blank node is one if it is not nested in another record."""
        typed = {
            node for node, facts in self._nodes.items()
            if any(_local(class_.value) in _CLASSES for class_ in facts.get(_TYPE, ()))
        }  # fmt: skip
        if not typed:
            objects = (
                (node, term) for node, facts in self._nodes.items() for terms in facts.values() for term in terms
            )
            targets = {term for node, term in objects if term != node}
            self._named = {node for node in self._nodes if node.kind == "iri" and node not in targets}
            return list(self._named)
        self._named = {node for node in typed if node.kind == "iri"}
        blank = typed - self._named - self._inside(self._named)
        outer = blank - self._inside(blank)
        # The remaining blank nodes only refer to each other: each becomes a record.
        return [*self._named, *outer, *(blank - outer - self._inside(outer))]

    def record(self, root: Term) -> dict[str, Json]:
        """Return a node as an object, with as many levels of nested nodes as the limit allows."""
        if root not in self._nodes:
            return {}
        depth = next((depth for depth in _DEPTHS if self._size(root, depth) <= _MOST_NODES), _DEPTHS[-1])
        return self._describe(root, depth, frozenset((root,)))

    def _describe(self, node: Term, depth: int, path: frozenset[Term]) -> dict[str, Json]:
        """Return a node as an object with `depth` levels of nested nodes; no node is nested in itself."""
        item: dict[str, Json] = {}
        for key, terms in self._facts_of(node).items():
            self._left -= len(terms)
            if self._left < 0:
                hint = "remove nodes that many records refer to from the graph, or shorten their descriptions"
                raise SourceFailed("the graph has nodes that would be copied into too many records", hint=hint)
            described = (self._value(term, depth, path) for term in _preferred(terms))
            values = [value for value in described if value is not None]
            values = values if isinstance(terms, tuple) else _sorted(values)
            if values:
                item[key] = _bare(values)
        if item and node.kind == "iri":
            item["id"] = node.value
        return item

    def _value(self, term: Term, depth: int, path: frozenset[Term]) -> Json:
        """Return the JSON of a term; None for a blank node without content, as its label has no meaning elsewhere."""
        if term.kind == "literal":
            return _plain(term)
        if depth and self._is_inside(term) and term not in path:
            return self._describe(term, depth - 1, path | {term}) or None
        return term.value if term.kind == "iri" else None

    def _is_inside(self, term: Term) -> bool:
        return term in self._nodes and term not in self._named

    def _size(self, node: Term, depth: int) -> int:
        """Return an upper bound of the nodes in the description of `node`, exact if there are no cycles."""
        size = self._sizes.get((node, depth))
        if size is None:
            inner = self._neighbours(node) if depth else ()
            size = 1 + sum(self._size(term, depth - 1) for term in inner if self._is_inside(term))
            self._sizes[node, depth] = size
        return size

    def _inside(self, starts: AbstractSet[Term]) -> set[Term]:
        """Return all nodes that descriptions of `starts` reach, at any depth."""
        reached: set[Term] = set()
        waiting = list(starts)
        while waiting:
            inner = {term for term in self._neighbours(waiting.pop()) if self._is_inside(term)} - reached
            reached |= inner
            waiting += inner
        return reached

    def _neighbours(self, node: Term) -> Iterator[Term]:
        return (term for terms in self._facts_of(node).values() for term in terms if term.kind != "literal")

    def _facts_of(self, node: Term) -> _Facts:
        if node not in self._facts:
            keyed: dict[str, Terms] = {}
            for predicate, objects in self._nodes[node].items():
                name = _local(predicate)
                key = predicate if name in ("id", "_id", "@id") else name  # `id` is reserved for the IRI
                terms = _names(objects) if predicate == _TYPE else self._unrolled(objects)
                keyed[key] = [*keyed[key], *terms] if key in keyed else terms
            self._facts[node] = keyed
        return self._facts[node]

    def _unrolled(self, objects: AbstractSet[Term]) -> Terms:
        """Replace an RDF list by its members; return a tuple for a single list, because its order counts."""
        heads = {term for term in objects if term.value == _NIL or _FIRST in self._nodes.get(term, ())}
        if not heads:
            return list(objects)
        lists = [self._members(head) for head in heads]
        if len(objects) == 1 and isinstance(lists[0], tuple):
            return lists[0]
        return [*(objects - heads), *(member for members in lists for member in members)]

    def _members(self, head: Term) -> Terms:
        """Return the members of an RDF list; a list instead of a tuple if it branches and thus has no order."""
        members: list[Term] = []
        cells, passed, straight = [head], set(), True
        for cell in cells:
            if cell in passed or cell not in self._nodes:
                continue
            passed.add(cell)
            first, rest = self._nodes[cell].get(_FIRST, set()), self._nodes[cell].get(_REST, set())
            straight = straight and len(first) == len(rest) == 1
            members += first
            cells += rest
        return tuple(members) if straight else members


def _names(classes: Iterable[Term]) -> list[Term]:
    return [Term("literal", _local(class_.value)) for class_ in classes if class_.kind == "iri"]


def _local(iri: str) -> str:
    """Return the part after the last `#` or `/`, ignoring one at the very end."""
    return re.split(r"[#/]", iri.rstrip("#/"))[-1] or iri


def _preferred(terms: Terms) -> Terms:
    """Drop texts in other languages if one is English or has no language."""
    texts = [term for term in terms if term.kind == "literal" and (term.language or term.datatype in _TEXTS)]
    foreign = [term for term in texts if term.language.lower().partition("-")[0] not in ("", "en")]
    if not foreign or len(foreign) == len(texts):
        return terms
    dropped = set(foreign)
    return type(terms)(term for term in terms if term not in dropped)


def _literal_or_iri(terms: Iterable[Term]) -> Iterator[Json]:
    for term in _preferred(list(terms)):
        if term.kind != "blank":
            yield _plain(term) if term.kind == "literal" else term.value


def _plain(term: Term) -> Json:
    """Return a literal as JSON: a number or boolean if its datatype is one and its text is valid; else its text."""
    text = term.value.strip()
    if term.datatype == XSD + "boolean":
        return _BOOLEANS.get(text, term.value)
    if term.datatype in _INTEGERS and _INTEGER.fullmatch(text):
        return int(text)
    if term.datatype in _FRACTIONS and _FRACTION.fullmatch(text) and isfinite(number := float(text)):
        return number
    return term.value


def _sorted(values: Iterable[Json]) -> list[Json]:
    """Return each value once, in the order of canonical JSON."""
    by_text = {canonical(value): value for value in values}
    return [by_text[text] for text in sorted(by_text)]


def _bare(values: Sequence[Json]) -> Json:
    """Return one value unchanged, several as a list, none as None."""
    return (values[0] if len(values) == 1 else list(values)) if values else None


def _order(record: Mapping[str, Json]) -> tuple[bool, str, bytes]:
    """Return the sort key of a record: its id, records without an id last."""
    return "id" not in record, str(record.get("id", "")), canonical(record)
