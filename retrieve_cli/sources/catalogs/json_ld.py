"""JSON-LD as triples, read without fetching anything (https://www.w3.org/TR/json-ld11/).

Names are expanded by the contexts in the text, and by prefixes in common use if a dump omits its context. An undefined
name stays unchanged: `name` under a remote context (https://schema.org) is then the same key as `schema:name`, because
a record's keys are local names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Final
from urllib.parse import urljoin

from retrieve_cli.contracts import Json
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.sources.catalogs.linked import RDF, XSD, Term, Triple

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


class Definition(Frozen):
    """Definition of a name by a context."""

    iri: str | None
    coerced: str = ""
    """`@id`, `@vocab`, or a datatype."""
    containers: frozenset[str] = frozenset()
    language: str | None = None
    reverse: bool = False


UNDEFINED = Definition("")


class Context(Frozen):
    """Meaning of names in a part of a document."""

    names: Mapping[str, Definition] = {}
    vocabulary: str = ""
    base: str = ""
    language: str = ""

    def under(self, local: Json) -> Context:
        """Return this context extended by a `@context`; a remote context changes nothing."""
        if local is None:
            return Context()
        if isinstance(local, list):
            return reduce(Context.under, local, self)
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


KEYWORDS: Final = frozenset("@context @graph @id @type @value @list @set @reverse @included".split())
"""Keys that identify an object as JSON-LD."""
MOST_TRIPLES: Final = 1_000_000
"""Maximum number of triples in one document or one line."""
_MOST_NAMES = 10_000_000
"""Maximum number of names in all contexts of a document, including inherited ones."""
_WHOLE = 1e21
"""Numbers from here on are written with an exponent."""
_NIL = Term("iri", RDF + "nil")


class TooLarge(Exception):
    """A document with more triples than the limit."""


def is_linked(value: Json) -> bool:
    """Return True if a value is JSON-LD: an object with its keywords or with names of vocabularies, or a list of
    such objects."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(part, dict) and is_linked(part) for part in value)
    if not isinstance(value, dict):
        return False
    if not KEYWORDS.isdisjoint(value) or has_vocabulary(value):
        return True
    return any(not KEYWORDS.isdisjoint(part) for inner in value.values() for part in _objects(inner))


def may_have_keywords(line: bytes) -> bool:
    """Return False if a line of JSON has no keyword as a key: each begins with `@`, which may be escaped."""
    return b'"@' in line or b"\\u0040" in line


def has_vocabulary(item: Mapping[str, Json]) -> bool:
    """Return True if one of an object's own keys is a name of a vocabulary, such as `schema:name`."""
    return any(_is_iri(key) for key in item if ":" in key)


def _objects(value: Json) -> Iterator[Mapping[str, Json]]:
    return (part for part in (value if isinstance(value, list) else [value]) if isinstance(part, dict))


def _is_iri(key: str) -> bool:
    prefix, _, local = key.partition(":")
    return prefix in PREFIXES or (prefix in ("http", "https") and local.startswith("//"))


def triples_of(value: Json) -> tuple[list[Triple], Term]:
    """Return the triples of an object or a list of objects, and the node that the whole value describes.

    Raises:
        TooLarge: there are more triples than the limit.
    """
    reader = _Reader()
    top = reader.node({"@graph": value} if isinstance(value, list) else value, Context())
    return reader.triples, top


