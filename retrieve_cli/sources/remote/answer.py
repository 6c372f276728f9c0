"""Answers of a SPARQL endpoint as terms: the triples of a graph, or the rows of a SELECT."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from retrieve_cli.errors import Unavailable, printable
from retrieve_cli.sources.linked import Solution
from retrieve_cli.sources.rdf import Term, Triple
from retrieve_cli.untrusted.foreign_json import foreign_json
from retrieve_cli.web.transport import INSTALL

_KINDS = {"uri": "iri", "bnode": "blank", "literal": "literal", "typed-literal": "literal"}
"""Types of terms in SPARQL 1.1 Query Results JSON; older servers write `typed-literal`."""


class Unreadable(Exception):
    """A body that is not in the requested format, with the reason."""


@dataclass(frozen=True, slots=True)
class Page:
    """One answer: triples, or variables and solutions."""

    bytes: int
    triples: Sequence[Triple] = ()
    variables: Sequence[str] = ()
    solutions: Sequence[Solution] = ()

    def marks(self) -> list[Hashable]:
        """Return each triple or row without the labels of its blank nodes, which may differ between answers."""
        rows = [frozenset((name, _unlabelled(term)) for name, term in row.items()) for row in self.solutions]
        return [*rows, *((_unlabelled(one), predicate, _unlabelled(other)) for one, predicate, other in self.triples)]


def _unlabelled(term: Term) -> Term:
    return Term("blank", "") if term.kind == "blank" else term


def rows_in(body: bytes, scope: str) -> Page:
    """Return the rows of SPARQL 1.1 Query Results JSON. `scope` separates blank nodes of different answers.

    Raises:
        Unreadable: the body is something else.
    """

    def term(cell: Mapping[str, str]) -> Term:
        kind, value = _KINDS[cell["type"]], str(cell["value"])
        if kind == "literal":
            return Term("literal", value, str(cell.get("datatype") or ""), str(cell.get("xml:lang") or ""))
        return Term("blank", scope + value) if kind == "blank" else Term("iri", value)

    try:
        answer = foreign_json(body)
        variables = [str(name) for name in answer["head"]["vars"]]
        bindings = answer["results"]["bindings"]
        rows = [{name: term(cell) for name, cell in row.items()} for row in bindings]
    except ValueError as error:
        raise Unreadable("which is not JSON") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise Unreadable("which is not a table of IRIs, blank nodes and literals") from error
    if not variables:
        raise Unreadable("which is a table without columns")
    return Page(len(body), variables=variables, solutions=rows)


def triples_in(body: bytes, media_type: str, scope: str, base: str) -> Page:
    """Return the triples of a graph in any RDF format. `scope` separates blank nodes of different answers.

    Raises:
        Unreadable: the body is something else.
        Unavailable: pyoxigraph is not installed.
    """
    oxigraph = rdf_reader()
    rdf_format = oxigraph.RdfFormat.from_media_type(media_type) if media_type else None
    if rdf_format is None:
        raise Unreadable("which is not RDF")

    def term(node: object) -> Term:
        if isinstance(node, oxigraph.NamedNode):
            return Term("iri", node.value)
        if isinstance(node, oxigraph.BlankNode):
            return Term("blank", scope + node.value)
        if isinstance(node, oxigraph.Literal):
            return Term("literal", node.value, "" if node.language else node.datatype.value, node.language or "")
        raise Unreadable("with triples about triples, which a catalog cannot represent")

    try:
        # Lenient: an IRI with a space in it, as in published data, must not make the whole catalog unreadable.
        quads = oxigraph.parse(body, rdf_format, base_iri=base, lenient=True)
        triples = [(term(quad.subject), quad.predicate.value, term(quad.object)) for quad in quads]
    except (SyntaxError, ValueError) as error:
        raise Unreadable(f"which cannot be parsed ({printable(str(error))})") from error
    return Page(len(body), triples=triples)


def rdf_reader() -> ModuleType:
    """Import the RDF reader. Raises: Unavailable if pyoxigraph is not installed."""
    try:
        import pyoxigraph
    except ImportError as error:
        raise Unavailable("reading RDF needs the package pyoxigraph, which is not installed", hint=INSTALL) from error
    return pyoxigraph
