"""Nodes and edges from files that people keep beside a catalog: JSON Lines, CSV and TSV, KGX spellings included.

Terms of an ontology and how they are one another's kind: OBO by obonet, OWL and other RDF by pyoxigraph.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable, UsageError, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.untrusted import files

_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "source": ("source", "subject", "from"),
    "target": ("target", "object", "to"),
    "kind": ("kind", "predicate", "relation", "type"),
    "weight": ("weight",),
    "id": ("id", "_id"),
    "label": ("label", "name"),
}
"""Names of each part, best first; `subject`, `predicate` and `object` are the names of KGX."""
_EXPECTED = "a line is an edge {source, target, kind, weight} or a node {id, label}"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LARGEST = 1e30
"""Weight of an edge; they are stored in single precision."""
_LINES = frozenset({".jsonl", ".ndjson"})


class GraphNode(Frozen):
    """Something that edges may name and that is neither a record nor one of its values."""

    id: str
    names: tuple[str, ...] = ()
    """Its other names: a value of one of them, or of the id itself, is this node."""


class GraphEdge(Frozen):
    """An edge in a file, between two nodes by their names."""

    source: str
    target: str
    kind: str
    weight: float = 1.0


def read_edges(path: Path) -> Iterator[GraphNode | GraphEdge]:
    """The nodes and edges of a file, in its order.

    Raises:
        UsageError: the file cannot be read, or one of its lines is neither; the line is named.
    """
    suffix = path.suffix.casefold()
    if suffix not in _LINES and suffix not in _DELIMITERS:
        raise UsageError(f"{path} is not a file of nodes and edges", hint="give .jsonl, .csv or .tsv")
    try:
        for line, item in _json_lines(path) if suffix in _LINES else _table(path, _DELIMITERS[suffix]):
            yield _read(item, f"{path}:{line}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot read {path}: {reason}", hint=_EXPECTED) from error


def checked(weight: float, place: str) -> float:
    """Return the weight of the edge at `place`. Raises: UsageError: the weight is invalid."""
    if not 0 <= weight <= _LARGEST:
        raise UsageError(f"{place}: an edge cannot have the weight {weight}", hint="a weight is a number from 0 on")
    return weight


def _json_lines(path: Path) -> Iterator[tuple[int, Json]]:
    import orjson

    with files.open_regular(path, limit=files.JUDGMENTS) as file:
        for line, text in enumerate(files.lines(file), 1):
            if not text.strip():
                continue
            if len(text) > files.LINE:
                raise UsageError(f"{path}:{line}: longer than {files.LINE // files.MB} MB", hint=_EXPECTED)
            try:
                yield line, orjson.loads(text)
            except orjson.JSONDecodeError as error:
                raise UsageError(f"{path}:{line}: not JSON ({error})", hint=_EXPECTED) from error


def _table(path: Path, delimiter: str) -> Iterator[tuple[int, Json]]:
    with (
        files.open_regular(path, limit=files.JUDGMENTS) as binary,
        io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as file,
    ):
        rows = csv.DictReader(file, delimiter=delimiter)
        for row in rows:
            yield rows.line_num, row


def _read(item: Json, place: str) -> GraphNode | GraphEdge:
    if not isinstance(item, Mapping):
        raise UsageError(f"{place}: neither a node nor an edge", hint=_EXPECTED)
    parts = {name: _part(item, keys, place) for name, keys in _SPELLINGS.items()}
    if parts["source"] and parts["target"]:
        if not parts["kind"]:
            raise UsageError(f"{place}: the edge has no kind", hint=_EXPECTED)
        try:
            weight = float(parts["weight"] or 1.0)
        except ValueError as error:
            message = f"{place}: the weight {quoted(parts['weight'])} is not a number"
            raise UsageError(message, hint="0 or more") from error
        return GraphEdge(parts["source"], parts["target"], parts["kind"], checked(weight, place))
    if parts["id"] and not (parts["source"] or parts["target"]):
        return GraphNode(parts["id"], (parts["label"],) if parts["label"] else ())
    raise UsageError(f"{place}: neither a node nor an edge", hint=_EXPECTED)


def _part(item: Mapping[str, Json], keys: tuple[str, ...], place: str) -> str:
    found = next((item[key] for key in keys if item.get(key) is not None), "")
    if isinstance(found, list | dict):
        raise UsageError(f"{place}: `{keys[0]}` is {quoted(found)}, not a text", hint=_EXPECTED)
    return str(found).strip()


INSTALL = "pip install 'retrieve-cli[graph]'"
IS_A = "is_a"

_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_DEPRECATED = "http://www.w3.org/2002/07/owl#deprecated"
_CLASS = "http://www.w3.org/2002/07/owl#Class"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_FORMATS = {".owl": "RDF_XML", ".rdf": "RDF_XML", ".xml": "RDF_XML", ".ttl": "TURTLE", ".nt": "N_TRIPLES"}
SUFFIXES = frozenset({".obo", *_FORMATS})
"""Suffixes of ontology files; any of them may be compressed (.gz)."""
_LARGEST_ONTOLOGY = files.JUDGMENTS
"""Bytes of an ontology, packed or not."""
_MOST_ENTITIES = 100
_ENTITY = re.compile(rb"""\s+([^\s"'%&;<>]+)\s+["']([^"'<>]*)["']\s*>""")
"""The name of an entity, and its text."""


