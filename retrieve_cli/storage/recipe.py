"""The recipe of a generation: everything that changes an answer at build time, as one typed value.

In the manifest it is a flat object: the parts named here under their own names, every other key is the card of a
retriever. It is hashed as canonical JSON; device and batch size stay out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, field

from retrieve_cli.contracts import Card, Json, ModelCard
from retrieve_cli.errors import IndexCorrupt, quoted, shortened
from retrieve_cli.frozen import dataclass
from retrieve_cli.storage import shapes

_HINT = "build again: retrieve build"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that an index was built with."""

    sources: Mapping[str, Card] = field(default_factory=dict)
    """By kind of source, how its records are read."""
    chunking: Mapping[str, Card] = field(default_factory=dict)
    """By kind of source, how its records are cut."""
    retrievers: Mapping[str, Card] = field(default_factory=dict)
    """By name, what changes the answers of each retriever of the index."""
    encoder: Card | None = None
    """The card of the encoder; None if the index has no vectors."""
    columns: Json = None
    """Which values of a record can be filtered by; None before there were filters."""
    graph: Card | None = None
    """Which edges there are; None before there were any."""
    tokens: Card | None = None
    """The card of packed token vectors; None if they are not kept."""

    @property
    def encoder_card(self) -> ModelCard:
        """The card of the encoder.

        Raises:
            IndexCorrupt: there is none, or not a whole one.
        """
        try:
            card = ModelCard(**(self.encoder or {}))
            if not isinstance(card.dim, int) or not isinstance(card.family, str):
                raise TypeError(f"dim {quoted(card.dim)}, family {quoted(card.family)}")
        except TypeError as error:
            raise IndexCorrupt(f"the recipe has no whole encoder card ({error})", hint=_HINT) from error
        return card

    def to_json(self) -> dict[str, Json]:
        """Return the object that the manifest holds."""
        optional = {name: getattr(self, name) for name in _OPTIONAL}
        return {
            "sources": self.sources,
            "chunking": self.chunking,
            **{name: value for name, value in optional.items() if value is not None},
            **self.retrievers,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> Recipe:
        """Return the recipe of an object that `to_json` made.

        Raises:
            ValueError, KeyError: it is not one.
        """
        value = shapes.mapping(value, "`recipe`")
        sources = shapes.mapping(value["sources"], "`sources`")
        chunking = shapes.mapping(value["chunking"], "`chunking`")
        retrievers = {name: card for name, card in value.items() if name not in NAMED}
        optional = {name: value[name] for name in _OPTIONAL if value.get(name) is not None}
        cards = {name: card for name, card in optional.items() if name != "columns"}
        for named in (sources, chunking, retrievers, cards):
            for name, card in named.items():
                shapes.mapping(card, f"the card of {shortened(name)}")
        _hold_encoder(optional.get("encoder", {}))
        return cls(sources, chunking, retrievers, **optional)


def _hold_encoder(card: Card) -> None:
    """Hold the card of an encoder to its types. Raises: ValueError."""
    for name, value in card.items():
        if name in ("dim", "max_tokens"):
            shapes.count(value, f"`{name}` of the encoder")
        elif name == "normalize":
            if not isinstance(value, bool):
                raise ValueError(f"`normalize` of the encoder is neither true nor false: {quoted(value)}")
        else:
            shapes.text(value, f"`{shortened(name)}` of the encoder")


@contextmanager
def cards_read() -> Iterator[None]:
    """Whoever reads what is in a card does so within this: a card that is not as it was written is the index's fault.

    Raises:
        IndexCorrupt: a key is missing, or a value of another type.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise IndexCorrupt(f"a card of the recipe is not as it was written ({quoted(error)})", hint=_HINT) from error


_OPTIONAL = ("encoder", "columns", "graph", "tokens")
NAMED = frozenset({"sources", "chunking", *_OPTIONAL})
"""Keys of the object that are not the name of a retriever."""


def encoder_json(card: ModelCard) -> Card:
    """Return a model card as the recipe holds it."""
    return asdict(card)


def of_passages(encoder: Card) -> Card:
    """Return what decides a passage's vector, of the card of an encoder: what is put before queries does not."""
    return {**encoder, "query_prefix": ""}
