"""Terms and triples (RDF 1.1 Concepts, https://www.w3.org/TR/rdf11-concepts/)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"


@dataclass(frozen=True, slots=True)
class Term:
    """An IRI, a blank node or a literal (RDF 1.1 Concepts, section 3)."""

    kind: Literal["iri", "blank", "literal"]
    value: str
    datatype: str = ""
    language: str = ""


Triple = tuple[Term, str, Term]
"""Subject, the predicate's IRI, object."""