def is_ontology(path: Path) -> bool:
    """Return True if a file's name has an ending of ontologies."""
    return _suffix(path) in SUFFIXES


def read_ontology(path: Path) -> Iterator[GraphNode | GraphEdge]:
    """The terms of an ontology that are not obsolete, then the edges between them.

    A term's id is what the ontology calls it, its names are its label and the short forms of its id.

    Raises:
        UsageError: the file cannot be read, or is no ontology.
        Unavailable: the package that reads it is not installed.
    """
    suffix = _suffix(path)
    if suffix not in SUFFIXES:
        raise UsageError(f"{path} is not an ontology", hint=f"give one of {', '.join(sorted(SUFFIXES))}")
    try:
        file = _opened(path)
        found = list(_obo(file) if suffix == ".obo" else _rdf(file, _FORMATS[suffix]))
    except (OSError, EOFError, zlib.error, SyntaxError, ValueError, KeyError) as error:
        raise UsageError(f"cannot read the ontology {path}: {error}", hint="is it damaged?") from error
    if not any(isinstance(each, GraphNode) for each in found):
        raise UsageError(f"{path} has no terms", hint="is it an ontology?")
    yield from found


def _opened(path: Path) -> BinaryIO:
    """The content of a file, unpacked where it is compressed, of a size that memory holds.

    Raises:
        OSError: it cannot be read, or is too large.
        ValueError: it is too large unpacked, or its entities unfold to too much.
    """
    with files.open_regular(path, limit=_LARGEST_ONTOLOGY) as packed:
        compressed = path.suffix.casefold() == ".gz"
        content = (gzip.GzipFile(fileobj=packed) if compressed else packed).read(_LARGEST_ONTOLOGY + 1)
    if len(content) > _LARGEST_ONTOLOGY:
        raise ValueError(f"unpacked it has more than {_LARGEST_ONTOLOGY // files.MB} MB")
    if _FORMATS.get(_suffix(path)) == "RDF_XML":
        _check_entities(content)
    return io.BytesIO(content)


def _check_entities(xml: bytes) -> None:
    """Hold the entities of an XML file to plain texts that are short in all places together: nested ones unfold to any
    size, and the parser itself has no limit. Raises: ValueError: they are more than that, or the file is not UTF-8."""
    if b"\0" in xml[:4] or xml.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("it is not UTF-8")
    declared = xml.split(b"<!ENTITY")[1:]
    if len(declared) > _MOST_ENTITIES:
        raise ValueError(f"it declares more than {_MOST_ENTITIES} entities")
    unfolded = 0
    for text in declared:
        match = _ENTITY.match(text)
        if match is None or b"&" in match[2] or b"%" in match[2]:
            raise ValueError("it declares an entity that is not a plain text")
        unfolded += xml.count(b"&" + match[1] + b";") * len(match[2])
    if unfolded > _LARGEST_ONTOLOGY:
        raise ValueError(f"its entities unfold to more than {_LARGEST_ONTOLOGY // files.MB} MB")


def _suffix(path: Path) -> str:
    name = path.with_suffix("") if path.suffix.casefold() == ".gz" else path
    return name.suffix.casefold()


def _obo(file: BinaryIO) -> Iterator[GraphNode | GraphEdge]:
    """Reads OBO from an open file: obonet would fetch what looks like an address."""
    try:
        import obonet
    except ImportError as error:
        raise Unavailable("reading OBO needs the package obonet, which is not installed", hint=INSTALL) from error
    graph = obonet.read_obo(io.TextIOWrapper(file, encoding="utf-8"))
    terms = {term: data for term, data in graph.nodes(data=True) if data}  # without data: named, but not there
    for term, data in terms.items():
        yield GraphNode(term, (data["name"],) if data.get("name") else ())
    for source, target, kind in graph.edges(keys=True):
        if source in terms and target in terms:
            yield GraphEdge(source, target, kind)


def _rdf(file: BinaryIO, form: str) -> Iterator[GraphNode | GraphEdge]:
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
    yield from (GraphNode(term, tuple(dict.fromkeys(names))) for term, names in known.items())
    yield from (GraphEdge(*ends, IS_A) for ends in dict.fromkeys(edges) if set(ends) <= known.keys())


def _english(literal: Any) -> bool:
    """Return True if a label is in English, or names no language."""
    return (getattr(literal, "language", None) or "en").split("-")[0].casefold() == "en"


def _short_forms(iri: str) -> list[str]:
    """`http://purl.obolibrary.org/obo/GO_0008150` is also GO_0008150 and GO:0008150."""
    short = iri.rstrip("/#").rpartition("#")[2].rpartition("/")[2]
    prefix, _, number = short.rpartition("_")
    return [short, f"{prefix}:{number}"] if prefix and number.isdecimal() else [short]