class _Reader:
    """Collector of the triples of a document."""

    def __init__(self) -> None:
        self.triples: list[Triple] = []
        self._labels = 0
        self._names = 0

    def node(self, item: Mapping[str, Json], context: Context, subject: Term | None = None) -> Term:
        """Add the statements of an object about its node, and return the node."""
        if "@context" in item:
            context = context.under(item["@context"])
            self._names += len(context.names)
            if self._names > _MOST_NAMES:
                raise TooLarge("its contexts define too many names")
        keys = {raw: _keyword(raw, item) or context.name(raw) for raw in item}
        if subject is None:
            names = [item[raw] for raw, key in keys.items() if key == "@id" and isinstance(item[raw], str)]
            subject = context.reference(names[0]) if names else self._blank()
        for raw, key in keys.items():
            if key.startswith("@"):
                self._keyword(key, item[raw], context, subject)
            elif key:
                self._say(subject, key, item[raw], context, context.names.get(raw, UNDEFINED))
        return subject

    def _keyword(self, key: str, value: Json, context: Context, subject: Term) -> None:
        if key == "@type":
            names = [name for name in (value if isinstance(value, list) else [value]) if isinstance(name, str)]
            for iri in filter(None, map(context.name, names)):
                self._add(subject, RDF + "type", Term("iri", iri))
        elif key in ("@graph", "@included", "@nest"):
            for part in _objects(value):
                self.node(part, context, subject if key == "@nest" else None)
        elif key == "@reverse" and isinstance(value, dict):
            for name, nodes in value.items():
                if iri := context.name(name):
                    self._say(subject, iri, nodes, context, replace(UNDEFINED, reverse=True))

    def _say(self, subject: Term, key: str, value: Json, context: Context, definition: Definition) -> None:
        if "@list" in definition.containers and not isinstance(value, dict):
            value = {"@list": value}
        for term in self._terms(value, context, definition):
            if not definition.reverse:
                self._add(subject, key, term)
            elif term.kind != "literal":
                self._add(term, key, subject)

    def _terms(self, value: Json, context: Context, definition: Definition) -> Iterator[Term]:
        """Yield the terms for a value, and add the triples of its nodes."""
        if isinstance(value, list):
            for part in value:
                yield from self._terms(part, context, definition)
        elif isinstance(value, dict):
            yield from self._of_object(value, context, definition)
        elif isinstance(value, str) and definition.coerced == "@id":
            yield context.reference(value)
        elif isinstance(value, str) and definition.coerced == "@vocab":
            yield Term("iri", context.name(value) or value)
        elif value is not None:
            coerced = "" if definition.coerced.startswith("@") else definition.coerced
            language = context.language if definition.language is None else definition.language
            yield _literal(value, context.name(coerced) if coerced else "", language)

    def _of_object(self, value: Mapping[str, Json], context: Context, definition: Definition) -> Iterator[Term]:
        keys = {_keyword(raw, value) or context.name(raw): raw for raw in value}
        if "@value" in keys:
            literal, datatype, language = (value.get(keys.get(key, "")) for key in ("@value", "@type", "@language"))
            if isinstance(literal, str | int | float):
                yield _literal(literal, context.name(datatype) if isinstance(datatype, str) else "", _text(language))
        elif "@list" in keys:
            yield self._listed(list(self._terms(value[keys["@list"]], context, definition)))
        elif "@set" in keys:
            yield from self._terms(value[keys["@set"]], context, definition)
        elif "@language" in definition.containers:
            for language, texts in value.items():
                spoken = replace(UNDEFINED, language="" if language.startswith("@") else language)
                yield from self._terms(texts, context, spoken)
        elif definition.containers & {"@index", "@id", "@type", "@graph"} and KEYWORDS.isdisjoint(keys):
            for name, part in value.items():
                keyed = "@id" in definition.containers and isinstance(part, dict) and "@id" not in part
                yield from self._terms({**part, "@id": name} if keyed else part, context, UNDEFINED)
        else:
            yield self.node(value, context)

    def _listed(self, terms: list[Term]) -> Term:
        """Add an RDF list and return its first cell."""
        rest = _NIL
        for term in reversed(terms):
            cell = self._blank()
            self._add(cell, RDF + "first", term)
            self._add(cell, RDF + "rest", rest)
            rest = cell
        return rest

    def _blank(self) -> Term:
        self._labels += 1
        return Term("blank", f"#{self._labels}")

    def _add(self, subject: Term, predicate: str, object_: Term) -> None:
        if len(self.triples) >= MOST_TRIPLES:
            raise TooLarge(f"it has more than {MOST_TRIPLES:,} values")
        self.triples.append((subject, predicate, object_))


def _keyword(raw: str, item: Mapping[str, Json]) -> str:
    """Return the keyword for `id` or `type`, as most remote contexts define them; empty for other names."""
    return "@" + raw if raw in ("id", "type") and "@" + raw not in item and isinstance(item[raw], str) else ""


def _literal(value: Json, datatype: str, language: str) -> Term:
    if isinstance(value, bool):
        return Term("literal", str(value).lower(), datatype or XSD + "boolean")
    if isinstance(value, float) and not (value.is_integer() and abs(value) < _WHOLE):
        return Term("literal", repr(value), datatype or XSD + "double")
    if isinstance(value, int | float):
        return Term("literal", str(int(value)), datatype or XSD + "integer")
    if datatype:
        return Term("literal", value, datatype)
    return Term("literal", value, language=language) if language else Term("literal", value, XSD + "string")


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
