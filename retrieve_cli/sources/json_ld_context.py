"""JSON-LD contexts: the IRIs and keywords behind names (https://www.w3.org/TR/json-ld11/#the-context)."""

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
"""Prefixes with the same meaning everywhere."""
_MOST_STEPS = 8
"""Maximum number of definitions to follow from name to name."""
_LONGEST = 300
"""Maximum characters of a definition."""


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
        """Return this context extended by a `@context`; a remote context changes nothing."""
        if local is None:
            return Context()
        if isinstance(local, list):
            context = self
            for part in local:
                context = context.under(part)
            return context
        if not isinstance(local, dict):
            return self
        keywords = {key: _short(local[key]) for key in ("@vocab", "@base", "@language") if key in local}
        names = {name: _definition(value) for name, value in local.items() if not name.startswith("@")}
        context = replace(
            self,
            names={**self.names, **names},
            base=_joined(self.base, keywords["@base"]) if "@base" in keywords else self.base,
            language=keywords.get("@language", self.language),
        )
        return replace(context, vocabulary=context.name(keywords["@vocab"])) if "@vocab" in keywords else context

    def name(self, name: str) -> str:
        """Return the IRI or keyword for a name; empty if the context removes its meaning."""
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
        """Return the node of an `@id`."""
        if text.startswith("_:"):
            return Term("blank", text)
        return Term("iri", self._whole(text) if ":" in text else _joined(self.base, text))

    def _whole(self, name: str, steps: int = _MOST_STEPS) -> str:
        """Expand a compact IRI."""
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
        frozenset(name for name in named if isinstance(name, str)),
        _short(value["@language"]) if "@language" in value else None,
        reverse,
    )


def _short(value: Json) -> str:
    """Return a text of a context; empty if it is not a text, or so long that names made from it could fill memory."""
    return value if isinstance(value, str) and len(value) <= _LONGEST else ""


def _joined(base: str, text: str) -> str:
    """Resolve a reference against a base."""
    try:
        return urljoin(base, text) if base else text
    except ValueError:  # the base is not a valid address
        return text
