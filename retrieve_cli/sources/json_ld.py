"""JSON-LD as triples, read without fetching anything (https://www.w3.org/TR/json-ld11/).

Names are expanded by the contexts in the text, and by prefixes in common use if a dump omits its context. An undefined
name stays unchanged: `name` under a remote context (https://schema.org) is then the same key as `schema:name`, because
a record's keys are local names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from retrieve_cli.contracts import Json
from retrieve_cli.sources.json_ld_context import PREFIXES, UNDEFINED, Context, Definition
from retrieve_cli.sources.rdf import RDF, XSD, Term, Triple

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
    if any(key in KEYWORDS or (":" in key and _is_iri(key)) for key in value):
        return True
    return any(not KEYWORDS.isdisjoint(part) for inner in value.values() for part in _objects(inner))


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
            context = self._under(context, item["@context"])
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

    def _under(self, context: Context, local: Json) -> Context:
        inner = context.under(local)
        self._names += len(inner.names)
        if self._names > _MOST_NAMES:
            raise TooLarge("its contexts define too many names")
        return inner

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
