"""Terms of an ontology and how they are one another's kind: OBO by obonet, OWL and other RDF by pyoxigraph."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.graph.edges import Edge, Node

INSTALL = "pip install 'retrieve-cli[graph]'"
IS_A = "is_a"

_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_DEPRECATED = "http://www.w3.org/2002/07/owl#deprecated"
_CLASS = "http://www.w3.org/2002/07/owl#Class"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_FORMATS = {".owl": "RDF_XML", ".rdf": "RDF_XML", ".xml": "RDF_XML", ".ttl": "TURTLE", ".nt": "N_TRIPLES"}
SUFFIXES = frozenset({".obo", *_FORMATS})
"""How files of ontologies end; any of them may be compressed (.gz)."""


def is_ontology(path: Path) -> bool:
    """Whether a file's name says that it holds an ontology."""
    return _suffix(path) in SUFFIXES


def read_ontology(path: Path) -> Iterator[Node | Edge]:
    """The terms of an ontology that are not obsolete, then the edges between them.

    A term's id is what the ontology calls it, its names are its label and the short forms of its id.

    Raises:
        UsageError: the file cannot be read, or is no ontology.
        Unavailable: the package that reads it is not installed.
    """
    suffix = _suffix(path)
    if suffix not in SUFFIXES:
        raise UsageError(f"{path} is no ontology", hint=f"give one of {', '.join(sorted(SUFFIXES))}")
    try:
        with gzip.open(path) if path.suffix.casefold() == ".gz" else path.open("rb") as file:
            read = _obo(file) if suffix == ".obo" else _rdf(file, _FORMATS[suffix])  # type: ignore[arg-type]
            found = list(read)
    except (OSError, EOFError, SyntaxError, ValueError, KeyError) as error:
        raise UsageError(f"cannot read the ontology {path}: {error}", hint="is it damaged?") from error
    if not any(isinstance(each, Node) for each in found):
        raise UsageError(f"{path} has no terms", hint="is it an ontology?")
    yield from found


def _suffix(path: Path) -> str:
    name = path.with_suffix("") if path.suffix.casefold() == ".gz" else path
    return name.suffix.casefold()


def _obo(file: BinaryIO) -> Iterator[Node | Edge]:
    """Reads OBO from an open file: obonet would fetch what looks like an address."""
    try:
        import obonet
    except ImportError as error:
        raise Unavailable("reading OBO needs the package obonet, which is not installed", hint=INSTALL) from error
    graph = obonet.read_obo(io.TextIOWrapper(file, encoding="utf-8"))
    terms = {term: data for term, data in graph.nodes(data=True) if data}  # without data: named, but not there
    for term, data in terms.items():
        yield Node(term, (data["name"],) if data.get("name") else ())
    for source, target, kind in graph.edges(keys=True):
        if source in terms and target in terms:
            yield Edge(source, target, kind)


def _rdf(file: BinaryIO, form: str) -> Iterator[Node | Edge]:
    try:
        import pyoxigraph
    except ImportError as error:
        raise Unavailable("reading OWL needs the package pyoxigraph, which is not installed", hint=INSTALL) from error
    terms: dict[str, list[str]] = {}
    gone, edges = set(), []
    for triple in pyoxigraph.parse(file, format=getattr(pyoxigraph.RdfFormat, form)):
        subject, predicate = triple.subject, triple.predicate.value
        if not isinstance(subject, pyoxigraph.NamedNode):
            continue
        names = terms.setdefault(subject.value, [])
        if predicate == f"{_RDFS}label" and _english(triple.object):
            names.insert(0, triple.object.value)
        elif predicate == _DEPRECATED and triple.object.value in ("true", "1"):
            gone.add(subject.value)
        elif predicate == f"{_RDFS}subClassOf" and isinstance(triple.object, pyoxigraph.NamedNode):
            edges.append((subject.value, triple.object.value))
        elif predicate == _TYPE and getattr(triple.object, "value", "") == _CLASS:
            names += _short_forms(subject.value)
    known = {term: names for term, names in terms.items() if names and term not in gone}
    yield from (Node(term, tuple(dict.fromkeys(names))) for term, names in known.items())
    yield from (Edge(*ends, IS_A) for ends in dict.fromkeys(edges) if set(ends) <= known.keys())


def _english(literal: Any) -> bool:
    """Whether a label is in English, or in no language that it names."""
    return (getattr(literal, "language", None) or "en").split("-")[0].casefold() == "en"


def _short_forms(iri: str) -> list[str]:
    """`http://purl.obolibrary.org/obo/GO_0008150` is also GO_0008150 and GO:0008150."""
    short = iri.rstrip("/#").rpartition("#")[2].rpartition("/")[2]
    prefix, _, number = short.rpartition("_")
    return [short, f"{prefix}:{number}"] if prefix and number.isdecimal() else [short]
