"""Contexts of JSON-LD: the IRIs and keywords that names stand for (https://www.w3.org/TR/json-ld11/#the-context)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urljoin

from retrieve_cli.contracts import Json
from retrieve_cli.sources.rdf import RDF, XSD, Term

PREFIXES: Final[Mapping[str, str]] = {
    "schema": "http://schema.org/",
    "sdo": "https://schema.org/",
    "bioschemas": "https://bioschemas.org/",
    "codemeta": "https://codemeta.github.io/terms/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "dct": "http://purl.org/dc/terms/",
    "dcat": "http://www.w3.org/ns/dcat#",
    "doap": "http://usefulinc.com/ns/doap#",
    "edam": "http://edamontology.org/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "owl": "http://www.w3.org/2002/07/owl#",
    "prov": "http://www.w3.org/ns/prov#",
    "rdf": RDF,
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "sd": "https://w3id.org/okn/o/sd#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "spdx": "http://spdx.org/rdf/terms#",
    "xsd": XSD,
}
"""Prefixes that mean the same wherever they are used."""
_MOST_STEPS = 8
"""Definitions of names by other names that are followed."""
_LONGEST = 300
"""Characters of what a context defines."""


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition of a name by a context."""

    iri: str | None
    coerced: str = ""
    """`@id`, `@vocab`, or a datatype."""
    containers: frozenset[str] = frozenset()
    language: str | None = None
    reverse: bool = False


UNDEFINED = Definition("")


@dataclass(frozen=True, slots=True)
class Context:
    """Meaning of names in a part of a document."""

    names: Mapping[str, Definition] = field(default_factory=dict)
    vocabulary: str = ""
    base: str = ""
    language: str = ""

    def under(self, local: Json) -> Context:
        """Return the context that a `@context` makes of this one; one that lies elsewhere changes nothing."""
        if local is None:
            return Context()
        if isinstance(local, list):
            context = self
            for part in local:
                context = context.under(part)
            return context
        if not isinstance(local, dict):
            return self
        said = {key: _short(local[key]) for key in ("@vocab", "@base", "@language") if key in local}
        names = {name: _definition(value) for name, value in local.items() if not name.startswith("@")}
        context = replace(
            self,
            names={**self.names, **names},
            base=_joined(self.base, said["@base"]) if "@base" in said else self.base,
            language=said.get("@language", self.language),
        )
        return replace(context, vocabulary=context.name(said["@vocab"])) if "@vocab" in said else context

    def name(self, name: str) -> str:
        """Return the IRI or the keyword that a name stands for; empty if the context says that it means nothing."""
        for _ in range(_MOST_STEPS):
            defined = self.names.get(name, UNDEFINED).iri
            if defined is None:
                return ""
            if not defined or defined == name:
                break
            name = defined
        if name.startswith("@"):
            return name
        return self._whole(name) if ":" in name else self.vocabulary + name

    def reference(self, text: str) -> Term:
        """Return the node that an `@id` names."""
        if text.startswith("_:"):
            return Term("blank", text)
        return Term("iri", self._whole(text) if ":" in text else _joined(self.base, text))

    def _whole(self, name: str, steps: int = _MOST_STEPS) -> str:
        """A compact IRI in full."""
        prefix, _, local = name.partition(":")
        start = self.names.get(prefix, UNDEFINED).iri or PREFIXES.get(prefix, "")
        if local.startswith("//") or prefix == "_" or not start:
            return name
        return (self._whole(start, steps - 1) if ":" in start and steps else start) + local


def _definition(value: Json) -> Definition:
    if not isinstance(value, dict):
        return Definition(_short(value) or None)
    containers = value.get("@container")
    named = containers if isinstance(containers, list) else [containers]
    reverse = isinstance(value.get("@reverse"), str)
    iri = value.get("@reverse" if reverse else "@id", "")
    return Definition(
        _short(iri) if isinstance(iri, str) else None,
        _short(value.get("@type")),
        frozenset(each for each in named if isinstance(each, str)),
        _short(value["@language"]) if "@language" in value else None,
        reverse,
    )


def _short(value: Json) -> str:
    """A text of a context; empty if it is none, or so long that names made with it would fill the memory."""
    return value if isinstance(value, str) and len(value) <= _LONGEST else ""


def _joined(base: str, text: str) -> str:
    """A reference that is relative to a base, in full."""
    try:
        return urljoin(base, text) if base else text
    except ValueError:  # a base that is no address
        return text
