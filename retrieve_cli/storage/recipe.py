"""Recipe of a generation: everything that changes an answer at build time, as one typed value.

In the manifest it is a flat object: the fields named here, and the card of a retriever under every other key. It is
hashed as canonical JSON; device and batch size are excluded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from retrieve_cli.contracts import Card, Json, ModelCard
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.frozen import Frozen

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
            return msgspec.convert(self.encoder, ModelCard)
        except msgspec.ValidationError as error:
            raise IndexCorrupt(f"the recipe has no complete encoder card ({error})", hint=_HINT) from error

    def to_json(self) -> dict[str, Json]:
        """Return the object for the manifest."""
        named = {name: getattr(self, name) for name in NAMED}
        return {**{name: value for name, value in named.items() if value is not None}, **self.retrievers}

    @classmethod
    def from_json(cls, value: Json) -> Recipe:
        """Return the recipe from an object that `to_json` returned. Raises: msgspec.ValidationError: it is invalid."""
        value = msgspec.convert(value, Mapping[str, Json])
        named = {name: card for name, card in value.items() if name in NAMED}
        retrievers = {name: card for name, card in value.items() if name not in NAMED}
        return msgspec.convert({**named, "retrievers": retrievers}, cls)


NAMED = frozenset(Recipe.__struct_fields__) - {"retrievers"}
"""Keys of the object that are not the name of a retriever."""


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


def of_passages(encoder: Card) -> Card:
    """Return the part of an encoder's card that decides a passage's vector: all but the prefix of queries."""
    return {**encoder, "query_prefix": ""}
