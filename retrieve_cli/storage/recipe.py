"""Recipe of a generation: everything that changes an answer at build time, as one typed value.

In the manifest it is a flat object: the fields named here, and the card of a retriever under every other key. It is
hashed as canonical JSON; device and batch size are excluded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from retrieve_cli.contracts import Card, Json, ModelCard
from retrieve_cli.errors import IndexCorrupt, quoted, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage import json_checks

_HINT = "build again: retrieve build"


class Recipe(Frozen):
    """Everything that an index was built with."""

    sources: Mapping[str, Card] = {}
    """Parameters of reading records, by kind of source."""
    chunking: Mapping[str, Card] = {}
    """Parameters of chunking, by kind of source."""
    retrievers: Mapping[str, Card] = {}
    """Parameters that change the answers of each retriever of the index, by name."""
    encoder: Card | None = None
    """The card of the encoder; None if the index has no vectors."""
    columns: Json = None
    """Version of the columns by which records can be filtered; None in indexes without them."""
    graph: Card | None = None
    """Parameters of the edges; None in indexes without edges."""
    tokens: Card | None = None
    """Card of packed token vectors; None if they are not stored."""
    documents: Mapping[str, Card] | None = None
    """Parser of each format that has documents, Markdown and text aside; None if no format has any."""
    facets: Card | None = None
    """Card of the facets of chunks; None if they are not configured."""

    @property
    def encoder_card(self) -> ModelCard:
        """Return the card of the encoder. Raises: IndexCorrupt: it is missing or incomplete."""
        try:
            card = ModelCard(**(self.encoder or {}))
            if not isinstance(card.dim, int) or not isinstance(card.family, str):
                raise TypeError(f"dim {quoted(card.dim)}, family {quoted(card.family)}")
        except TypeError as error:
            raise IndexCorrupt(f"the recipe has no complete encoder card ({error})", hint=_HINT) from error
        return card

    def to_json(self) -> dict[str, Json]:
        """Return the object for the manifest."""
        optional = {name: getattr(self, name) for name in _OPTIONAL}
        return {
            "sources": self.sources,
            "chunking": self.chunking,
            **{name: value for name, value in optional.items() if value is not None},
            **self.retrievers,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> Recipe:
        """Return the recipe from an object that `to_json` returned.

        Raises:
            ValueError, KeyError: the object is invalid.
        """
        value = json_checks.mapping(value, "`recipe`")
        sources = json_checks.mapping(value["sources"], "`sources`")
        chunking = json_checks.mapping(value["chunking"], "`chunking`")
        retrievers = {name: card for name, card in value.items() if name not in NAMED}
        optional = {name: value[name] for name in _OPTIONAL if value.get(name) is not None}
        cards = {name: card for name, card in optional.items() if name != "columns"}
        for named in (sources, chunking, retrievers, cards, optional.get("documents", {})):
            for name, card in named.items():
                json_checks.mapping(card, f"the card of {shortened(name)}")
        for name, entry in optional.get("encoder", {}).items():
            if name in ("dim", "max_tokens"):
                json_checks.count(entry, f"`{name}` of the encoder")
            elif name != "normalize":
                json_checks.text(entry, f"`{shortened(name)}` of the encoder")
            elif not isinstance(entry, bool):
                raise ValueError(f"`normalize` of the encoder is neither true nor false: {quoted(entry)}")
        return cls(sources, chunking, retrievers, **optional)


@contextmanager
def reading_cards() -> Iterator[None]:
    """Convert errors while reading a card into an error of the index: the card is damaged.

    Raises:
        IndexCorrupt: a key is missing, or a value has another type.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise IndexCorrupt(f"a card of the recipe is damaged ({quoted(error)})", hint=_HINT) from error


_OPTIONAL = ("encoder", "columns", "graph", "tokens", "documents", "facets")
NAMED = frozenset({"sources", "chunking", *_OPTIONAL})
"""Keys of the object that are not the name of a retriever."""


def of_passages(encoder: Card) -> Card:
    """Return the part of an encoder's card that decides a passage's vector: all but the prefix of queries."""
    return {**encoder, "query_prefix": ""}
